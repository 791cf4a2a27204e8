"""Similarities against rsatoolbox, SciPy and the formulas written out with matrices of items by items."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes, qr
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.neighbors import NearestNeighbors

from vestige.measures import pairs
from vestige.measures.cca import procrustes, pwcca, svcca
from vestige.measures.cka import cka, hsic, minibatch_cka
from vestige.measures.moments import Moments
from vestige.measures.neighbours import neighbour_overlap
from vestige.measures.rsa import rsa
from vestige.measures.vectors import Vectors


@pytest.fixture(scope="module")
def two():
    """Related vectors of different widths with a large mean, in float32 as models give them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 30)) + 3 * rng.normal(size=30)
    y = x @ rng.normal(size=(30, 18)) + 4 * rng.normal(size=(240, 18)) + 5
    return x.astype(np.float32), y.astype(np.float32)


def kernel(x, name):
    x = np.asarray(x, dtype=np.float64)
    if name == "euclidean":
        return pdist(x)
    return 1 - pdist(x - x.mean(0) if name == "centred_cosine" else x, "cosine")


@pytest.mark.parametrize("name", ["cosine", "centred_cosine", "euclidean"])
def test_rsa_is_the_correlation_of_the_upper_triangles(two, name):
    x, y = (kernel(a, name) for a in two)
    assert rsa(*two, kernel=name) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert rsa(*two, kernel=name, correlation="spearman") == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)


@pytest.mark.parametrize("name", ["cosine", "euclidean"])
def test_ranks_by_counting_are_the_sorted_ones_to_six_digits(two, name, monkeypatch):
    exact = rsa(*two, kernel=name, correlation="spearman")
    monkeypatch.setattr(pairs, "SORTED_PAIRS", 0)
    counted = rsa(*two, kernel=name, correlation="spearman")
    assert counted != exact
    assert counted == pytest.approx(exact, abs=1e-6)


def test_rsa_is_exact_where_all_cosines_are_near_one():
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(300, 40)) + 60).astype(np.float32)
    y = (x + rng.normal(size=x.shape)).astype(np.float32)
    a, b = kernel(x, "cosine"), kernel(y, "cosine")
    assert a.mean() > 0.999
    assert rsa(x, y) == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-6)


@pytest.mark.parametrize(("method", "ours"), [("corr", "pearson"), ("spearman", "spearman")])
def test_rsa_is_that_of_rsatoolbox(two, method, ours):
    rsatoolbox = pytest.importorskip("rsatoolbox")
    # Its correlation distance is one minus the cosine of vectors less the mean of their own units.
    rdms = [rsatoolbox.rdm.calc_rdm(rsatoolbox.data.Dataset(a.astype(float)), method="correlation") for a in two]
    theirs = rsatoolbox.rdm.compare(*rdms, method=method)[0, 0]
    mine = rsa(*(a.astype(float) - a.astype(float).mean(1, keepdims=True) for a in two), correlation=ours)
    assert mine == pytest.approx(theirs, abs=1e-6)


def centred_kernels(two):
    for a in two:
        a = a.astype(float) - a.astype(float).mean(0)
        yield a @ a.T


def test_biased_cka_is_the_normalised_product_of_centred_kernels(two):
    k, m = centred_kernels(two)
    assert cka(*two, debiased=False) == pytest.approx((k * m).sum() / np.linalg.norm(k) / np.linalg.norm(m), abs=1e-9)


def naive_hsic(x, y):
    k, m = x @ x.T, y @ y.T
    n = len(k)
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)
    one = np.ones(n)
    parts = np.trace(k @ m), (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2)), one @ k @ m @ one * 2 / (n - 2)
    return (parts[0] + parts[1] - parts[2]) / (n * (n - 3))


def test_debiased_cka_is_the_ratio_of_unbiased_hsics(two):
    x, y = (a.astype(float) for a in two)
    assert hsic(Moments.of(Vectors.of(x), Vectors.of(y))) == pytest.approx(naive_hsic(x, y), rel=1e-7)
    expected = naive_hsic(x, y) / np.sqrt(naive_hsic(x, x) * naive_hsic(y, y))
    assert cka(*two) == pytest.approx(expected, abs=1e-7)


def test_minibatch_cka_averages_hsic_before_dividing(two):
    batches = [tuple(a[start : start + 60].astype(float) for a in two) for start in range(0, 240, 60)]
    top, left, right = (
        np.mean([naive_hsic(*pick) for pick in picks])
        for picks in (batches, [(x, x) for x, _ in batches], [(y, y) for _, y in batches])
    )
    assert minibatch_cka(batches) == pytest.approx(top / np.sqrt(left * right), abs=1e-7)


def canonical(x, y):
    """Correlations, and the canonical variates of x, by QR."""
    qx, qy = (qr(a - a.mean(0), mode="economic")[0] for a in (x, y))
    u, s, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    return s, qx @ u


def test_pwcca_weighs_correlations_by_what_they_explain_of_x(two):
    x, y = (a.astype(float) for a in two)
    correlations, variates = canonical(x, y)
    weights = np.abs(variates.T @ (x - x.mean(0))).sum(1)
    assert pwcca(x, y) == pytest.approx((weights * correlations).sum() / weights.sum(), abs=1e-7)


@pytest.mark.parametrize("share", [0.6, 0.99])
def test_svcca_is_cca_of_the_leading_directions(two, share):
    cut = []
    for a in two:
        u, s, _ = np.linalg.svd(a.astype(float) - a.astype(float).mean(0), full_matrices=False)
        keep = int((np.cumsum(s**2) / (s**2).sum() < share).sum()) + 1
        cut.append(u[:, :keep] * s[:keep])
    assert svcca(*two, variance=share) == pytest.approx(canonical(*cut)[0].mean(), abs=1e-7)


def test_procrustes_is_what_scipys_turn_leaves(two):
    x, y = (a.astype(float) - a.astype(float).mean(0) for a in two)
    x, y = x / np.linalg.norm(x), np.pad(y / np.linalg.norm(y), ((0, 0), (0, 12)))
    turn, _ = orthogonal_procrustes(y, x)
    assert procrustes(*two) == pytest.approx(1 - np.linalg.norm(y @ turn - x) ** 2 / 2, abs=1e-7)


def test_neighbours_are_those_of_scikit_learn(two):
    near = [
        NearestNeighbors(n_neighbors=7, metric="cosine").fit(a).kneighbors(return_distance=False)
        for a in (a.astype(float) for a in two)
    ]
    shared = np.mean([len(set(a) & set(b)) / 7 for a, b in zip(*near, strict=True)])
    assert neighbour_overlap(*two, k=7) == pytest.approx(shared, abs=1e-12)
