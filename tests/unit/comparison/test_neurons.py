"""What fine-tuning did to selections of neurons, and to probes on them."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import compare_subsets
from vestige.comparison.neurons import compare_selections, same_shape

WIDTH, LAYERS = 20, 4


def ranking(first, minimal):
    """A table of 80 neurons in 4 layers, `first` at the top, of which `minimal` are a minimal set."""
    order = np.array([*first, *(n for n in range(WIDTH * LAYERS) if n not in first)])
    return pd.DataFrame(
        {"neuron": order, "layer": order // WIDTH, "unit": order % WIDTH, "minimal within 2": order < -1}
    ).assign(**{"minimal within 2": np.arange(len(order)) < minimal})


LOW, HIGH = ranking(range(8), 8), ranking(range(60, 68), 8)


def value(table, statistic, selection="minimal within 2", **where):
    rows = table[(table["statistic"] == statistic) & (table["selection"] == selection)]
    for name, wanted in where.items():
        rows = rows[rows[name].isna()] if wanted is None else rows[rows[name] == wanted]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_move_from_the_first_layer_to_the_last_is_three_layers_long():
    table = compare_selections(LOW, [HIGH])
    assert value(table, "earth_mover")["value"] == 3
    assert value(table, "mean_layer")["value"] == 3
    assert value(table, "total_variation")["value"] == 1
    assert value(table, "earth_mover")["p"] < 0.01
    assert [value(table, name)["value"] for name in ("entered", "left", "stayed")] == [8, 8, 0]
    changes = [value(table, "share_change", layer=layer)["value"] for layer in range(LAYERS)]
    assert changes == [-1, 0, 0, 1]


def test_nothing_moved_is_no_distance_and_no_finding():
    table = compare_selections(LOW, [LOW])
    assert value(table, "earth_mover")["value"] == 0
    assert value(table, "earth_mover")["p"] == 1
    assert value(table, "stayed")["value"] == 8


def test_tops_of_the_ranking_are_compared_beside_minimal_sets():
    table = compare_selections(LOW, [HIGH])
    assert set(table["selection"]) == {"minimal within 2", "top 5%", "top 10%"}
    assert value(table, "entered", "top 5%")["value"] == 4


def test_several_runs_have_means_with_intervals():
    table = compare_selections(LOW, [HIGH, LOW])
    over = value(table, "mean_layer", run=None)
    assert (over["value"], over["low"], over["high"]) == (1.5, 0, 3)
    assert value(table, "mean_layer", run=0)["value"] == 3
    assert value(table, "entered", run=None)["value"] == 4
    assert value(table, "share_change", run=None, layer=3)["value"] == 0.5


def test_one_run_has_no_interval():
    table = compare_selections(LOW, [HIGH])
    assert table["run"].notna().all()
    assert table["low"].isna().all()


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


def test_probes_are_compared_by_name_on_the_same_words():
    base, tuned = items({"all": 1.0, "top": 0.9, "only base": 0.5}), items({"top": 0.1, "all": 1.0})
    table = compare_subsets(base, [tuned]).set_index("subset")
    assert list(table.index) == ["all", "top"]
    assert table["layer"].isna().all()
    assert table.loc["all", "difference"] == 0
    expected = (
        tuned.loc[tuned["subset"] == "top", "correct"].mean() - base.loc[base["subset"] == "top", "correct"].mean()
    )
    assert table.loc["top", "difference"] == pytest.approx(expected)
    assert table.loc["top", "p"] < 0.01
