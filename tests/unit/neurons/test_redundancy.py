"""Correlated neurons: against numpy, SciPy and NeuroX on small data, planted copies, and what is refused."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons import matrix, redundancy
from vestige.neurons.matrix import Neurons
from vestige.neurons.redundancy import Clusters, clusters_of, correlations, representatives


def made(seed: int, rows: int = 80, widths=(20, 30, 25), sources: int = 15, noise: float = 0.7) -> Neurons:
    """Layers whose neurons are noisy copies, of either sign, of a few sources, far from zero."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, sources))
    layers = []
    for width in widths:
        copies = hidden[:, rng.integers(0, sources, width)] * rng.choice([-1, 1], width)
        layers.append((100 + copies + noise * rng.normal(size=(rows, width))).astype(np.float32))
    return Neurons(tuple(layers))


def as_partition(of) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(of == cluster).tolist()) for cluster in np.unique(of)}


def clustered(neurons: Neurons, threshold: float) -> Clusters:
    """The clusters of all neurons; constant ones, which correlate with themselves alone, stay apart."""
    found = correlations(neurons)
    return Clusters(np.arange(neurons.width), clusters_of(found, threshold, (found != 0).sum(1) == 1))


def by_scipy(neurons: Neurons, threshold: float) -> set[frozenset[int]]:
    distance = 1 - np.abs(np.corrcoef(np.concatenate(neurons.layers, axis=1).astype(np.float64).T))
    np.fill_diagonal(distance, 0)
    return as_partition(fcluster(linkage(squareform(distance, checks=False), "average"), threshold, "distance"))


class TestCorrelations:
    def test_those_of_numpy(self, monkeypatch):
        monkeypatch.setattr(redundancy, "PANEL", 16)
        monkeypatch.setattr(matrix, "BLOCK_BYTES", 4000)
        neurons = made(0)
        found = correlations(neurons)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.corrcoef(np.concatenate(neurons.layers, 1).T.astype(float)), atol=2e-7)
        np.testing.assert_array_equal(found, found.T)

    def test_stored_half_precision_is_read_as_its_float32(self):
        half = Neurons(tuple(layer.astype(np.float16) for layer in made(1).layers))
        same = Neurons(tuple(layer.astype(np.float32) for layer in half.layers))
        np.testing.assert_array_equal(correlations(half), correlations(same))

    def test_large_means_cost_no_digits(self):
        rng = np.random.default_rng(2)
        small = rng.integers(-8, 9, size=(500, 6))
        far = Neurons(((small + 2**19).astype(np.float32),))
        np.testing.assert_allclose(correlations(far), np.corrcoef(small.T), atol=2e-7)

    def test_constant_neurons_correlate_with_nothing(self):
        values = np.random.default_rng(3).normal(size=(50, 4)).astype(np.float32)
        values[:, 1], values[:, 3] = 0.1, 0.1
        found = correlations(Neurons((values,)))
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found[1], [0, 1, 0, 0])
        np.testing.assert_array_equal(found[3], [0, 0, 0, 1])


class TestClusters:
    @pytest.mark.parametrize("threshold", [0.05, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_those_of_scipy_on_all_neurons_at_once(self, threshold, seed):
        neurons = made(seed)
        assert as_partition(clustered(neurons, threshold).of) == by_scipy(neurons, threshold)

    @pytest.mark.filterwarnings("ignore:invalid value encountered in divide")
    @pytest.mark.parametrize("threshold", [0.3, 0.5])
    def test_those_of_neurox(self, threshold):
        theirs = pytest.importorskip("neurox.interpretation.clustering", reason="NeuroX is missing")
        neurons = made(5)
        neurons.layers[1][:, 4] = 7
        expected = theirs.create_correlation_clusters(np.concatenate(neurons.layers, 1), True, threshold, "average")
        assert as_partition(clustered(neurons, threshold).of) == as_partition(expected)

    def test_copies_are_found_within_and_across_layers(self):
        rng = np.random.default_rng(6)
        first = rng.normal(size=(60, 4)).astype(np.float32)
        neurons = Neurons((first, np.column_stack([-2 * first[:, 1] + 5, rng.normal(size=60), first[:, 3]])))
        found = clustered(neurons, 0.1)
        assert found.of.tolist() == [0, 1, 2, 3, 1, 4, 3]
        assert found.count == 5
        assert found.layers(neurons.offsets).tolist() == [1, 2, 1, 2, 1]

    def test_constant_neurons_stay_alone_at_any_threshold(self):
        values = np.random.default_rng(8).normal(size=(30, 5)).astype(np.float32)
        values[:, [1, 4]] = 3
        found = clustered(Neurons((values,)), 1.0)
        assert found.of.tolist() == [0, 1, 0, 0, 2]

    def test_numbers_follow_the_first_neuron(self):
        of = clustered(made(10), 0.4).of
        firsts = [int(np.flatnonzero(of == cluster)[0]) for cluster in range(of.max() + 1)]
        assert firsts == sorted(firsts) and of[0] == 0

    def test_neurons_apart_bind_no_others(self):
        r = np.array([[1, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]], dtype=np.float32)
        assert clusters_of(r, 0.6).tolist() == [0, 0, 0]
        assert clusters_of(r, 0.6, apart=np.array([False, True, False])).tolist() == [0, 1, 2]


class TestRepresentatives:
    @pytest.fixture
    def clusters(self):
        return redundancy.Clusters(np.arange(6), np.array([0, 1, 0, 2, 1, 3]))

    def test_the_best_of_every_cluster_best_first(self, clusters):
        assert representatives(clusters, [4, 2, 1, 0, 5, 3]).tolist() == [4, 2, 5, 3]

    def test_clusters_without_a_ranked_neuron_have_none(self, clusters):
        assert representatives(clusters, [2, 4, 0]).tolist() == [2, 4]
        assert representatives(clusters, []).tolist() == []

    def test_they_are_less_redundant_than_the_best_neurons(self):
        neurons = made(11, rows=400, sources=8, noise=0.2)
        order = np.random.default_rng(0).permutation(neurons.width)
        found = representatives(clustered(neurons, 0.5), order)
        assert len(found) == 8
        off = ~np.eye(8, dtype=bool)
        all_pairs = np.abs(correlations(neurons))
        assert all_pairs[np.ix_(found, found)][off].max() < 0.3
        assert all_pairs[np.ix_(order[:8], order[:8])][off].max() > 0.8

    def test_refused(self, clusters):
        with pytest.raises(AnalysisError, match="neuron 6 of the ranking is in no cluster"):
            representatives(clusters, [0, 6])
        with pytest.raises(AnalysisError, match="neuron 3 occurs twice"):
            representatives(clusters, [3, 3])


class TestRefused:
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_columns_that_are_not_finite_are_named(self, value):
        neurons = made(12)
        neurons.layers[1][7, 5] = value
        with pytest.raises(RepresentationError, match=r"neuron 25 \(layer 1, unit 5\)"):
            correlations(neurons)

    def test_a_single_row(self):
        with pytest.raises(AnalysisError, match="1 rows"):
            correlations(Neurons((made(13).layers[0][:1],)))
