"""What fine-tuning did to selections of neurons, and to probes on them."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import compare
from vestige.comparison.estimators import Share
from vestige.comparison.selections import compare_selections, same_shape

WIDTH, LAYERS = 20, 4


def ordered(first):
    """All 80 neurons of 4 layers, `first` at the top."""
    return np.array([*first, *(n for n in range(WIDTH * LAYERS) if n not in first)])


def ranking(first, minimal, again=None):
    """A table of a ranking whose first `minimal` neurons are a minimal set; `again` is at the top in the re-fit."""
    order, places = ordered(first), np.argsort(ordered(first if again is None else again))
    table = {"neuron": order, "layer": order // WIDTH, "unit": order % WIDTH, "refit": places[order]}
    return pd.DataFrame({**table, "delta": np.where(np.arange(len(order)) < minimal, 0.02, np.nan)})


LOW, HIGH = ranking(range(8), 8), ranking(range(60, 68), 8)


MINIMAL, TOP_5, TOP_10 = ("minimal", "delta", 0.02), ("top", "share", 0.05), ("top", "share", 0.1)


def selections(table):
    return set(table[["selection", "axis", "x"]].itertuples(index=False, name=None))


def value(table, statistic, selection=MINIMAL, **where):
    rows = table[table["statistic"] == statistic]
    rows = rows[(rows[["selection", "axis", "x"]] == selection).all(axis=1)]
    for name, wanted in where.items():
        rows = rows[rows[name].isna()] if wanted is None else rows[rows[name] == wanted]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_move_from_the_first_layer_to_the_last_is_three_layers_long():
    table = compare_selections(LOW, [HIGH])
    for run in (0, None):
        assert value(table, "earth_mover", run=run)["value"] == 3
        assert value(table, "mean_layer", run=run)["value"] == 3
        assert value(table, "total_variation", run=run)["value"] == 1
        assert [value(table, name, run=run)["value"] for name in ("entered", "left", "stayed")] == [8, 8, 0]
        changes = [value(table, "share_change", layer=layer, run=run)["value"] for layer in range(LAYERS)]
        assert changes == [-1, 0, 0, 1]
    assert value(table, "earth_mover", run=0)["p"] < 0.01
    beyond = value(table, "left_beyond_refit")
    assert beyond["value"] == 8 and beyond["low"] > 0


def test_nothing_moved_is_no_distance_and_no_finding():
    table = compare_selections(LOW, [LOW])
    assert value(table, "earth_mover", run=0)["value"] == 0
    assert value(table, "earth_mover", run=0)["p"] == 1
    assert value(table, "stayed", run=0)["value"] == 8
    assert value(table, "left_beyond_refit")["value"] == 0


def test_the_turnover_of_a_refit_stands_beside_what_fine_tuning_exchanges():
    """Both models' re-fits put out three of eight neurons; the tuned model selects what the base does."""
    restless = ranking(range(8), 8, again=[*range(5), 20, 40, 60])
    table = compare_selections(restless, [restless, LOW])
    left = value(table, "left", run=0)
    assert (left["value"], left["refit_base"], left["refit_tuned"]) == (0, 3, 3)
    over = value(table, "left", run=None)
    assert (over["refit_base"], over["refit_tuned"]) == (3, 1.5)
    assert value(table, "stayed", run=0)["refit_base"] == 5
    assert value(table, "mean_layer", run=0)["refit_base"] == (1 + 2 + 3) / 8
    assert value(table, "left_beyond_refit")["low"] < 0


def test_a_move_that_refits_make_as_well_has_an_interval_that_holds_zero():
    high = ranking(range(60, 68), 8, again=range(8))
    for tuned in ([high], [high, HIGH]):
        found = value(compare_selections(ranking(range(8), 8, again=range(60, 68)), tuned), "mean_layer", run=None)
        assert found["low"] < 0 < found["high"]


def test_a_minimal_set_of_all_neurons_is_no_selection():
    whole = ranking(range(60, 68), WIDTH * LAYERS)
    assert selections(compare_selections(LOW, [HIGH, whole])) == {TOP_5, TOP_10}


