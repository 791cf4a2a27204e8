"""Rankings and zero-out against NeuroX 1.0.9 itself, and rankers it lacks against scikit-learn and torch.

Where NeuroX does something else (docs/neurox_differences.md), the difference is shown and ours asserted.
"""

import contextlib
import io

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency
from sklearn.metrics import average_precision_score, jaccard_score, mutual_info_score
from torch.distributions import MultivariateNormal

from vestige.corpus.control import control_labels
from vestige.errors import AnalysisError
from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.neurons.rankers import random as random_order
from vestige.neurons.rankers.columns import average_precision, average_precisions, best_ious, iou, mutual_informations
from vestige.neurons.rankers.greedy import gaussian
from vestige.neurons.rankers.means import probeless
from vestige.neurons.ranking import bottom, per_label, rank, top

if not hasattr(np, "int"):
    np.int = int  # NeuroX is older than numpy 1.24
_MISSING = "NeuroX is missing: pip install --no-deps neurox==1.0.9"
linear_probe = pytest.importorskip("neurox.interpretation.linear_probe", reason=_MISSING)
neurox_ablation = pytest.importorskip("neurox.interpretation.ablation", reason=_MISSING)
neurox_probeless = pytest.importorskip("neurox.interpretation.probeless", reason=_MISSING)

ROWS, WIDTHS, LABELS = 1500, (20, 30), 6


def _quietly(function, *arguments, **options):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return function(*arguments, **options)


def _probe(weights: np.ndarray, bias: np.ndarray | None = None):
    """A probe of NeuroX's with these weights (neurons, labels)."""
    probe = linear_probe.LinearProbe(*weights.shape)
    with torch.no_grad():
        probe.linear.weight.copy_(torch.tensor(weights.T))
        probe.linear.bias.copy_(torch.zeros(weights.shape[1]) if bias is None else torch.tensor(bias))
    return probe


def _names(weights: np.ndarray) -> dict[str, int]:
    return {f"label {label}": label for label in range(weights.shape[1])}


def _distinct(seed: int, neurons: int = 90, labels: int = 7) -> np.ndarray:
    """Whole numbers without ties: all sums are exact in float32."""
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(neurons * 3)[:neurons] + 1 for _ in range(labels)]
    return (np.stack(columns, axis=1) * rng.choice([-1, 1], (neurons, labels))).astype(np.float32)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, LABELS, ROWS)
    matrix = rng.standard_normal((ROWS, sum(WIDTHS))).astype(np.float32)
    for unit in range(15):
        matrix[:, 3 * unit] += (labels == unit % LABELS) * (2.5 - 0.1 * unit)
    return matrix, labels


@pytest.fixture(scope="module")
def trained(data):
    """(probe, weights, bias) that NeuroX trained itself."""
    torch.manual_seed(0)
    probe = _quietly(linear_probe.train_logistic_regression_probe, *data, lambda_l1=1e-4, lambda_l2=1e-4, num_epochs=4)
    return probe, probe.linear.weight.detach().numpy().T.copy(), probe.linear.bias.detach().numpy().copy()


def _neurons(matrix: np.ndarray) -> Neurons:
    return Neurons((matrix[:, : WIDTHS[0]].copy(), matrix[:, WIDTHS[0] :].copy()))


def _at_mass(weights: np.ndarray, mass: float) -> np.ndarray:
    key = rank(weights).key
    return np.flatnonzero((key < mass) | (key == 0))


@pytest.mark.parametrize("seed", range(4))
def test_top_neurons_at_every_mass(seed):
    weights = _distinct(seed)
    probe = _probe(weights)
    for part in range(65):
        theirs, by_label = linear_probe.get_top_neurons(probe, part / 64, _names(weights))
        assert set(theirs) == set(_at_mass(weights, part / 64)), part
        ours = per_label(rank(weights), len(theirs))
        for name, label in _names(weights).items():
            assert set(ours[label]) <= set(by_label[name]), (part, name)


@pytest.mark.parametrize("seed", range(4))
def test_with_ties_as_many_neurons_of_the_same_weights(seed):
    weights = np.random.default_rng(seed).integers(0, 5, (60, 1)).astype(np.float32)
    probe = _probe(weights)
    for part in range(1, 65):
        theirs, _ = linear_probe.get_top_neurons(probe, part / 64, {"only": 0})
        ours = _at_mass(weights, part / 64)
        assert sorted(weights[ours, 0]) == sorted(weights[theirs, 0])


@pytest.mark.parametrize("seed", range(3))
def test_the_ordering_has_the_same_neurons_before_every_cutoff(seed):
    weights = _distinct(seed)
    order, cutoffs = _quietly(linear_probe.get_neuron_ordering, _probe(weights), _names(weights), search_stride=64)
    found = rank(weights).order
    for cutoff in cutoffs:
        assert set(order[:cutoff]) == set(found[:cutoff]), cutoff
    assert len(order) == len(found)


