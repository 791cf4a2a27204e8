"""Features: rows of a layer as a solver reads them."""

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.solvers.problem import Features, Fit, log_probabilities, root_mean_square, standard, unit_scale

ROWS = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)


def test_blocks_cover_all_rows_in_order():
    spans, blocks = zip(*Features(ROWS, 2.0).blocks(size=4), strict=True)
    assert [(span.start, span.stop) for span in spans] == [(0, 4), (4, 8), (8, 11)]
    np.testing.assert_array_equal(torch.cat(blocks).numpy(), 2 * ROWS)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_memory_mapped_layers_of_either_precision_are_read_as_float32(tmp_path, dtype):
    np.save(tmp_path / "layer.npy", ROWS.astype(dtype))
    features = Features(np.load(tmp_path / "layer.npy", mmap_mode="r"), 3.0)
    rows = features.rows(np.array([5, 2]))
    assert rows.dtype == torch.float32
    np.testing.assert_array_equal(rows.numpy(), ROWS.astype(dtype).astype(np.float32)[[5, 2]] * 3)


def test_reading_never_changes_the_array():
    array = ROWS.copy()
    Features(array, 5.0).rows(slice(0, 4)).zero_()
    np.testing.assert_array_equal(array, ROWS)


def test_a_layer_within_the_budget_is_copied_scaled_and_a_larger_one_is_left_where_it_is():
    features = Features(ROWS.astype(np.float16), 2.0)
    resident = features.resident()
    assert resident.scale == 1.0
    np.testing.assert_array_equal(resident.array, features.rows(slice(None)).numpy())
    assert features.resident(budget=ROWS.size * 4 - 1) is features


def test_the_unit_scale_brings_the_root_mean_square_to_one_whatever_the_scale_before():
    features = Features(1e3 * ROWS)
    assert root_mean_square(features.scaled(unit_scale(features, "x"))) == pytest.approx(1.0, rel=1e-6)
    assert unit_scale(Features(7 * ROWS), "x") == pytest.approx(unit_scale(Features(ROWS), "x") / 7, rel=1e-6)


@pytest.mark.parametrize(("value", "complaint"), [(0.0, "all zero"), (np.nan, "not finite"), (np.inf, "not finite")])
def test_a_layer_without_a_scale_is_named(value, complaint):
    with pytest.raises(AnalysisError, match=f"layer 4: activations are {complaint}"):
        unit_scale(Features(np.full((2, 2), value, dtype=np.float32)), "layer 4")


def test_standard_rows_have_mean_zero_and_size_one_and_other_rows_are_read_like_them():
    found = standard((1e3 + 0.5 * ROWS).astype(np.float32), "x")
    rows = found.rows(slice(None)).double()
    assert rows.mean(0).abs().max() < 1e-3 and root_mean_square(found) == pytest.approx(1.0, rel=1e-4)
    other = np.float32([[1, 2, 3]])
    expected = (other - found.centre) * found.scale
    np.testing.assert_allclose(found.like(other).rows(slice(None)).numpy(), expected, rtol=1e-6)
    np.testing.assert_array_equal(found.resident().rows(slice(1, 3)), found.rows(slice(1, 3)))


def test_rows_that_differ_by_rounding_alone_are_all_alike():
    noise = 1e-7 * np.random.default_rng(0).normal(size=(50, 3))
    assert root_mean_square(standard((0.5 + noise).astype(np.float32), "x")) < 1e-5


def test_log_probabilities_of_several_probes_are_those_of_each():
    weights = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    fit = Fit(weights, torch.zeros(2), torch.zeros(2), 0)
    found = log_probabilities(fit, Features(ROWS))
    for probe in range(2):
        logits = torch.from_numpy(ROWS) @ weights[probe, :-1] + weights[probe, -1]
        torch.testing.assert_close(found[probe], logits.log_softmax(-1))
