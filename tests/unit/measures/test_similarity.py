"""Plain arrays in, numbers out: what is accepted, what is refused and why, and how memory stays bounded."""

import tracemalloc
import warnings

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.measures import vectors
from vestige.measures.cca import procrustes, pwcca, svcca
from vestige.measures.cka import cka, minibatch_cka
from vestige.measures.jackknife import Estimate, mean_difference
from vestige.measures.neighbours import neighbour_overlap
from vestige.measures.robust_cka import cka_without_extremes, cka_without_outliers
from vestige.measures.rsa import rsa
from vestige.measures.similarity import MEASURES, similarities
from vestige.measures.vectors import SimilarityWarning, UndefinedSimilarityError

ALL = (rsa, cka, svcca, pwcca, procrustes, neighbour_overlap)


@pytest.fixture
def two():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 6)).astype(np.float32)
    return x, x + rng.normal(size=x.shape).astype(np.float32)


@pytest.mark.parametrize("measure", ALL)
def test_tensors_and_arrays_of_any_precision_will_do(measure, two):
    x, y = two
    expected = measure(x, y)
    tensors = torch.from_numpy(x).requires_grad_(), torch.from_numpy(y)
    assert measure(*tensors) == expected
    assert measure(*(t.bfloat16() for t in tensors)) == pytest.approx(expected, abs=0.02)
    assert measure(x.astype(np.float16), y.astype(np.float64)) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("measure", ALL)
def test_blocks_of_rows_change_nothing(measure, two, monkeypatch):
    expected = measure(*two)
    monkeypatch.setattr(vectors, "BLOCK_VALUES", 7)
    assert measure(*two) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("measure", ALL)
def test_bad_arrays_are_refused(measure, two):
    x, y = two
    with pytest.raises(AnalysisError, match="x has 80 items, y has 79"):
        measure(x, y[1:])
    with pytest.raises(AnalysisError, match="shape"):
        measure(x, y[0])
    with pytest.raises(AnalysisError, match="at least 4"):
        measure(x[:3], y[:3])
    y = y.copy()
    y[17, 2] = np.nan
    with pytest.raises(AnalysisError, match="y: NaN or infinite values, first in item 17"):
        measure(x, y)


@pytest.mark.parametrize("measure", [rsa, cka, svcca, pwcca, procrustes, neighbour_overlap])
def test_vectors_that_do_not_differ_have_no_similarity(measure, two):
    with pytest.raises(UndefinedSimilarityError, match="y: its vectors do not differ"):
        measure(two[0], np.full((80, 6), 0.1, dtype=np.float32))


@pytest.mark.parametrize("measure", [rsa, neighbour_overlap])
def test_a_zero_vector_has_no_cosine(measure, two):
    x, y = two
    y = y.copy()
    y[[4, 9]] = 0
    with pytest.raises(UndefinedSimilarityError, match=r"item 4 is zero \(2 of 80"):
        measure(x, y)


