"""Tables of another schema are refused with what to do; margins of a study are those of its metrics."""

import json

import pytest
from small_study import study

from vestige.checksums import CHECKSUMS
from vestige.errors import SpecError, StorageError
from vestige.study.finished import StudyRun
from vestige.study.run import Study
from vestige.study.spec import make_spec


def test_a_run_of_an_older_schema_says_to_run_the_study_again(place, tmp_path, cache):
    run = Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    lock = tmp_path / "run" / "study.lock.json"
    older = json.loads(lock.read_text())
    assert older["schema"] == 2
    del older["schema"]
    lock.write_text(json.dumps(older))
    (tmp_path / "run" / CHECKSUMS).unlink()
    with pytest.raises(StorageError, match="its tables have schema 1") as error:
        StudyRun.open(run.tables.folder).report()
    assert "run the study again" in str(error.value)


def test_the_lock_declares_every_metric_of_the_results(place, tmp_path, cache):
    run = Study.from_dict(study(place), tmp_path / "run", cache=cache).run()
    declared = run.tables.lock["declared"]
    assert set(declared) == set(run.results["params"])
    known = {metric["name"] for one in declared.values() for metric in one["metrics"]}
    assert set(run.results["metric"]) <= known


def test_a_study_may_set_the_margin_of_a_metric(place, tmp_path, cache):
    raw = study(place, compare={"resamples": 99, "margins": {"accuracy": 0.25}})
    run = Study.from_dict(raw, tmp_path / "run", cache=cache).run()
    margins = run.comparisons.groupby("metric")["margin"].unique()
    assert margins["accuracy"].tolist() == [0.25] and margins["selectivity"].tolist() == [0.005]


def test_a_margin_of_an_unknown_metric_is_refused(place):
    with pytest.raises(SpecError, match=r"'acuracy'.*did you mean 'accuracy'"):
        make_spec(study(place, compare={"margins": {"acuracy": 0.01}}))
