"""Probes over all neurons: rows, labels and penalties that no solver can use are named, wherever they are given."""

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import minimal_sets, train_subsets
from vestige.neurons.ranking import rank
from vestige.neurons.search import search_penalties
from vestige.probes.elastic_net.path import solve_path
from vestige.probes.elastic_net.polish import polish

ROWS, WIDTH = 400, 12


def made():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, ROWS)
    x = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    x[:, 2] += 2 * (labels == 1)
    x[:, 7] -= 2 * (labels == 2)
    return x, torch.from_numpy(labels)


def neurons(x: np.ndarray) -> Neurons:
    return Neurons((x[:, :5], x[:, 5:]))


def by_minimal_sets(source, labels, classes):
    held = neurons(made()[0])
    return minimal_sets(source, labels, held, made()[1].numpy(), classes, np.arange(WIDTH), 0.7, (0.0,), step=4)


def by_search(source, labels, classes):
    held = neurons(made()[0])
    return search_penalties(source, labels, held, made()[1].numpy(), classes, l1=(0.0, 1e-2), l2=(0.0,))


ENTRIES = {
    "polish": lambda source, labels, classes: polish(source, labels, classes, 1e-3, 1e-3, rounds=1),
    "solve_path": lambda source, labels, classes: solve_path(source, labels, classes, [0.0, 1e-2], [0.0]),
    "train_subsets": lambda source, labels, classes: train_subsets(source, labels, classes, np.arange(WIDTH), [3, 12]),
    "minimal_sets": by_minimal_sets,
    "search_penalties": by_search,
}
every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))


@every_entry
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_value_that_is_not_finite_is_named(entry, value):
    x, labels = made()
    x[300, 6] = value
    with pytest.raises(RepresentationError, match=f"row 300, column 6 .* is {value}"):
        entry(neurons(x), labels, 3)


@every_entry
def test_labels_that_are_no_classes(entry):
    x, labels = made()
    with pytest.raises(AnalysisError, match=r"from 0 to 1, found torch.int64 from 0 to 2"):
        entry(neurons(x), labels, 2)
    labels[5] = -1
    with pytest.raises(AnalysisError, match=r"from 0 to 2, found torch.int64 from -1 to 2"):
        entry(neurons(x), labels, 3)


@every_entry
def test_constant_neurons_are_no_harm(entry):
    x, labels = made()
    x[:, 0], x[:, 3] = 0.0, 5.0
    entry(neurons(x), labels, 3)


class TestAClassWithoutExample:
    """It is never predicted, and changes nothing for the others."""

    @pytest.mark.parametrize("l1", [0.0, 1e-3])
    def test_is_never_predicted(self, l1):
        x, labels = made()
        source = neurons(x)
        probe = polish(source, labels, 5, l1, 1e-4)
        plain = polish(source, labels, 3, l1, 1e-4)
        predicted = (torch.from_numpy(x) @ probe.weights + probe.biases).argmax(1)
        assert set(predicted.tolist()) == {0, 1, 2}
        assert probe.objective == pytest.approx(plain.objective, abs=5e-3)
        (subset,) = train_subsets(source, labels, 5, np.arange(12), [8], l1=l1)
        assert set(subset.predict(source).tolist()) == {0, 1, 2}

    def test_a_label_of_dev_alone_is_never_right(self):
        x, labels = made()
        held = labels.numpy().copy()
        held[:100] = -1
        source = neurons(x)
        reached, tried = minimal_sets(source, labels, source, held, 3, np.arange(12), 0.4, (0.0,), step=4)
        assert all(step.accuracy <= 0.75 for step in tried)
        assert reached[0.0].accuracy >= 0.4
        searched = search_penalties(source, labels, source, held, 3, l1=(0.0, 1e-2), l2=(0.0,))
        assert 0.4 < searched.best.accuracy <= 0.75


class TestPolish:
    def test_one_label_per_row(self):
        x, labels = made()
        for wrong, count in ((labels[1:], 399), (torch.cat([labels, labels]), 800)):
            with pytest.raises(AnalysisError, match=f"{count} labels for 400 training rows"):
                polish(neurons(x), wrong, 3, 0.0, 0.0)
        with pytest.raises(AnalysisError, match="0 labels for 0"):
            polish(neurons(x[:0]), labels[:0], 3, 0.0, 0.0)
        with pytest.raises(AnalysisError, match=r"found torch.float32"):
            polish(neurons(x), labels.float(), 3, 0.0, 0.0)

    @pytest.mark.parametrize("strength", [-1.0, float("nan"), float("inf")])
    def test_penalties(self, strength):
        x, labels = made()
        with pytest.raises(AnalysisError, match="l1 is a number from 0 on"):
            polish(neurons(x), labels, 3, strength, 0.0)
        with pytest.raises(AnalysisError, match="l2 is a number from 0 on"):
            polish(neurons(x), labels, 3, 0.0, strength)

    def test_a_start_of_another_shape(self):
        x, labels = made()
        with pytest.raises(AnalysisError, match=r"a start of \(1, 3\) weights"):
            polish(neurons(x), labels, 3, 0.0, 0.0, start=(torch.zeros(1, 3), torch.zeros(3)))

    def test_a_start_beyond_all_numbers(self):
        x, labels = made()
        start = torch.full((12, 3), torch.nan), torch.zeros(3)
        with pytest.raises(AnalysisError, match="beyond all numbers, though the rows are finite"):
            polish(neurons(x), labels, 3, 0.0, 0.0, start=start)

    @pytest.mark.parametrize("rows", [np.zeros((ROWS, WIDTH), np.float32), made()[0]])
    def test_without_any_weight_the_majority_is_predicted_and_no_neuron_ranked(self, rows):
        labels = torch.tensor([0] * 80 + [1] * 220 + [2] * 100)
        probe = polish(neurons(rows), labels, 3, 10.0, 0.0, rounds=2)
        assert probe.zeros == 1.0 and int(probe.biases.argmax()) == 1
        shares = torch.tensor([0.2, 0.55, 0.25])
        torch.testing.assert_close(probe.biases.softmax(0), shares, rtol=0, atol=0.03)
        with pytest.raises(AnalysisError, match="smaller l1"):
            rank(probe.weights)
