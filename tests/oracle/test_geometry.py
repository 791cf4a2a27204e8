"""Measures of a cloud beside others' code: scikit-learn's PCA, Ledoit-Wolf, regression and neighbours, and recipes of the papers."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

from vestige.measures.cka import cka
from vestige.measures.geometry import OUTLIER, Cloud
from vestige.measures.intrinsic import _distinct, _Nearest, intrinsic_dimension
from vestige.measures.robust_cka import EXTREME, cka_without_extremes, cka_without_outliers


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 30)) @ np.diag(np.linspace(0.1, 3, 30)) @ rng.normal(size=(30, 30)) + 2


def recipe_of_isoscore(eigenvalues: np.ndarray) -> float:
    """Rudman et al. 2022, algorithm 1, step by step."""
    n = len(eigenvalues)
    normed = np.sqrt(n) * eigenvalues / np.linalg.norm(eigenvalues)
    defect = np.linalg.norm(normed - np.ones(n)) / np.sqrt(2 * (n - np.sqrt(n)))
    used = (n - defect**2 * (n - np.sqrt(n))) ** 2 / n**2
    return (n * used - 1) / (n - 1)


def recipe_of_two_nn(vectors: np.ndarray) -> float:
    """Facco et al. 2017, from all distances; the line is numpy's."""
    distances = cdist(vectors, vectors)
    np.fill_diagonal(distances, np.inf)
    distances.sort(axis=1)
    ratios = np.sort(distances[:, 1] / distances[:, 0])
    share = np.arange(1, len(ratios) + 1) / len(ratios)
    kept = int(0.9 * len(ratios))
    x, y = np.log(ratios[:kept]), -np.log(1 - share[:kept])
    return float(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0])


def test_cosines_of_all_pairs(vectors):
    for centred, found in ((0, Cloud(vectors).mean_cosine()), (1, Cloud(vectors).mean_cosine_centred())):
        all_pairs = cosine_similarity(vectors - centred * vectors.mean(0))
        assert found[0] == pytest.approx(all_pairs[np.triu_indices(300, 1)].mean(), abs=1e-12)


def test_the_participation_ratio_of_scikit_learns_spectrum(vectors):
    spectrum = PCA().fit(vectors).explained_variance_
    assert Cloud(vectors).spectra().participation_ratio()[0] == pytest.approx(spectrum.sum() ** 2 / (spectrum**2).sum())


@pytest.mark.parametrize("items", [300, 25])
def test_isoscore_is_the_recipe_on_scikit_learns_shrunk_covariance(vectors, items):
    covariance, share = ledoit_wolf(vectors[:items])
    spectra = Cloud(vectors[:items]).spectra()
    assert spectra.shrinkage()[0] == pytest.approx(share, rel=1e-9)
    assert spectra.isoscore()[0] == pytest.approx(recipe_of_isoscore(np.linalg.eigvalsh(covariance)), rel=1e-9)


@pytest.mark.parametrize("width", [2, 6, 30])
def test_two_nn_is_the_recipe(vectors, width):
    assert intrinsic_dimension(vectors[:, :width]).values[0] == pytest.approx(recipe_of_two_nn(vectors[:, :width]))


def test_cka_without_extremes_is_cka_of_the_others(vectors):
    x, y = vectors, np.tanh(vectors) + 0.3 * vectors[:, ::-1]
    count = int(np.ceil(EXTREME * len(x)))
    far = [np.argsort(((one - one.mean(0)) ** 2).sum(1))[-count:] for one in (x, y)]
    rest = np.setdiff1d(np.arange(len(x)), np.concatenate(far))
    assert cka_without_extremes(x, y) == pytest.approx(cka(x[rest], y[rest]), abs=1e-12)


def test_cka_without_outliers_is_cka_of_residuals(vectors):
    x, y = vectors * np.r_[np.ones(28), 9, 7], np.tanh(vectors) * np.r_[8, np.ones(29)]
    factors = np.concatenate([one[:, one.var(0) > OUTLIER * one.var(0).mean()] for one in (x, y)], axis=1)
    assert factors.shape[1] >= 2
    rests = [one - LinearRegression().fit(factors, one).predict(factors) for one in (x, y)]
    assert cka_without_outliers(x, y) == pytest.approx(cka(*rests), abs=1e-9)


def test_nearest_others_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((1300, 24)) * rng.uniform(0.1, 10, 24)
    points -= points.mean(0)
    distances = NearestNeighbors(n_neighbors=12, algorithm="brute").fit(points).kneighbors()[0]
    np.testing.assert_allclose(_Nearest(points).distances, distances, rtol=1e-9)


def test_copies_are_those_within_reach_of_an_earlier_one():
    rng = np.random.default_rng(1)
    points = rng.standard_normal((1300, 24))
    points[700:900] = points[:200] + rng.standard_normal((200, 24)) * np.repeat([1e-7, 1e-3], 100)[:, None]
    reach = 1e-5
    near = NearestNeighbors(radius=reach, algorithm="brute").fit(points).radius_neighbors(return_distance=False)
    copies = {number for number, others in enumerate(near) if len(others) and others.min() < number}
    assert {*range(len(points))} - {*_distinct(_Nearest(points), reach).tolist()} == copies == {*range(700, 800)}
