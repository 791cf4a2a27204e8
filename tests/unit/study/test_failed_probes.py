"""Probes that failed: no test, no verdict, no part in the correction, and a page that says so."""

import pandas as pd
from small_study import study

from vestige.comparison.failed import FAILED, is_failed, without_tests
from vestige.report.warnings import warnings
from vestige.study.run import Study


def test_a_row_is_failed_if_either_side_is():
    same = {"corpus": "c", "task": "t", "params": "p"}
    table = pd.DataFrame(
        [
            {"model": "tuned", "reference": "base", **same, "layer": layer, "p": 0.01, "p_equivalence": 0.9}
            for layer in range(4)
        ]
    )
    failed = is_failed(
        table, [("base", "c", "t", "p", 1), ("tuned", "c", "t", "p", 2), ("tuned", "c", "t", "other", 3)]
    )
    assert failed.tolist() == [False, True, True, False]
    assert without_tests(table, failed)["p"].isna().tolist() == failed.tolist()


def test_probes_whose_penalty_forbids_everything_are_no_finding(place, tmp_path, cache):
    raw = study(place, analyses=[{"layer_probe": {"tasks": ["words/upos"], "seeds": 1, "control": False, "l2": 1e4}}])
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    verdicts = run.comparisons.set_index("layer")["verdict"]
    assert verdicts[0] == FAILED and not set(verdicts) & {"lower", "higher"}
    assert run.comparisons["q"].isna().tolist() == (run.comparisons["verdict"] == FAILED).tolist()
    said = warnings(run.results, run.tables.lock)
    assert said and all(line.startswith("words/upos: ") for line in said)
    page = run.report().read_text()
    assert said[0] in page and "no verdict is given there" in said[0]
    assert not any(word in page for word in (" loses ", " lose ", " gains ", " gain "))
    trained = run.results[run.results["metric"] == "train_accuracy"]
    assert set(trained["layer"]) == {0, 1, 2}
