"""A cell that fails costs no other: it is named, the rest is written, and the exit code says so."""

import json
import os
import signal

import pytest
import yaml
from small_study import study
from typer.testing import CliRunner

from vestige.analyses.layer_probe import LayerProbe
from vestige.analyses.sentence_probe import SentenceProbe
from vestige.cli import app
from vestige.errors import AnalysisError, StorageError
from vestige.study.run import Study

NAMED = "sentence_probe of opinions/label, model"


@pytest.fixture
def half(place):
    """A study whose probes of words finish; its probes of sentences lack a dev set."""
    raw = study(place)
    raw["corpora"]["opinions"] = {"files": {"train": str(place / "opinions.tsv")}}
    raw["analyses"] += [{"sentence_probe": {"tasks": ["opinions/label"]}}]
    return raw


def test_what_finished_is_written_and_what_failed_is_named(half, tmp_path, cache, caplog):
    run = Study.from_dict(half, tmp_path / "run", cache=cache).run()
    assert set(run.results["analysis"]) == {"layer_probe"} and len(run.comparisons)
    assert [(f["analysis"], f["corpus"], f["task"], f["model"]) for f in run.failed] == [
        ("sentence_probe", "opinions", "label", model) for model in ("base", "other")
    ]
    assert all("has no 'dev' split" in failure["problem"] for failure in run.failed)
    assert f"{NAMED} base: corpus 'opinions' has no 'dev' split" in caplog.text
    for page in (run.report(), run.markdown()):
        assert f"Failed, and missing from this page: {NAMED} other" in page.read_text().replace("\\_", "_")


def test_a_comparison_that_fails_is_named(half, tmp_path, cache, monkeypatch):
    def divide(*arguments):
        return 1 / 0

    half["analyses"] = half["analyses"][:1]
    monkeypatch.setattr("vestige.study.differences.compared_models", divide)
    run = Study.from_dict(half, tmp_path / "run", cache=cache).run()
    (failure,) = run.failed
    assert (failure["analysis"], failure["model"]) == ("layer_probe", "other") and run.comparisons.empty
    assert failure["problem"].startswith("comparing layer_probe") and "division by zero" in failure["problem"]
    assert "Failed, and missing from this page: layer_probe" in run.report().read_text()


def test_the_command_ends_with_an_error(half, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(half))
    command = ["run", str(file), "--out", str(tmp_path / "run"), "--cache", str(tmp_path / "cache"), "--jobs", "1"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 1 and "2 analyses failed" in said.output
    assert (tmp_path / "run" / "report.html").exists()
    assert len(json.loads((tmp_path / "run" / "study.lock.json").read_text())["failed"]) == 2


def test_where_everything_fails_the_error_names_the_cell(half, tmp_path, cache):
    half["analyses"] = half["analyses"][1:]
    with pytest.raises(AnalysisError, match=f"{NAMED} base: corpus 'opinions' has no 'dev' split") as raised:
        Study.from_dict(half, tmp_path / "run", cache=cache).run()
    assert "dev: 0.1" in raised.value.fix
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["log"]


def test_an_exception_that_nobody_foresaw_costs_no_other_cell(half, tmp_path, cache, monkeypatch, caplog):
    def divide(self, inputs):
        return 1 / 0

    monkeypatch.setattr(SentenceProbe, "run", divide)
    run = Study.from_dict(half, tmp_path / "run", cache=cache).run()
    assert {failure["problem"] for failure in run.failed} == {"ZeroDivisionError: division by zero"}
    assert "return 1 / 0" in caplog.text and len(run.results)


def test_a_worker_that_dies_costs_its_own_cell_alone(half, tmp_path, cache, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if any('worker' in part for part in sys.orig_argv):\n"
        "    import vestige.analyses.sentence_probe as probe\n"
        "    before = probe.SentenceProbe.run\n"
        "    def run(self, inputs):\n"
        f"        return os.kill(os.getpid(), {int(signal.SIGKILL)}) if inputs.model == 'base' else before(self, inputs)\n"
        "    probe.SentenceProbe.run = run\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    half["analyses"] = half["analyses"][::-1]  # those that fail come first
    run = Study.from_dict(half, tmp_path / "run", cache=cache).run(jobs=2)
    assert set(run.results["analysis"]) == {"layer_probe"} and set(run.results["model"]) == {"base", "other"}
    problems = {failure["model"]: failure["problem"] for failure in run.failed}
    assert "ended without an answer" in problems["base"] and "has no 'dev' split" in problems["other"]


def test_a_full_disk_ends_the_study_and_the_error_names_the_cell(half, tmp_path, cache, monkeypatch):
    started = []

    def full(self, inputs):
        started.append(inputs.model)
        raise StorageError("the disk is full", fix="free some space")

    monkeypatch.setattr(LayerProbe, "run", full)
    with pytest.raises(StorageError, match="layer_probe of words/upos, model base: the disk is full"):
        Study.from_dict(half, tmp_path / "run", cache=cache).run()
    assert started == ["base"]


def test_a_model_that_cannot_be_read_is_named_with_the_corpus(half, tmp_path, cache):
    half["compute"] = {"on_overflow": "error"}
    long = tmp_path / "long.tsv"
    long.write_text(f"sentence\tlabel\n{'word ' * 300}\tyes\n")
    half["corpora"]["opinions"] = {"files": {"train": str(long)}}
    run = Study.from_dict(half, tmp_path / "run", cache=cache).run()
    assert {failure["analysis"] for failure in run.failed} == {"sentence_probe"}
    assert run.failed[0]["problem"].startswith("hidden states of opinions, model base: model base on opinions: ")
