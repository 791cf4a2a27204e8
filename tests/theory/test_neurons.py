"""What must hold of rankings and zero-out, whatever the weights."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import norm

from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.neurons.rankers import RANKERS
from vestige.neurons.rankers.columns import mutual_informations
from vestige.neurons.rankers.means import distances_to_other_labels
from vestige.neurons.ranking import bottom, per_label, rank, top

WEIGHTS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.integers(-6, 6).map(float),
).filter(lambda weights: weights.any())
"""Small whole numbers: many ties, many zeros, exact sums."""
MASSES = st.integers(0, 64).map(lambda part: part / 64)


def _at_mass(weights: np.ndarray, mass: float) -> set[int]:
    """The union over labels of the largest weights that hold the mass: neurons whose key is below it."""
    key = rank(weights).key
    return set(np.flatnonzero((key < mass) | (key == 0)))


def _by_definition(weights: np.ndarray, mass: float) -> set[int]:
    """The shortest runs that reach the mass, neuron by neuron."""
    chosen: set[int] = set()
    for column in np.abs(weights).T:
        total = column.sum()
        order = sorted(range(len(column)), key=lambda neuron: (-column[neuron], neuron))
        reached = 0.0
        for neuron in order if total else []:
            chosen.add(neuron)
            reached += column[neuron]
            if reached >= mass * total:
                break
    return chosen


@given(WEIGHTS, MASSES)
def test_the_union_at_a_mass_is_what_the_definition_says(weights, mass):
    found = rank(weights)
    expected = _by_definition(weights, mass)
    assert _at_mass(weights, mass) == expected
    assert set(found.order[: len(expected)]) == expected, "every union is a beginning of the ranking"


@given(WEIGHTS)
def test_the_order_is_one_of_all_neurons_with_rising_keys(weights):
    found = rank(weights)
    assert sorted(found.order) == list(range(len(weights)))
    keys = found.key[found.order]
    assert (keys[1:] >= keys[:-1]).all()
    assert found.ranked == np.abs(weights).any(1).sum() == np.isfinite(keys).sum()


@given(WEIGHTS, MASSES, MASSES)
def test_the_union_grows_with_the_mass(weights, one, other):
    low, high = sorted((one, other))
    assert _at_mass(weights, low) <= _at_mass(weights, high)


@given(WEIGHTS, st.integers(0, 12))
def test_the_lists_of_labels_make_up_the_union(weights, count):
    found = rank(weights)
    count = min(count, found.ranked)
    union = {neuron for names in per_label(found, count) for neuron in names.tolist()}
    assert len(union) >= count
    assert union == set(found.order[: len(union)].tolist())


@given(st.integers(0, 2**31))
def test_permuting_neurons_permutes_the_ranking(seed):
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((30, 4))
    weights[:3] = 0
    shuffle = rng.permutation(30)
    plain, permuted = rank(weights), rank(weights[shuffle])
    assert np.array_equal(shuffle[permuted.order[:27]], plain.order[:27])
    assert np.array_equal(permuted.key, plain.key[shuffle])


@given(WEIGHTS, st.sampled_from([0.25, 2.0, 1024.0]))
def test_scaling_signing_or_repeating_labels_changes_nothing(weights, factor):
    plain = rank(weights).order.tolist()
    assert rank(-factor * weights).order.tolist() == plain
    assert rank(np.concatenate([weights, weights], axis=1)).order.tolist() == plain


def test_planted_strengths_come_back_in_order():
    rng = np.random.default_rng(0)
    weights = 0.01 * rng.standard_normal((500, 3))
    planted = rng.permutation(500)[:12]
    for place, neuron in enumerate(planted):
        weights[neuron, place % 3] = 50.0 - place
    # the first of each label enter at mass 0, largest share first; then the second of each, and so on
    found = rank(weights).order[:12]
    for label in range(3):
        of_label = [neuron for neuron in found if neuron in planted[label::3]]
        assert of_label == planted[label::3].tolist()
    assert {frozenset(found[k : k + 3]) for k in range(0, 12, 3)} == {
        frozenset(planted[k : k + 3]) for k in range(0, 12, 3)
    }


def test_copies_of_a_neuron_follow_each_other_by_id():
    weights = np.array([[1.0], [3.0], [3.0], [2.0], [3.0]])
    assert rank(weights).order.tolist() == [1, 2, 4, 3, 0]
    alone = np.array([[5.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
    assert rank(alone).order.tolist() == [0, 1, 2]


def test_random_weights_of_many_labels_use_up_neurons_fast():
    """A few percent of the mass are not a few percent of the neurons: the union grows with every label."""
    weights = np.random.default_rng(0).standard_normal((9984, 45))
    sizes = [len(_at_mass(weights, mass)) for mass in (0.0, 0.05, 0.2)]
    assert sizes[0] <= 45
    assert 0.4 < sizes[1] / 9984 < 0.55 and sizes[2] / 9984 > 0.95


@pytest.fixture(scope="module")
def planted():
    """Unit u of 60 tells label u % 4 the better the lower u, for the first 8; the others are noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 3000)
    matrix = rng.standard_normal((3000, 60)).astype(np.float32)
    for unit in range(8):
        matrix[:, unit] += (3.0 - 0.3 * unit) * (labels == unit % 4) * (-1) ** unit
    shuffle = rng.permutation(60)
    return Neurons((matrix[:, shuffle[:25]].copy(), matrix[:, shuffle[25:]].copy())), labels, shuffle


