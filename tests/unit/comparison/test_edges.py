"""Edge probes of base and tuned: F1 differences in the columns of every other comparison."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.comparison.edges import compare_edges
from vestige.errors import AnalysisError

FEW = Settings(resamples=199)


def table(hits, inputs=("layer 1", "mix", "mix 0-1", "mix 0-2")):
    """One target a sentence: predicted always, right where `hits` says so, of the first mix the other way round."""
    names = [f"s{i}" for i in range(len(hits))]
    parts = [
        pd.DataFrame(
            {"sentence": names, "subset": name, "probe_seed": 0, "hits": hits[::-1] if "0-1" in name else hits}
        )
        for name in inputs
    ]
    frame = pd.concat(parts, ignore_index=True).assign(predicted=1, gold=1, targets=1)
    return frame.assign(tenney_hits=frame["hits"], tenney_predicted=1, tenney_gold=1)


def test_f1_is_compared_per_input_and_the_whole_mix_once():
    base, tuned = np.array([1] * 60 + [0] * 40), np.array([1] * 90 + [0] * 10)
    found = compare_edges(two_seeds(base), [two_seeds(tuned)], FEW)
    assert found.groupby("metric", sort=False)["subset"].apply(list).to_dict() == {
        "f1_micro": ["layer 1", "mix", "mix 0-1"],
        "f1_tenney": ["layer 1", "mix", "mix 0-1"],
    }
    assert found["base"].tolist() == pytest.approx([0.6] * 6) and found["tuned"].tolist() == pytest.approx([0.9] * 6)
    assert (found["low"] > 0.15).all() and (found["high"] < 0.45).all() and (found["runs"] == 1).all()
    judged = control_false_discoveries(found.assign(analysis="edge_probe", params="p"), FEW)
    assert set(judged["verdict"]) == {"higher"}


def two_seeds(hits):
    return pd.concat([table(hits), table(hits).assign(probe_seed=1)], ignore_index=True)


def test_a_mix_of_some_layers_is_compared_though_it_is_the_largest_there_is():
    base, tuned = np.array([1] * 60 + [0] * 40), np.array([1] * 90 + [0] * 10)
    found = compare_edges(_some(base), [_some(tuned)], FEW)
    assert found[found["metric"] == "f1_micro"]["subset"].tolist() == ["mix", "mix 0-1"]
    same = compare_edges(table(base, ("mix", "mix 0-2")), [_some(tuned).replace("mix 0-1", "mix 0-2")], FEW)
    assert same[same["metric"] == "f1_micro"]["subset"].tolist() == ["mix", "mix 0-2"], "alike in one model only"


def _some(hits):
    return table(hits, ("mix", "mix 0-1"))


def test_sentences_that_lost_targets_are_left_out_and_counted():
    """A model with less room has five of ten targets, the easy ones: on these alone it would look better."""
    rows = {"sentence": [f"s{i}" for i in range(40)], "subset": "mix", "probe_seed": 0}
    base = pd.DataFrame({**rows, "hits": 8, "predicted": 10, "gold": 10, "targets": 10})
    cut = base.assign(hits=[5] * 20 + [8] * 20, predicted=[5] * 20 + [10] * 20, gold=[5] * 20 + [10] * 20,
                      targets=[5] * 20 + [10] * 20)  # fmt: skip
    tables = [t.assign(**{f"tenney_{name}": t[name] for name in ("hits", "predicted", "gold")}) for t in (base, cut)]
    found = compare_edges(tables[0], tables[1:], FEW)
    assert (
        (found["difference"] == 0).all() and (found["sentences"] == 20).all() and (found["dropped_items"] == 200).all()
    )


def test_seeds_of_probes_have_a_spread():
    one, other = table(np.array([1] * 60 + [0] * 40)), table(np.array([1] * 70 + [0] * 30))
    both = pd.concat([one, other.assign(probe_seed=1)], ignore_index=True)
    found = compare_edges(both, [pd.concat([other, other.assign(probe_seed=1)], ignore_index=True)], FEW)
    np.testing.assert_allclose(found["sd_probe_seed"], np.std([0.1, 0.0], ddof=1))


def test_equal_probes_are_unchanged():
    same = two_seeds(np.array([1, 0] * 50))
    found = compare_edges(same, [same, same], FEW)
    assert (found["difference"] == 0).all() and (found["p_equivalence"] < 0.05).all() and (found["runs"] == 2).all()


def test_what_is_counted_is_what_is_compared():
    hits = np.array([1] * 20 + [0] * 10)
    base = table(hits).assign(gold=5, tenney_gold=2, targets=5)
    found = compare_edges(base, [base[base["sentence"] != "s3"]], FEW)
    assert found.groupby("metric")["words"].unique().to_dict() == {"f1_micro": [29 * 5], "f1_tenney": [29 * 2]}
    assert (found["sentences"] == 29).all() and (found["dropped_items"] == 5).all()


def test_a_model_without_targets_is_refused():
    with pytest.raises(AnalysisError, match="share 0 sentences"):
        compare_edges(table(np.ones(5, dtype=int)), [table(np.ones(5, dtype=int)).head(0)], FEW)


@pytest.mark.parametrize("runs", [1, 2])
def test_one_sentence_shows_nothing(runs):
    found = compare_edges(two_seeds(np.array([0])), [two_seeds(np.array([1]))] * runs, FEW)
    judged = control_false_discoveries(found.assign(analysis="edge_probe", params="p"), FEW)
    assert set(judged["verdict"]) == {"described"} and judged["low"].isna().all()
