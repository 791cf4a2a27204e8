"""Probes that failed: no test, no verdict, no part in the correction, and a page that says so."""

import numpy as np
import pandas as pd
from small_study import study

from vestige.comparison.differences import FAILED, control_false_discoveries
from vestige.study.run import Study


def test_failed_probes_have_no_test_and_play_no_part_in_the_correction():
    table = pd.DataFrame({"metric": "accuracy", "difference": -0.1, "p": [0.01, 0.04, 0.001], "p_equivalence": 0.9,
                          "low": -0.2, "high": -0.1, "failed": [False, False, True]})  # fmt: skip
    judged = control_false_discoveries(table)
    alone = control_false_discoveries(table[~table["failed"]])
    assert judged["verdict"].tolist() == ["lower", "lower", FAILED]
    assert judged["q"].tolist()[:2] == alone["q"].tolist() and np.isnan(judged["q"][2])
    assert judged["p"].isna().tolist() == [False, False, True] and "failed" not in judged


def test_what_has_no_probes_that_could_fail_is_tested_in_a_table_with_what_has():
    shared = {"difference": -0.1, "p": 0.01, "p_equivalence": 0.9, "low": -0.2, "high": -0.1}
    probed = pd.DataFrame([{"metric": "accuracy", **shared, "failed": False}])
    domains = pd.DataFrame([{"metric": "rsa", **shared, "other_corpus": "other"}])
    judged = control_false_discoveries(pd.concat([probed, domains], ignore_index=True))
    assert judged["verdict"].tolist() == ["lower", "lower"] and judged["q"].tolist() == [0.01, 0.01]


def test_probes_whose_penalty_forbids_everything_are_no_finding(place, tmp_path, cache):
    raw = study(place, analyses=[{"layer_probe": {"tasks": ["words/upos"], "seeds": 1, "control": False, "l2": 1e4}}])
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    verdicts = run.comparisons.set_index("layer")["verdict"]
    assert verdicts[0] == FAILED and not set(verdicts) & {"lower", "higher"}
    assert run.comparisons["q"].isna().tolist() == (run.comparisons["verdict"] == FAILED).tolist()
    page = run.report().read_text()
    assert "no verdict is given there" in page and "words/upos: " in page
    assert not any(word in page for word in (" loses ", " lose ", " gains ", " gain "))
    trained = run.results[run.results["metric"] == "train_accuracy"]
    assert set(trained["layer"]) == {0, 1, 2}
