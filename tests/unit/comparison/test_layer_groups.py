"""Groups of layers and pairs of poolings: averages, pairing by sentence, and bad input."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import Settings, compare
from vestige.comparison.estimators import Difference, Share
from vestige.comparison.layer_groups import MARGIN, TASK, cross_pooling, group_differences, halves, of_pooling
from vestige.errors import AnalysisError

QUICK = Settings(resamples=299)


def items(correct: np.ndarray, subset: str = "task", seed: int = 0, **columns) -> pd.DataFrame:
    """An item table from correctness (sentences, layers)."""
    sentences, layers = correct.shape
    sentence, layer = np.meshgrid([f"s{i}" for i in range(sentences)], np.arange(layers), indexing="ij")
    found = {"sentence": sentence.ravel(), "word": -1, "subset": subset, "layer": layer.ravel(), "probe_seed": seed}
    return pd.DataFrame({**found, "correct": correct.ravel(), **columns})


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    ease = rng.normal(size=(120, 1))
    return [rng.normal(size=(120, 7)) + ease + shift > 0 for shift in (0.0, 0.3, -0.2)]


def test_halves_are_those_of_the_paper_for_twelve_blocks():
    assert halves(range(13)) == {"0-6": (0, 1, 2, 3, 4, 5, 6), "7-12": (7, 8, 9, 10, 11, 12)}
    assert list(halves(range(7))) == ["0-3", "4-6"]
    assert list(halves([0, 1])) == ["0-0", "1-1"]
    assert list(halves([0])) == ["0-0"]


def test_a_group_is_the_mean_of_its_layers(drawn):
    base, tuned, _ = drawn
    by_layer = compare(TASK, items(base), [items(tuned)], MARGIN, QUICK).set_index("layer")
    table = group_differences(items(base), [items(tuned)], settings=QUICK).set_index("group")
    assert list(table.index) == ["0-3", "4-6"] and list(table["layers"]) == [4, 3]
    for group, layers in (("0-3", [0, 1, 2, 3]), ("4-6", [4, 5, 6])):
        for column in ("base", "tuned", "difference"):
            assert table.loc[group, column] == pytest.approx(by_layer.loc[layers, column].mean())
        assert table.loc[group, "low"] < table.loc[group, "difference"] < table.loc[group, "high"]
    assert (table["sentences"] == 120).all() and (table["dropped_items"] == 0).all()


def test_layers_that_say_the_same_give_no_narrower_interval(drawn):
    """Seven copies of one layer are one measurement, not seven."""
    base, tuned = (np.repeat(found[:, :1], 7, axis=1) for found in drawn[:2])
    table = group_differences(items(base), [items(tuned)], {"one": [0], "all": range(7)}, QUICK).set_index("group")
    assert table.loc["all", "sd_items"] == pytest.approx(table.loc["one", "sd_items"])
    assert table.loc["all", "low"] == pytest.approx(table.loc["one", "low"])


def test_groups_stand_in_the_order_in_which_they_are_given(drawn):
    groups = {"top": [5, 6], "bottom": [0]}
    table = group_differences(items(drawn[0]), [items(drawn[1])], groups, QUICK)
    assert list(table["group"]) == ["top", "bottom"] and list(table["layers"]) == [2, 1]


def test_runs_are_averaged_and_their_deviation_is_given(drawn):
    base, *runs = drawn
    table = group_differences(items(base), [items(run) for run in runs], {"top": [5, 6]}, QUICK).iloc[0]
    each = [run[:, 5:].mean() - base[:, 5:].mean() for run in runs]
    assert table["difference"] == pytest.approx(np.mean(each))
    assert table["sd_tuning_run"] == pytest.approx(np.std(each, ddof=1))
    assert table["runs"] == 2


def test_control_items_give_the_selectivity_of_a_group(drawn):
    base, tuned, control = drawn
    both = [pd.concat([items(found), items(control, "control")]) for found in (base, tuned)]
    on_control = Share(where=(("subset", "control"),))
    found = [
        group_differences(both[0], both[1:], {"all": range(7)}, QUICK, estimator=estimator).iloc[0]
        for estimator in (on_control, Difference(first=TASK, second=on_control))
    ]
    assert found[0]["difference"] == 0
    assert found[1]["base"] == pytest.approx(base.mean() - control.mean())


def test_seeds_are_averaged_within_a_sentence(drawn):
    base, tuned, other = drawn
    table = group_differences(
        items(base), [pd.concat([items(tuned), items(other, seed=1)])], {"all": range(7)}, QUICK
    ).iloc[0]
    assert table["tuned"] == pytest.approx((tuned.mean() + other.mean()) / 2) and table["seeds"] == 2


def test_sentences_that_one_side_lacks_are_left_out_and_counted(drawn):
    base, tuned, _ = drawn
    fewer = items(tuned)
    fewer = fewer[fewer["sentence"] != "s7"]
    table = group_differences(items(base), [fewer], {"all": range(7)}, QUICK).iloc[0]
    assert table["sentences"] == 119 and table["dropped_items"] == 1
    assert table["base"] == pytest.approx(np.delete(base, 7, axis=0).mean())


@pytest.mark.parametrize(
    ("groups", "match"), [({"top": [6, 7]}, "'top' names layer 7"), ({"none": []}, "'none' names no layer")]
)
def test_groups_of_layers_that_are_not_there_are_refused(drawn, groups, match):
    with pytest.raises(AnalysisError, match=match):
        group_differences(items(drawn[0]), [items(drawn[1])], groups, QUICK)


def test_halves_are_of_the_layers_that_all_have(drawn):
    base, tuned, _ = drawn
    assert list(group_differences(items(base), [items(tuned[:, :5])], settings=QUICK)["group"]) == ["0-2", "3-4"]


def test_tuned_cls_is_compared_with_the_mean_of_the_base_model(drawn):
    cls, tuned, mean = drawn
    base = pd.concat([items(cls, pooling="cls"), items(mean, pooling="sentence_mean")])
    after = items(tuned, pooling="cls")
    table = cross_pooling(base, [after], settings=QUICK)
    np.testing.assert_allclose(table["difference"], tuned.mean(0) - mean.mean(0))
    assert len(of_pooling(base, "sentence_mean")) == mean.size
    with pytest.raises(AnalysisError, match="of pooling cls, not of 'sentence_mean'"):
        cross_pooling(after, [after], settings=QUICK)
    with pytest.raises(AnalysisError, match="not said"):
        of_pooling(items(cls), "cls")
