"""Edge probes of base and tuned: F1 differences in the columns of every other comparison."""

import numpy as np
import pandas as pd
import pytest

from vestige.comparison.differences import Settings, control_false_discoveries
from vestige.comparison.edges import compare_edges

FEW = Settings(resamples=199)


def table(hits, inputs=("layer 1", "mix", "mix 0-1", "mix 0-2")):
    """One target a sentence: predicted always, right where `hits` says so."""
    parts = [
        pd.DataFrame({"sentence": [f"s{i}" for i in range(len(hits))], "subset": name, "probe_seed": 0, "hits": hits})
        for name in inputs
    ]
    frame = pd.concat(parts, ignore_index=True).assign(predicted=1, gold=1)
    return frame.assign(tenney_hits=frame["hits"], tenney_predicted=1, tenney_gold=1)


def test_f1_is_compared_per_input_and_the_whole_mix_once():
    base, tuned = np.array([1] * 60 + [0] * 40), np.array([1] * 90 + [0] * 10)
    found = compare_edges(table(base), [table(tuned)], FEW)
    assert found.groupby("metric", sort=False)["subset"].apply(list).to_dict() == {
        "f1_micro": ["layer 1", "mix", "mix 0-1"],
        "f1_tenney": ["layer 1", "mix", "mix 0-1"],
    }
    assert found["base"].tolist() == pytest.approx([0.6] * 6) and found["tuned"].tolist() == pytest.approx([0.9] * 6)
    assert (found["low"] > 0.15).all() and (found["high"] < 0.45).all() and (found["runs"] == 1).all()
    judged = control_false_discoveries(found.assign(analysis="edge_probe", params="p"), FEW)
    assert set(judged["verdict"]) == {"higher"}


def test_equal_probes_are_unchanged():
    same = table(np.array([1, 0] * 50))
    found = compare_edges(same, [same, same], FEW)
    assert (found["difference"] == 0).all() and (found["p_equivalence"] < 0.05).all() and (found["runs"] == 2).all()