def test_fewer_items_than_units_are_warned_of_where_a_measure_is_biased():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20, 30))
    for measure in (svcca, pwcca, procrustes, lambda a, b: cka(a, b, debiased=False)):
        with pytest.warns(SimilarityWarning, match="20 items of 30 units"):
            measure(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rsa(x, y)
        cka(x, y)


def test_sentences_of_some_items_or_layers_of_one_side_are_refused(two):
    x, y = two
    with pytest.raises(AnalysisError, match="80 items, the sentences of 10"):
        similarities([x], [y], sentences=np.arange(10))
    with pytest.raises(AnalysisError, match="x has 1 layers, y has 0"):
        similarities([x], [])


def test_unknown_names_are_refused(two):
    with pytest.raises(AnalysisError, match="kernel 'manhattan'"):
        rsa(*two, kernel="manhattan")
    with pytest.raises(AnalysisError, match="correlation 'kendall'"):
        rsa(*two, correlation="kendall")
    with pytest.raises(AnalysisError, match="unknown measure 'cca'"):
        similarities([two[0]], [two[1]], ["cca"])
    with pytest.raises(AnalysisError, match="80 neighbours of 80 items"):
        neighbour_overlap(*two, k=80)
    with pytest.raises(AnalysisError, match="variance"):
        svcca(*two, variance=99)
    with pytest.raises(AnalysisError, match="no batches"):
        minibatch_cka([])
    with pytest.raises(AnalysisError, match="group of sentences"):
        mean_difference([Estimate(0.5)], [Estimate(0.4)])


def test_layers_at_once_are_the_single_measures(two):
    rng = np.random.default_rng(1)
    x = [two[0], two[0] @ rng.normal(size=(6, 9)), rng.normal(size=(80, 5))]
    y = [two[1], two[1] ** 2]
    single = {
        "rsa": rsa,
        "rsa_centred": lambda a, b: rsa(a, b, kernel="centred_cosine"),
        "rsa_spearman": lambda a, b: rsa(a, b, correlation="spearman"),
        "rsa_euclidean": lambda a, b: rsa(a, b, kernel="euclidean"),
        "cka": cka,
        "cka_without_extremes": cka_without_extremes,
        "cka_without_outliers": cka_without_outliers,
        "cka_biased": lambda a, b: cka(a, b, debiased=False),
        "svcca": svcca,
        "pwcca": pwcca,
        "procrustes": procrustes,
        "neighbour_overlap": neighbour_overlap,
    }
    assert set(single) == set(MEASURES)
    found = similarities(x, y, list(MEASURES), all_pairs=True, sentences=np.arange(80) // 2)
    for name, measure in single.items():
        assert list(found[name]) == [(i, j) for i in range(3) for j in range(2)]
        for (i, j), estimate in found[name].items():
            assert estimate.value == pytest.approx(measure(x[i], y[j]), abs=1e-9), (name, i, j)
            assert len(estimate.without) == (20 if i == j else 0)
    assert list(similarities(x, y)["rsa"]) == [(0, 0), (1, 1)]


def test_chosen_rows_are_those_of_the_arrays(two):
    x, y = two
    rows = np.arange(3, 70, 2), np.arange(4, 71, 2)
    found = similarities([x], [y], ["rsa", "cka"], rows=rows)
    assert found["rsa"][0, 0].value == pytest.approx(rsa(x[rows[0]], y[rows[1]]), abs=1e-12)
    assert found["cka"][0, 0].value == pytest.approx(cka(x[rows[0]], y[rows[1]]), abs=1e-12)


def test_memory_does_not_grow_with_the_items(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "RESIDENT", 0)
    monkeypatch.setattr(vectors, "BLOCK_VALUES", 2**16)
    rng = np.random.default_rng(0)
    for side in "xy":
        np.save(tmp_path / f"{side}.npy", rng.standard_normal((60_000, 16), dtype=np.float32))
    x, y = (np.load(tmp_path / f"{side}.npy", mmap_mode="r") for side in "xy")
    tracemalloc.start()
    found = similarities([x], [y], ["rsa"], sentences=np.arange(60_000) // 20)["rsa"][0, 0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * x.size
    assert abs(found.value) < 0.01


def test_fewer_items_than_units_are_warned_of_for_measures_that_are_biased():
    x, y = (np.random.default_rng(seed).normal(size=(20, 30)) for seed in (0, 1))
    with pytest.warns(SimilarityWarning, match="20 items of 30 units"):
        similarities([x], [y], ["svcca"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        similarities([x], [y], ["rsa", "cka"])


@pytest.mark.parametrize("kernel", ["cosine", "euclidean"])
def test_pairs_that_are_equally_similar_are_tied_whatever_the_axes(kernel):
    """Ten copies of six vectors, and the same rotated: rounding must not rank equal pairs."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(6, 12)), 10, axis=0)
    rotated = x @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
    assert rsa(x, rotated, kernel=kernel, correlation="spearman") == pytest.approx(1.0, abs=1e-9)


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(AnalysisError, match="x: rows of different lengths"):
        rsa([[1.0, 2.0], [3.0], [4.0, 5.0], [6.0, 7.0]], np.ones((4, 2)))
