"""What must hold of a shift over layers, whatever the selections."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vestige.neurons.spread import STATISTICS, by_layer, overlap, spread_shift

LAYERS, WIDTH = 13, 60
OFFSETS = np.arange(LAYERS + 1) * WIDTH

selections = st.sets(st.integers(0, LAYERS * WIDTH - 1), min_size=1, max_size=40).map(sorted)


def drawn(rng: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    """Every neuron by a chance of its own."""
    return np.flatnonzero(rng.random(len(chances)) < chances)


@given(selections)
def test_identical_selections_are_nowhere_apart(ids):
    found = spread_shift(ids, ids, OFFSETS, resamples=20)
    assert found.distance == dict.fromkeys(STATISTICS, 0.0)
    assert found.p == dict.fromkeys(STATISTICS, 1.0)


@given(selections, st.integers(-LAYERS + 1, LAYERS - 1))
def test_neurons_that_all_move_by_k_layers_are_k_layers_apart(ids, k):
    ids = np.array(ids)
    layers = ids // WIDTH
    ids = ids[(layers + k >= 0) & (layers + k < LAYERS)]
    if len(ids):
        found = spread_shift(ids, ids + k * WIDTH, OFFSETS, resamples=1)
        assert found.distance["earth_mover"] == pytest.approx(abs(k))
        assert found.distance["mean_layer"] == pytest.approx(k)


@given(selections, selections)
def test_distances_are_those_of_scipy(base, tuned):
    found = spread_shift(base, tuned, OFFSETS, resamples=1)
    one, other = np.array(base) // WIDTH, np.array(tuned) // WIDTH
    assert found.distance["earth_mover"] == pytest.approx(stats.wasserstein_distance(one, other))
    shares = [np.array([(layers == each).mean() for each in range(LAYERS)]) for layers in (one, other)]
    assert found.distance["total_variation"] == pytest.approx(np.abs(shares[0] - shares[1]).sum() / 2)
    assert found.distance["mean_layer"] == pytest.approx(other.mean() - one.mean())


@given(selections, selections)
def test_distances_are_symmetric_and_the_move_is_not(base, tuned):
    there, back = spread_shift(base, tuned, OFFSETS, resamples=1), spread_shift(tuned, base, OFFSETS, resamples=1)
    for name in ("earth_mover", "total_variation"):
        assert there.distance[name] == pytest.approx(back.distance[name])
    assert there.distance["mean_layer"] == pytest.approx(-back.distance["mean_layer"])
    assert abs(there.distance["mean_layer"]) <= there.distance["earth_mover"] + 1e-9


def test_selections_of_one_model_are_uniform_in_p():
    """Chances differ from layer to layer and neuron to neuron, and are the same in both selections."""
    rng = np.random.default_rng(0)
    chances = np.repeat(rng.uniform(0.05, 0.5, LAYERS), WIDTH) * rng.uniform(0.2, 1.8, LAYERS * WIDTH)
    found = [spread_shift(drawn(rng, chances), drawn(rng, chances), OFFSETS, 199, seed).p for seed in range(600)]
    for name in STATISTICS:
        assert stats.kstest([p[name] for p in found], "uniform").pvalue > 0.01


def test_selections_that_differ_are_found():
    rng = np.random.default_rng(1)
    low = np.repeat(np.linspace(0.2, 0.05, LAYERS), WIDTH)
    found = spread_shift(drawn(rng, low[::-1]), drawn(rng, low), OFFSETS)
    assert max(found.p.values()) < 0.001
    assert found.distance["mean_layer"] < 0
    assert found.expected["earth_mover"] < found.distance["earth_mover"] / 3


@given(st.dictionaries(st.text(max_size=3), selections, min_size=1, max_size=6))
def test_shared_and_exclusive_neurons_are_all_of_them(sets):
    found = overlap(sets)
    everything = set().union(*sets.values())
    parts = [set(found.shared), *map(set, found.exclusive.values())]
    assert sum(map(len, parts)) == len(everything) and set().union(*parts) == everything


@given(selections)
def test_no_neuron_is_lost_over_layers(ids):
    assert by_layer(ids, OFFSETS).tolist() == [sum(i // WIDTH == layer for i in ids) for layer in range(LAYERS)]
