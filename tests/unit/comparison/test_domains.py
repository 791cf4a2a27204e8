"""Similarity in the domain against that out of it: values, runs, and what is left out."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import control_false_discoveries
from vestige.comparison.domains import compare_domains
from vestige.measures.jackknife import Estimate, mean_difference
from vestige.measures.similarity import similarities
from vestige.measures.student import Student

GROUPS = 20
MARGINS = {"rsa": 0.005, "cka": 0.005}


def estimate(values: np.ndarray) -> Estimate:
    """The mean of the values of equal groups as if it were a similarity."""
    return Estimate(float(values.mean()), (values.sum() - values) / (len(values) - 1))


def table(**measures: list[np.ndarray]) -> pd.DataFrame:
    """A table `similarity` from the values of groups, by measure and layer."""
    rows = [
        (name, layer, left_out, value)
        for name, layers in measures.items()
        for layer, values in enumerate(layers)
        for found in [estimate(np.asarray(values))]
        for left_out, value in enumerate([found.value, *found.without], start=-1)
    ]
    return pd.DataFrame(rows, columns=["metric", "layer", "left_out", "value"]).astype({"metric": "category"})


def drawn(rng, mean, size=GROUPS):
    return rng.normal(mean, 0.05, size=size)


def test_a_layer_that_moved_in_the_domain_alone_is_lower_there():
    rng = np.random.default_rng(0)
    inside = table(rsa=[drawn(rng, 0.9), drawn(rng, 0.5)], cka=[drawn(rng, 0.8), drawn(rng, 0.8)])
    outside = table(rsa=[drawn(rng, 0.9), drawn(rng, 0.8)], cka=[drawn(rng, 0.8), drawn(rng, 0.8)])
    found = control_false_discoveries(
        compare_domains([inside], [outside], MARGINS).assign(analysis="similarity", params="p")
    )
    assert list(zip(found["metric"], found["layer"], strict=True)) == [("rsa", 0), ("rsa", 1), ("cka", 0), ("cka", 1)]
    assert found["verdict"].tolist() == ["undecided", "lower", "undecided", "undecided"]
    moved = found.iloc[1]
    assert moved["in_domain"] == pytest.approx(0.5, abs=0.05) and moved["out_of_domain"] == pytest.approx(0.8, abs=0.05)
    assert moved["difference"] == pytest.approx(moved["in_domain"] - moved["out_of_domain"])
    assert moved["low"] < moved["difference"] < moved["high"] < 0


def test_runs_are_averaged_and_their_spread_counts():
    rng = np.random.default_rng(1)
    groups = [[drawn(rng, 0.5) for _ in range(2)] for _ in range(2)]
    shifts = (-0.2, 0.0, 0.2)
    inside = [table(rsa=[groups[0][0] + shift]) for shift in shifts]
    outside = [table(rsa=[groups[1][0]]) for _ in shifts]
    one, several = (compare_domains(inside[at], outside[at], MARGINS).iloc[0] for at in (slice(1, 2), slice(None)))
    assert several["difference"] == pytest.approx(one["difference"]) and several["runs"] == 3
    assert several["sd_tuning_run"] == pytest.approx(0.2) and np.isnan(one["sd_tuning_run"])
    assert several["high"] - several["low"] > 3 * (one["high"] - one["low"])
    alike = mean_difference([estimate(groups[0][0])] * 3, [estimate(groups[1][0])] * 3)
    assert alike.interval(0.95) == pytest.approx((one["low"], one["high"]), rel=1e-6)


def test_layers_that_some_run_or_corpus_lacks_and_values_without_groups_are_left_out():
    rng = np.random.default_rng(2)
    two, one = table(rsa=[drawn(rng, 0.5), drawn(rng, 0.5)]), table(rsa=[drawn(rng, 0.5)])
    assert compare_domains([two], [one], MARGINS)["layer"].tolist() == [0]
    assert compare_domains([two, one], [two, two], MARGINS)["layer"].tolist() == [0]
    assert compare_domains([two[two["left_out"] < 3]], [two], MARGINS).empty


def test_layers_that_did_not_move_anywhere_are_unchanged():
    same = table(rsa=[np.ones(GROUPS)])
    found = control_false_discoveries(compare_domains([same], [same], MARGINS))
    assert (found["difference"] == 0).all() and (found["verdict"] == "unchanged").all()


def test_equivalence_is_claimed_where_the_interval_of_twice_the_level_lies_within_the_margin():
    rng = np.random.default_rng(3)
    sides = [drawn(rng, mean) for mean in (0.5, 0.52)]
    found = mean_difference(*([estimate(side)] for side in sides))
    edge = max(map(abs, found.interval(0.9)))
    assert found.outside(edge) == pytest.approx(0.05)
    for margin, claimed in ((1.01 * edge, True), (0.99 * edge, False)):
        rows = compare_domains(*([table(rsa=[side])] for side in sides), {"rsa": margin})
        assert rows["margin"].tolist() == [margin]
        assert (rows["p_equivalence"][0] < 0.05) == claimed


def test_without_a_difference_one_test_in_twenty_finds_one():
    """Three runs that differ, read on new sentences every time."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(600):
        sides = [drawn(rng, 0.7) + rng.normal(0, 0.02, size=(3, GROUPS)) for _ in range(2)]
        runs = rng.normal(0, 0.02, size=(2, 3, 1))
        found.append(
            mean_difference(
                *([estimate(run) for run in side + moved] for side, moved in zip(sides, runs, strict=True))
            ).p
        )
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.075


def test_what_has_no_error_is_no_finding():
    """A layer whose vectors are all alike but for one sentence: without it there is nothing to correlate."""
    rng = np.random.default_rng(5)
    x = np.tile([3.0, 1.0, 0.5], (24, 1))
    x[:4] = rng.normal(size=(4, 3))
    y, of = rng.normal(size=(24, 3)), np.arange(24) // 4
    for name, one in similarities([x], [y], ["rsa_euclidean", "rsa_spearman"], sentences=of).items():
        assert np.isfinite(one[0, 0].value) and np.isnan(one[0, 0].interval()).all(), name
    unknown = Student.of(np.array([0.3, 0.0]), [np.nan], [5])
    assert unknown.p.tolist() == [1.0, 1.0] and unknown.outside(0.1).tolist() == [1.0, 1.0]
    certain = Student.of(np.array([0.3, 0.0]), [0.0], [5])
    assert certain.p.tolist() == [0.0, 1.0] and certain.outside(0.1).tolist() == [1.0, 0.0]
