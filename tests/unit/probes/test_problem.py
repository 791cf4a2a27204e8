"""Features: rows of a layer as a solver reads them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.probes.problem import (
    OUTLIER,
    Features,
    Fit,
    log_probabilities,
    outlier_units,
    root_mean_square,
    standard,
    unit_scale,
    unit_sizes,
)

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


class TestOutliers:
    rng = np.random.default_rng(1)
    wide = rng.normal(size=(400, 64)).astype(np.float32) * rng.uniform(0.2, 5, size=64).astype(np.float32)

    def blown(self, times: float) -> np.ndarray:
        return np.concatenate([self.wide[:, :1] * times, self.wide[:, 1:]], axis=1).astype(np.float32)

    def test_a_layer_without_them_is_multiplied_by_one_number(self):
        found = standard(self.wide, "x")
        assert isinstance(found.scale, float) and not outlier_units(unit_sizes(found)).any()
        assert root_mean_square(found) == pytest.approx(1.0, rel=1e-5)

    def test_how_much_larger_they_are_plays_no_role(self):
        near, far = (standard(self.blown(times), "x") for times in (1e3, 1e6))
        assert np.flatnonzero(outlier_units(unit_sizes(replace(near, scale=1.0)))).tolist() == [0]
        np.testing.assert_allclose(near.rows(slice(None)), far.rows(slice(None)), rtol=1e-3, atol=1e-5)
        sizes = unit_sizes(near)
        assert sizes[0] == pytest.approx(OUTLIER * np.median(unit_sizes(near)), rel=0.05)
        others = near.rows(slice(None))[:, 1:] / standard(self.wide, "x").rows(slice(None))[:, 1:]
        assert float(others.std()) < 1e-4

    def test_at_the_limit_nothing_jumps(self):
        size = OUTLIER * np.median(unit_sizes(standard(self.wide, "x"))) / unit_sizes(standard(self.wide, "x"))[0]
        below, above = (standard(self.blown(float(size) * by), "x").rows(slice(None)) for by in (0.999, 1.001))
        np.testing.assert_allclose(below, above, rtol=5e-3, atol=1e-4)

    def test_by_unit_every_unit_has_size_one_whatever_it_was(self):
        plain, rescaled = self.wide, self.wide * np.geomspace(1e-3, 1e3, 64, dtype=np.float32)
        one, two = (standard(rows, "x", "unit").rows(slice(None)) for rows in (plain, rescaled))
        np.testing.assert_allclose(unit_sizes(Features(one.numpy())), 1.0, rtol=1e-4)
        np.testing.assert_allclose(one, two, atol=1e-4)

    def test_a_unit_that_never_changes_stays_at_zero(self):
        still = np.concatenate([self.wide, np.full((400, 1), 7.0)], axis=1).astype(np.float32)
        for by in ("layer", "unit"):
            assert float(standard(still, "x", by).rows(slice(None))[:, -1].abs().max()) < 1e-3