def test_the_set_of_a_delta_holds_those_of_larger_ones():
    nested = LOW.assign(delta=np.where(np.arange(len(LOW)) < 3, 0.02, np.where(np.arange(len(LOW)) < 8, 0.005, np.nan)))
    table = compare_selections(nested, [nested])
    assert value(table, "stayed", ("minimal", "delta", 0.005), run=0)["value"] == 8
    assert value(table, "stayed", run=0)["value"] == 3


def test_sets_of_different_sizes_are_not_said_to_exchange_more_than_refits():
    table = compare_selections(LOW, [ranking(range(8), 20)])
    of_sets = table[table["selection"] == "minimal"]
    assert "left_beyond_refit" not in set(of_sets["statistic"])


def test_tops_of_the_ranking_are_compared_beside_minimal_sets():
    table = compare_selections(LOW, [HIGH])
    assert selections(table) == {MINIMAL, TOP_5, TOP_10}
    assert value(table, "entered", TOP_5, run=0)["value"] == 4


def test_several_runs_have_means_with_students_intervals():
    """Runs at 3 and at 0 layers: 1.5, and t = 12.7 standard errors of 1.5 to both sides."""
    table = compare_selections(LOW, [HIGH, LOW])
    over = value(table, "mean_layer", run=None)
    assert over["value"] == 1.5
    assert (over["low"], over["high"]) == pytest.approx((1.5 - 12.706 * 1.5, 1.5 + 12.706 * 1.5), rel=1e-4)
    assert value(table, "mean_layer", run=0)["value"] == 3
    assert value(table, "entered", run=None)["value"] == 4
    assert value(table, "share_change", run=None, layer=3)["value"] == 0.5
    assert value(table, "earth_mover", run=None)["low"] == 0


def test_distances_of_one_run_have_no_interval():
    table = compare_selections(LOW, [HIGH])
    assert table.loc[table["statistic"].isin(["earth_mover", "total_variation"]), "low"].isna().all()


def test_models_of_other_shapes_are_told_apart():
    assert same_shape(LOW, HIGH)
    assert not same_shape(LOW, LOW[LOW["layer"] < 3])


def items(right):
    """Two words in each of 40 sentences, under every probe of `right` (name: share that is correct)."""
    rng = np.random.default_rng(1)
    sentences, words = np.repeat([f"s{i}" for i in range(40)], 2), np.tile([0, 1], 40)
    parts = [
        pd.DataFrame({"sentence": sentences, "word": words, "subset": name, "correct": rng.random(80) < share})
        for name, share in right.items()
    ]
    return pd.concat(parts, ignore_index=True)


def by_subset(base, tuned, **more):
    return compare(Share(), base, tuned, 0.005, places=("subset",), **more)


def test_probes_are_compared_by_name_on_the_same_words():
    base, tuned = items({"all": 1.0, "top": 0.9, "only base": 0.5}), items({"top": 0.1, "all": 1.0})
    table = by_subset(base, [tuned]).set_index("subset")
    assert list(table.index) == ["all", "top"]
    assert table.loc["all", "difference"] == 0
    expected = (
        tuned.loc[tuned["subset"] == "top", "correct"].mean() - base.loc[base["subset"] == "top", "correct"].mean()
    )
    assert table.loc["top", "difference"] == pytest.approx(expected)
    assert table.loc["top", "p"] < 0.01


def test_what_another_fit_changes_is_part_of_the_interval():
    """Two fits choose other neurons, with which probes are 30 points apart in one model as in the other."""
    fits = [
        items({"bottom": share}).assign(probe_seed=seed) for seed, share in ((0, 0.4), (1, 0.7), (0, 0.75), (1, 0.4))
    ]
    base, tuned = pd.concat(fits[:2]), pd.concat(fits[2:])
    judged = by_subset(base, [tuned], stochastic=True).iloc[0]
    assert judged["low"] < 0 < judged["high"] and judged["p"] > 0.3
    first = by_subset(fits[0], [fits[2]]).iloc[0]
    assert first["p"] < 0.01, "sentences alone show a change"
    assert np.isnan(by_subset(fits[0], [fits[2]], stochastic=True).iloc[0]["p"])