@pytest.mark.parametrize("name", [name for name in RANKERS if name != "random"])
def test_planted_neurons_are_found_by_every_ranker(planted, name):
    neurons, labels, shuffle = planted
    found = shuffle[RANKERS[name](neurons, labels, "ABCD")]
    assert set(found[:8]) == set(range(8))
    if name != "gaussian":  # which looks for what is new, not for what is strong
        assert all(abs(place - unit) <= 2 for place, unit in enumerate(found[:8])), found[:8]


@pytest.mark.parametrize("name", [name for name in RANKERS if name != "random"])
def test_permuting_neurons_permutes_every_ranking(planted, name):
    neurons, labels, _ = planted
    matrix = np.concatenate(neurons.layers, axis=1)
    shuffle = np.random.default_rng(1).permutation(60)
    plain = RANKERS[name](Neurons((matrix,)), labels, "ABCD")
    permuted = shuffle[RANKERS[name](Neurons((matrix[:, shuffle],)), labels, "ABCD")]
    sure = 24 if name == "gaussian" else 60  # noise may differ by less than float32 holds
    assert np.array_equal(permuted[:sure], plain[:sure])


@pytest.mark.parametrize("name", ["iou", "average_precision", "mutual_information", "gaussian"])
def test_the_scale_of_a_neuron_tells_nothing(planted, name):
    neurons, labels, _ = planted
    scales = 2.0 ** np.random.default_rng(2).integers(-8, 8, 60)
    matrix = np.concatenate(neurons.layers, axis=1)
    scaled = RANKERS[name](Neurons(((matrix * scales).astype(np.float32),)), labels, "ABCD")
    assert np.array_equal(scaled, RANKERS[name](Neurons((matrix,)), labels, "ABCD"))


def test_information_is_that_of_the_distribution():
    """Two labels, means 2 deviations apart: the estimate comes near the integral."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20000)
    neurons = Neurons((np.stack([rng.standard_normal(40000) + 2 * labels, rng.standard_normal(40000)], 1),))
    grid = np.linspace(-8, 10, 20001)
    zero, one = norm.pdf(grid), norm.pdf(grid, 2)
    mean = (zero + one) / 2
    exact = 0.5 * np.trapezoid(zero * np.log2(zero / mean) + one * np.log2(one / mean), grid)
    binned, _ = mutual_informations(neurons, labels, "AB", bins=64)
    assert binned == pytest.approx([exact, 0.0], abs=0.01)
    copied = Neurons((labels[:, None].astype(np.float32),))
    assert mutual_informations(copied, labels, "AB")[0] == pytest.approx([1.0])


def test_distances_of_means_are_those_of_all_pairs():
    means = np.random.default_rng(0).standard_normal((7, 5)).round(1)
    pairs = np.abs(means[:, None] - means[None]).sum(1)
    assert np.allclose(distances_to_other_labels(means), pairs)


def _probe(rng, rows=2000, width=24, classes=5):
    matrix = rng.standard_normal((rows, width)).astype(np.float32)
    weights, bias = rng.standard_normal((width, classes)), rng.standard_normal(classes)
    labels = (matrix @ weights + bias).argmax(1)
    labels[::3] = rng.integers(0, classes, len(labels[::3]))
    return Neurons((matrix[:, :10].copy(), matrix[:, 10:].copy())), labels, weights, bias


def test_keeping_all_is_the_probe_and_keeping_none_its_bias():
    neurons, labels, weights, bias = _probe(np.random.default_rng(0))
    found = ablate(neurons, labels, weights, bias, {"all": np.arange(24), "none": np.arange(0)})
    logits = neurons.rows(slice(None)) @ torch.tensor(weights).float() + torch.tensor(bias).float()
    assert np.array_equal(found.correct["all"], logits.argmax(1).numpy() == labels)
    assert np.array_equal(found.correct["none"], labels == bias.argmax())


def test_zero_out_of_neurons_without_weight_changes_nothing():
    neurons, labels, weights, bias = _probe(np.random.default_rng(1))
    weights[6:] = 0
    ranking = rank(weights)
    found = ablate(
        neurons, labels, weights, bias, {"top": top(ranking, 6), "all": np.arange(24), "bottom": bottom(ranking, 18)}
    )
    assert np.array_equal(found.correct["top"], found.correct["all"])
    assert np.array_equal(found.correct["bottom"], labels == bias.argmax())


@given(st.integers(0, 2**31), st.integers(1, 6))
def test_a_set_is_judged_alike_alone_and_among_others(seed, count):
    rng = np.random.default_rng(seed)
    neurons, labels, weights, bias = _probe(rng, rows=40)
    keeps = {str(n): np.flatnonzero(rng.random(24) < rng.random()) for n in range(count)}
    together = ablate(neurons, labels, weights, bias, keeps).correct
    for name, kept in keeps.items():
        assert np.array_equal(together[name], ablate(neurons, labels, weights, bias, {name: kept}).correct[name])