def test_the_probe_that_neurox_trained(trained):
    probe, weights, _ = trained
    found = rank(weights)
    order, cutoffs = _quietly(linear_probe.get_neuron_ordering, probe, _names(weights))
    assert len(set(cutoffs)) > 20
    for percent, cutoff in enumerate(cutoffs):
        near = np.abs(found.key - percent / 100) < 1e-6  # NeuroX sums in float32
        differ = set(order[:cutoff]) ^ set(found.order[:cutoff])
        assert differ <= set(np.flatnonzero(near)), percent
    bottoms = _quietly(
        linear_probe.get_fixed_number_of_bottom_neurons, probe, len(order) - cutoffs[50], _names(weights)
    )
    assert set(bottoms) == set(bottom(found, len(order) - cutoffs[50]))


def test_the_fixed_example():
    weights = np.array([[4.0, 1.0, 5.0], [1.0, 1.0, 10.0]]).T.astype(np.float32)
    order, _ = _quietly(linear_probe.get_neuron_ordering, _probe(weights), _names(weights))
    assert order == rank(weights).order.tolist() == [2, 0, 1]


def test_neurox_drops_neurons_without_weight_and_we_put_them_last():
    weights = _distinct(0)
    weights[40:70] = 0
    probe = _probe(weights)
    order, _ = _quietly(linear_probe.get_neuron_ordering, probe, _names(weights), search_stride=64)
    assert len(order) == 60
    with pytest.raises(IndexError):
        _quietly(linear_probe.get_neuron_ordering_granular, probe, _names(weights), granularity=10)
    found = rank(weights)
    assert set(found.order[:60]) == set(order) and set(found.order[60:]) == set(range(40, 70))
    lost = linear_probe.get_fixed_number_of_bottom_neurons
    assert not set(_quietly(lost, probe, 20, _names(weights))) & set(range(40, 70))
    assert set(bottom(found, 20)) <= set(range(40, 70))


def test_neurox_takes_some_neuron_of_a_label_without_weights_and_we_take_none():
    weights = np.array([[0.0, 5.0], [0.0, 1.0], [0.0, 0.0]], dtype=np.float32)
    theirs, by_label = linear_probe.get_top_neurons(_probe(weights), 0.5, _names(weights))
    assert len(by_label["label 0"]) == 1 and set(theirs) == {0, 2}
    assert _at_mass(weights, 0.5).tolist() == [0]
    assert per_label(rank(weights), 2)[0].tolist() == []


def test_neurox_sums_in_single_precision_and_we_in_double():
    """A large weight and many small ones: at half the mass NeuroX is tens of neurons off."""
    weights = np.full((200_001, 1), 0.01, dtype=np.float32)
    weights[0] = 2000.0
    theirs, _ = linear_probe.get_top_neurons(_probe(weights), 0.75, {"only": 0})
    small = float(np.float32(0.01))
    exact = 1 + int(np.ceil((0.75 * (2000.0 + 200_000 * small) - 2000.0) / small))
    assert len(_at_mass(weights, 0.75)) == exact
    assert abs(len(theirs) - exact) > 20


def test_neurox_takes_the_last_of_equal_weights_and_we_the_first():
    weights = np.ones((5, 1), dtype=np.float32)
    assert list(linear_probe.get_top_neurons(_probe(weights), 0.0, {"only": 0})[0]) == [4]
    assert _at_mass(weights, 0.0).tolist() == [0]


def test_neurox_has_101_steps_and_we_have_none():
    """With many labels hundreds of neurons enter at one step of NeuroX, in the order of a set; ours have keys."""
    weights = np.random.default_rng(0).standard_normal((3000, 40)).astype(np.float32)
    order, cutoffs = _quietly(linear_probe.get_neuron_ordering, _probe(weights), _names(weights))
    assert len(cutoffs) == 101 and max(np.diff(cutoffs)) > 200
    step = order[cutoffs[1] : cutoffs[2]]
    found = rank(weights)
    assert (np.diff(found.key[step]) < 0).any() and (np.diff(found.key[found.order]) >= 0).all()
    assert len(np.unique(found.key[step])) == len(step)


def test_when_sums_are_rounded_neurox_ranks_neurons_without_weight_at_the_last_step():
    weights = np.random.default_rng(3).standard_normal((300, 4)).astype(np.float32)
    weights[100:200] = 0
    order, _ = _quietly(linear_probe.get_neuron_ordering, _probe(weights), _names(weights))
    assert set(range(100, 200)) & set(order)
    assert rank(weights).ranked == 200


