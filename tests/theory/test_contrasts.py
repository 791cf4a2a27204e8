"""Contrasts inside one cell, and numbers that are no ratio of sums: planted differences, coverage, false positives."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import Settings, compare, control_false_discoveries
from vestige.comparison.estimators import Mean, Replicates, Within
from vestige.errors import AnalysisError
from vestige.measures.jackknife import deal


def items(rng, shift: float, sentences: int = 80, seeds: int = 1, noise: float = 0.0) -> pd.DataFrame:
    """Scores of the words of sentences, before and after; a sentence shifts both alike."""
    words = 6
    own = np.repeat(rng.normal(size=sentences), words)
    frames = []
    for seed in range(seeds):
        before = own + rng.normal(size=sentences * words)
        after = before + shift + rng.normal(0, 0.5, sentences * words) + noise * rng.normal()
        names = np.repeat([f"s{number}" for number in range(sentences)], words)
        found = {"sentence": names, "word": np.tile(np.arange(words), sentences), "layer": 1, "probe_seed": seed}
        frames.append(pd.DataFrame({**found, "before": before, "after": after}))
    return pd.concat(frames, ignore_index=True)


def test_a_contrast_is_the_comparison_of_its_two_columns():
    """The same numbers as comparing one table that holds `before` with another that holds `after`."""
    table = items(np.random.default_rng(0), 0.1)
    within = compare(Within(), table, [table], 0.05)
    apart = compare(
        Mean(column="value"), table.assign(value=table["before"]), [table.assign(value=table["after"])], 0.05
    )
    pd.testing.assert_frame_equal(within, apart)


def test_a_contrast_of_equal_columns_is_nothing():
    table = items(np.random.default_rng(0), 0.0)
    found = control_false_discoveries(compare(Within(after="before"), table, [table], 0.05).assign(metric="m"))
    assert found["difference"].tolist() == [0] and found["verdict"].tolist() == ["unchanged"]


def test_runs_differ_in_their_difference_not_in_their_levels():
    """Two runs whose levels are far apart but whose differences are alike are sure of the difference."""
    rng = np.random.default_rng(1)
    one = items(rng, 0.3)
    far = one.assign(before=one["before"] + 5, after=one["after"] + 5)
    found = compare(Within(), one, [one, far], 0.05).iloc[0]
    assert found["sd_tuning_run"] == pytest.approx(0, abs=1e-9) and found["p"] < 0.01
    assert found["tuned"] - found["base"] == pytest.approx((one["after"] - one["before"]).mean())


def test_seeds_enter_a_contrast():
    rng = np.random.default_rng(2)
    table = items(rng, 0.05, seeds=3, noise=0.5)
    found = compare(Within(), table, [table], 0.05, stochastic=True).iloc[0]
    assert found["sd_probe_seed"] > 0.1 and found["high"] - found["low"] > 10 * found["sd_items"]
    alone = table[table["probe_seed"] == 0]
    assert compare(Within(), alone, [alone], 0.05, stochastic=True)["p"].isna().all()


def replicates(sentences: np.ndarray, values: np.ndarray, statistic) -> pd.DataFrame:
    """The statistic of all values, and without each group of sentences."""
    groups = deal(sentences)
    kept = [np.arange(len(values)), *(np.setdiff1d(np.arange(len(values)), group) for group in groups)]
    rows = [(group, statistic(values[mine])) for group, mine in enumerate(kept, start=-1)]
    found = pd.DataFrame(rows, columns=["left_out", "value"])
    return found.assign(layer=1, sentences=len(np.unique(sentences)))


def spread(values: np.ndarray) -> float:
    """A smooth number of a whole sample: its standard deviation."""
    return float(values.std())


def test_intervals_of_replicates_cover_the_difference_and_find_none_where_there_is_none():
    covered, found_none, trials = 0, 0, 300
    sentences = np.repeat(np.arange(120), 5)
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        shared = np.repeat(rng.normal(size=120), 5)
        sides = [shared + rng.normal(size=600), shared + rng.normal(size=600), shared + 1.5 * rng.normal(size=600)]
        base, same, wider = (replicates(sentences, values, spread) for values in sides)
        row = compare(Replicates(), base, [wider], 0.05).iloc[0]
        covered += row["low"] <= np.sqrt(3.25) - np.sqrt(2) <= row["high"]
        found_none += compare(Replicates(), base, [same], 0.05)["p"].iloc[0] <= 0.05
    assert 0.91 <= covered / trials <= 0.98
    assert found_none / trials <= 0.08


def test_replicates_of_one_cell_are_a_contrast():
    rng = np.random.default_rng(0)
    sentences = np.repeat(np.arange(60), 5)
    base, wide = (replicates(sentences, scale * rng.normal(size=300), spread) for scale in (1.0, 2.0))
    both = base.assign(after=wide["value"])
    within = compare(Replicates(column="after", before="value"), both, [both], 0.05)
    pd.testing.assert_frame_equal(within, compare(Replicates(), base, [wide], 0.05))


def test_replicates_that_differ_by_rounding_do_not_differ():
    base = replicates(np.repeat(np.arange(60), 5), np.random.default_rng(0).normal(size=300), spread)
    noisy = base.assign(value=base["value"] * (1 + 1e-6 * np.random.default_rng(1).normal(size=len(base))))
    found = control_false_discoveries(compare(Replicates(), base, [noisy], 0.05).assign(metric="m"))
    assert (
        found["difference"].tolist() == [0]
        and found["p"].tolist() == [1]
        and found["verdict"].tolist() == ["unchanged"]
    )


def test_other_groups_cannot_be_paired():
    base = replicates(np.repeat(np.arange(60), 5), np.random.default_rng(0).normal(size=300), spread)
    with pytest.raises(AnalysisError, match="other groups"):
        compare(Replicates(), base, [base[base["left_out"] < 10]], 0.05, Settings())


def summed(table: pd.DataFrame, group: pd.Series) -> pd.DataFrame:
    """The sums of every sentence over the items of a group."""
    table = table.assign(label=group, n=1)
    return table.groupby(["sentence", "label", "layer"], as_index=False, sort=False)[["before", "after", "n"]].sum()


def test_groups_of_items_are_compared_each_by_itself():
    """The same numbers as comparing the items of every group alone, whatever the other groups are."""
    rng = np.random.default_rng(4)
    table = items(rng, 0.1, sentences=60)
    group = pd.Series(np.where(table["word"] < 2, "a", np.where(rng.random(len(table)) < 0.1, "b", "c")))
    other = items(rng, 0.3, sentences=60).assign(layer=2)
    sums = pd.concat([summed(table, group), summed(other, group)])
    found = compare(Within("groups", count="n"), sums, [sums], 0.05, places=("layer", "label"))
    assert sorted(zip(found["label"], found["layer"], strict=True)) == [(g, n) for g in "abc" for n in (1, 2)]
    for _, row in found.iterrows():
        mine = (table if row["layer"] == 1 else other)[(group == row["label"]).to_numpy()]
        alone = compare(Within(), mine, [mine], 0.05).iloc[0]
        assert row["items"] == len(mine) and row["sentences"] == mine["sentence"].nunique() == alone["sentences"]
        for name in ("base", "tuned", "difference", "low", "high", "p", "p_equivalence"):
            assert row[name] == pytest.approx(alone[name]), name
