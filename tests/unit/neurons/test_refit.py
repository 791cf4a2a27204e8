"""A probe fitted once more: what it shares with the first says how far a ranking is the solver's doing."""

import numpy as np
import pytest
import torch

from vestige.neurons.matrix import Neurons
from vestige.neurons.ranking import rank
from vestige.neurons.refit import Refit, refit
from vestige.probes.elastic_net.polish import Polished, polish

ROWS, WIDTH, TELLING = 400, 60, 6


def rows(strength):
    """Two layers of noise, in which the first six neurons tell three labels as strongly as asked."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, ROWS)
    means = np.zeros((3, WIDTH))
    means[:, :TELLING] = strength * np.repeat(np.eye(3), 2, axis=1)
    x = (rng.normal(size=(ROWS, WIDTH)) + means[labels]).astype(np.float32)
    return Neurons((x[:, :30].copy(), x[:, 30:].copy())), torch.from_numpy(labels)


@pytest.mark.parametrize("from_zero", [True, False])
def test_neurons_that_stand_out_are_found_again(from_zero):
    source, labels = rows(2.0)
    first = rank(polish(source, labels, 3, 1e-2, 1e-3).weights).order
    again = refit(source, labels, 3, 1e-2, 1e-3, from_zero=from_zero)
    assert set(first[:TELLING]) == set(again.order[:TELLING]) == set(range(TELLING))
    assert again.overlap(first, TELLING) == 1.0


def test_both_beginnings_lead_to_one_objective_and_twice_to_the_same_bytes():
    source, labels = rows(0.3)
    zero, path, again = (refit(source, labels, 3, 1e-3, 1e-3, from_zero=way) for way in (True, False, False))
    np.testing.assert_array_equal(path.order, again.order)
    assert zero.probe.objective == pytest.approx(path.probe.objective, rel=0.05)
    assert not np.array_equal(zero.order, path.order)


def test_a_probe_without_any_weight_ranks_at_random():
    source, labels = rows(0.3)
    assert sorted(refit(source, labels, 3, 10.0, 0.0, from_zero=True).order) == list(range(WIDTH))


def test_places_and_overlaps():
    again = Refit(Polished(torch.zeros(4, 2), torch.zeros(2), 0.5, 0.1, 1.0), np.array([2, 0, 3, 1]), None)
    assert again.places(np.array([0, 1, 2, 3])).tolist() == [1, 3, 0, 2]
    assert again.overlap(np.array([0, 1, 2, 3]), 2) == 0.5
    assert again.overlap(again.order, 3) == 1