def test_neurox_slices_what_does_not_exist_and_we_say_so(trained):
    probe, weights, _ = trained
    assert len(_quietly(linear_probe.get_fixed_number_of_bottom_neurons, probe, 1000, _names(weights))) == 50
    with pytest.raises(AnalysisError, match="1000 neurons were asked for, but there are 50"):
        bottom(rank(weights), 1000)


def test_neurox_draws_each_neuron_by_itself_and_we_draw_an_order(trained):
    np.random.seed(0)  # NeuroX has no generator of its own
    sizes = {len(linear_probe.get_random_neurons(trained[0], 0.5)) for _ in range(20)}
    assert len(sizes) > 3
    matrix = np.zeros((2, 50), dtype=np.float32)
    assert sorted(random_order(_neurons(matrix), np.zeros(2), "AB", seed=1)) == list(range(50))


def test_zero_out_accuracies(data, trained):
    (matrix, labels), (probe, weights, bias) = data, trained
    ranking = rank(weights)
    keeps = {f"top {count}": top(ranking, count) for count in (1, 5, 10, 50)}
    keeps |= {f"bottom {count}": bottom(ranking, count) for count in (5, 10, 40)}
    found = ablate(_neurons(matrix), labels, weights, bias, keeps)
    for name, kept in keeps.items():
        ablated = neurox_ablation.zero_out_activations_keep_neurons(matrix, kept)
        scores, predictions = _quietly(
            linear_probe.evaluate_probe,
            probe,
            ablated,
            labels,
            return_predictions=True,
            source_tokens=[["word"] * ROWS],
            idx_to_class={label: str(label) for label in range(LABELS)},
        )
        assert found.accuracy[name] == pytest.approx(scores["__OVERALL__"], abs=1e-12)
        assert found.correct[name].tolist() == [right for _, _, right in predictions]
    plain = _quietly(linear_probe.evaluate_probe, probe, matrix, labels)["__OVERALL__"]
    assert found.accuracy["top 50"] == pytest.approx(plain, abs=1e-12)


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_of_a_label_without_example_neurox_tells_nan_and_we_tell_only_rows(data, trained):
    (matrix, labels), (probe, weights, bias) = data, trained
    few = labels < LABELS - 1
    names = {label: str(label) for label in range(LABELS)}
    scores = _quietly(linear_probe.evaluate_probe, probe, matrix[few], labels[few], idx_to_class=names)
    assert np.isnan(scores[str(LABELS - 1)])
    found = ablate(_neurons(matrix[few]), labels[few], weights, bias, {"all": np.arange(50)})
    assert found.accuracy["all"] == pytest.approx(scores["__OVERALL__"], abs=1e-12)


def test_probeless(data):
    matrix, labels = data
    names = [str(label) for label in range(LABELS)]
    assert probeless(_neurons(matrix), labels, names).tolist() == neurox_probeless.get_neuron_ordering(matrix, labels)


def test_neurox_ranks_a_constant_neuron_by_rounding_and_we_put_it_last(data):
    matrix, labels = data
    matrix = (1e-6 * matrix).astype(np.float32)
    matrix[:, 7] = 1000.1
    assert neurox_probeless.get_neuron_ordering(matrix, labels)[0] == 7
    assert probeless(_neurons(matrix), labels, "ABCDEF")[-1] == 7


def _columns():
    """A smooth neuron, one with many ties, and one that is mostly zero."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 400)
    smooth = rng.standard_normal(400) + (labels == 1)
    return labels, [smooth, smooth.round(0), np.maximum(smooth - 1, 0), rng.integers(0, 2, 400).astype(float)]


@pytest.mark.parametrize("number", range(4))
def test_average_precision_is_that_of_scikit_learn(number):
    labels, columns = _columns()
    found = average_precisions(columns[number].astype(np.float32), labels, 4)
    column = columns[number].astype(np.float32)
    for label in range(4):
        assert found[0, label] == pytest.approx(average_precision_score(labels == label, column), abs=1e-12)
        assert found[1, label] == pytest.approx(average_precision_score(labels == label, -column), abs=1e-12)


def test_the_repositorys_detector_ranking_is_our_average_precision_of_activations_without_small_ones():
    """`iou_probe` of NeuroX's repository: values below a threshold become 0 in place, then average precision."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 300)
    matrix = (0.1 * rng.standard_normal((300, 12)) + 0.1 * labels[:, None] * rng.random(12)).astype(np.float32)
    ablated = np.where(np.abs(matrix) < 0.05, 0, matrix)
    theirs = np.argsort([average_precision_score(labels, column) for column in ablated.T])[::-1]
    ours = [average_precisions(column, labels, 2)[0, 1] for column in ablated.T]
    assert np.argsort(ours)[::-1].tolist() == theirs.tolist()
    before = matrix.copy()
    for ranker in (iou, average_precision):
        ranker(Neurons((matrix,)), labels, "AB")
        np.testing.assert_array_equal(matrix, before)


