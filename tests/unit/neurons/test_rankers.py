"""Rankers other than weights: what they ask, what they do with dead neurons, how they agree."""

import numpy as np
import pytest

from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.matrix import Neurons
from vestige.neurons.rankers import RANKERS, agreement, columns, greedy, random
from vestige.neurons.rankers.columns import mutual_informations
from vestige.neurons.rankers.greedy import gaussian
from vestige.neurons.rankers.means import moments

CLASSES = ("A", "B", "C")


def _made(rows=300, seed=0):
    """Unit 4 of layer 0 and unit 1 of layer 1 tell labels; unit 0 and 2 of layer 1 never change."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    first, second = rng.standard_normal((rows, 6)), rng.standard_normal((rows, 4))
    first[:, 4] += 3.0 * (labels == 1)
    second[:, 1] -= 5.0 * (labels == 2)
    second[:, [0, 2]] = 0.1, 0.0
    return Neurons((first.astype(np.float32), second.astype(np.float32))), labels


@pytest.mark.parametrize("name", RANKERS)
def test_every_ranker_orders_all_neurons(name):
    neurons, labels = _made()
    before = [layer.copy() for layer in neurons.layers]
    order = RANKERS[name](neurons, labels, CLASSES)
    assert sorted(order) == list(range(10))
    assert order.tolist() == RANKERS[name](neurons, labels, CLASSES).tolist()
    assert all(np.array_equal(a, b) for a, b in zip(before, neurons.layers, strict=True))


TELLING = [name for name in RANKERS if name != "random"]


@pytest.mark.parametrize("name", TELLING)
def test_telling_neurons_come_first_and_constant_ones_last(name):
    order = RANKERS[name](*_made(), CLASSES)
    assert order[:2].tolist() == [7, 4]
    assert order[-2:].tolist() == [6, 8]


@pytest.mark.parametrize("name", TELLING)
def test_bad_input_is_refused(name):
    neurons, labels = _made()
    with pytest.raises(AnalysisError, match="label 'D' has no example"):
        RANKERS[name](neurons, labels, (*CLASSES, "D"))
    with pytest.raises(AnalysisError, match="numbers from 0 to 2, found"):
        RANKERS[name](neurons, np.where(labels == 0, -1, labels), CLASSES)
    with pytest.raises(AnalysisError, match=r"300 rows of neurons, but labels of shape \(299,\)"):
        RANKERS[name](neurons, labels[1:], CLASSES)
    with pytest.raises(AnalysisError, match="at least two labels"):
        RANKERS[name](neurons, labels * 0, ("A",))
    neurons.layers[1][299, 3] = np.nan
    with pytest.raises(RepresentationError, match="layer 1, unit 3"):
        RANKERS[name](neurons, labels, CLASSES)


@pytest.mark.parametrize("name", ["iou", "average_precision", "mutual_information"])
def test_columns_are_read_in_blocks(name, monkeypatch):
    neurons, labels = _made()
    whole = RANKERS[name](neurons, labels, CLASSES)
    monkeypatch.setattr(columns, "BLOCK_BYTES", 3 * 4 * 300)
    assert RANKERS[name](neurons, labels, CLASSES).tolist() == whole.tolist()


def test_constant_neurons_share_no_information():
    neurons, labels = _made()
    found, constant = mutual_informations(neurons, labels, CLASSES)
    assert found[[6, 8]].tolist() == [0, 0] and np.flatnonzero(constant).tolist() == [6, 8]
    assert (found[~constant] > 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_neuron_that_is_nearly_always_the_same_is_heard(sign):
    labels = np.repeat([0, 1], [4, 296])
    neurons = Neurons((sign * (labels[:, None] == 0).astype(np.float32),))
    share = 4 / 300
    entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
    assert mutual_informations(neurons, labels, "AB")[0] == pytest.approx([entropy])


def test_moments_in_blocks_are_those_of_each_label(monkeypatch):
    neurons, labels = _made()
    monkeypatch.setattr("vestige.neurons.matrix.BLOCK_BYTES", 7 * 4 * 10)
    found = moments(neurons, labels, CLASSES, scatters=True)
    matrix = np.concatenate(neurons.layers, axis=1).astype(np.float64)
    for label in range(3):
        rows = matrix[labels == label]
        assert np.allclose(found.means[label], rows.mean(0), atol=1e-12)
        assert np.allclose(found.scatters[label], rows.var(0) * len(rows), atol=1e-9)


def test_a_neuron_that_changes_comes_before_one_that_never_does():
    labels = np.repeat([0, 1], 40)
    balanced = np.tile([1.0, -1.0], 40)
    neurons = Neurons((np.stack([np.full(80, 0.1), balanced], axis=1).astype(np.float32),))
    for name in TELLING:
        assert RANKERS[name](neurons, labels, "AB").tolist() == [1, 0], name


def test_gaussian_is_greedy_as_far_as_asked(monkeypatch):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 500)
    telling = labels + 0.3 * rng.standard_normal(500)
    other = labels + 0.9 * rng.standard_normal(500)
    copy = telling + 0.01 * rng.standard_normal(500)
    neurons = Neurons((np.stack([telling, copy, other], 1).astype(np.float32),))
    alone = gaussian(neurons, labels, "AB", most=1)
    assert set(alone[:2]) == {0, 1}, "a copy tells as much by itself"
    picked = gaussian(neurons, labels, "AB", most=2)
    assert picked[0] == alone[0] and picked[1] == 2, "but nothing new"
    assert gaussian(neurons, labels, "AB", most=2, candidates=2)[:2].tolist() == alone[:2].tolist()
    monkeypatch.setattr(greedy, "BLOCK_BYTES", 8 * 3 * 11)
    monkeypatch.setattr(greedy, "_CHUNK_BYTES", 4 * 6 * 13)
    assert gaussian(neurons, labels, "AB", most=2).tolist() == picked.tolist()


def test_gaussian_bears_a_label_with_one_example_and_neurons_without_spread():
    neurons, labels = _made()
    labels[:] = np.where(labels == 2, 0, labels)
    labels[7] = 2
    neurons.layers[0][:, 0] = labels  # constant within every label
    order = gaussian(neurons, labels, CLASSES, most=8)
    assert order[0] == 0 and sorted(order) == list(range(10))


@pytest.mark.parametrize("name", TELLING)
def test_neurons_that_all_never_change_are_ranked_somehow(name):
    _, labels = _made()
    neurons = Neurons((np.zeros((300, 3), np.float32), np.full((300, 2), 7, np.float32)))
    assert sorted(RANKERS[name](neurons, labels, CLASSES)) == list(range(5))


@pytest.mark.parametrize("name", TELLING)
def test_stored_half_precision_is_read_as_its_float32(name):
    neurons, labels = _made()
    half = Neurons(tuple(layer.astype(np.float16) for layer in neurons.layers))
    same = Neurons(tuple(layer.astype(np.float32) for layer in half.layers))
    assert RANKERS[name](half, labels, CLASSES).tolist() == RANKERS[name](same, labels, CLASSES).tolist()


def test_random_is_a_matter_of_the_seed():
    neurons, labels = _made()
    assert random(neurons, labels, CLASSES, seed=1).tolist() != random(neurons, labels, CLASSES, seed=2).tolist()


def test_agreement_of_rankings():
    order = np.array([3, 1, 0, 2])
    same = agreement(order, order, tops=(1, 4))
    assert same.overlap == {1: 1.0, 4: 1.0} and same.spearman == pytest.approx(1)
    reversed_ = agreement(order, order[::-1], tops=(1, 2, 3))
    assert reversed_.overlap == {1: 0.0, 2: 0.0, 3: 2 / 3}
    assert reversed_.spearman == pytest.approx(-1)
    swapped = agreement(order, np.array([1, 3, 0, 2]), tops=(1, 2))
    assert swapped.overlap == {1: 0.0, 2: 1.0}
    assert swapped.spearman == pytest.approx(1 - 6 * 2 / 60)


def test_only_rankings_of_the_same_neurons_are_compared():
    with pytest.raises(AnalysisError, match="the same neurons"):
        agreement(np.arange(3), np.arange(4))
    with pytest.raises(AnalysisError, match="the same neurons"):
        agreement(np.array([0, 0, 1]), np.array([0, 0, 1]))
    with pytest.raises(AnalysisError, match="first 9 of 3"):
        agreement(np.arange(3), np.arange(3), tops=(9,))