def _control_by_draws(sentences: list[list[str]], shares: dict[str, float], seed: int) -> list[list[str]]:
    """Hewitt and Liang's labels as NeuroX's repository draws them: one for each new type, in the order of the text."""
    rng, drawn = np.random.default_rng(seed), {}
    for word in (word for sentence in sentences for word in sentence):
        if word not in drawn:
            drawn[word] = str(rng.choice(list(shares), p=list(shares.values())))
    return [[drawn[word] for word in sentence] for sentence in sentences]


def test_control_labels_are_distributed_as_drawn_ones_but_do_not_hang_on_the_order():
    rng = np.random.default_rng(0)
    sentences = [[f"w{word}" for word in rng.integers(0, 4000, 8)] for _ in range(1500)]
    shares = {"N": 0.5, "V": 0.3, "D": 0.2}
    counts = {label: int(1000 * share) for label, share in shares.items()}
    types = sorted({word for sentence in sentences for word in sentence})
    ours = control_labels(types, counts, seed=0)
    drawn = _control_by_draws(sentences, shares, seed=0)
    of_type = {word: label for s, labels in zip(sentences, drawn, strict=True) for word, label in zip(s, labels)}  # noqa: B905
    table = [[list(labels.values()).count(label) for label in shares] for labels in (ours, of_type)]
    assert chi2_contingency(table).pvalue > 0.01
    assert ours == control_labels(types[::-1], counts, seed=0)
    assert drawn != _control_by_draws(sentences[::-1], shares, seed=0)[::-1]


@pytest.mark.parametrize("number", range(4))
def test_intersection_over_union_is_the_best_of_all_thresholds(number):
    labels, columns = _columns()
    labels, column = labels[:40], columns[number][:40]
    found = best_ious(column, labels, 4)
    for sign, row in ((1, found[0]), (-1, found[1])):
        for label in range(4):
            best = max(jaccard_score(labels == label, sign * column >= cut) for cut in np.unique(sign * column))
            assert row[label] == pytest.approx(best, abs=1e-12)


def test_mutual_information_is_that_of_scikit_learn():
    labels, columns = _columns()
    found, _ = mutual_informations(Neurons((np.stack(columns[1:], axis=1),)), labels, "ABCD", bins=400)
    for bits, column in zip(found, columns[1:], strict=True):
        assert bits == pytest.approx(
            mutual_info_score(labels, np.unique(column, return_inverse=True)[1]) / np.log(2), abs=1e-12
        )
    tenths = np.argsort(np.argsort(columns[0])) // 40
    found, _ = mutual_informations(Neurons((columns[0][:, None],)), labels, "ABCD", bins=10)
    assert found == pytest.approx([mutual_info_score(labels, tenths) / np.log(2)], abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_gaussians_are_those_of_whole_covariance_matrices(seed):
    """Every subset's posterior anew, from multivariate normals, on neurons that are correlated."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [4, 10, 16]))
    matrix = rng.standard_normal((30, 7)) @ rng.standard_normal((7, 7)) + rng.standard_normal((3, 7))[labels]
    values, truth = torch.tensor(matrix), torch.tensor(labels)
    groups = [values[truth == label] for label in range(3)]
    scatters = [(group - group.mean(0)).T @ (group - group.mean(0)) for group in groups]
    within = torch.diag(sum(scatters).diagonal() / 30)
    covariances = [(scatter + within) / (len(group) + 1) for scatter, group in zip(scatters, groups, strict=True)]

    def posterior(chosen: list[int]) -> float:
        joint = torch.stack(
            [
                MultivariateNormal(group.mean(0)[chosen], covariance[chosen][:, chosen]).log_prob(values[:, chosen])
                + np.log(len(group) / 30)
                for group, covariance in zip(groups, covariances, strict=True)
            ],
            dim=1,
        )
        return float(joint.log_softmax(1)[torch.arange(30), truth].mean())

    picked: list[int] = []
    while len(picked) < 6:
        rest = [neuron for neuron in range(7) if neuron not in picked]
        picked.append(max(rest, key=lambda neuron: posterior([*picked, neuron])))
    neurons = Neurons((matrix[:, :3].astype(np.float32), matrix[:, 3:].astype(np.float32)))
    assert gaussian(neurons, labels, "ABC", most=6)[:6].tolist() == picked
    alone = sorted(range(7), key=lambda neuron: -posterior([neuron]))
    assert gaussian(neurons, labels, "ABC", most=1).tolist() == alone
