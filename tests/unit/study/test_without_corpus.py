"""Analyses that read no corpus: one cell for every model and its reference, in study files and in `compare`."""

import json

import pandas as pd
import pytest
import tiny
import torch

import vestige as vg
from vestige.analyses.base import NO_TASK
from vestige.errors import AnalysisError, SpecError
from vestige.report.pages import page_of
from vestige.report.pages.weights import _held
from vestige.study.engines.settings import EngineSpec
from vestige.study.estimate import plan_lines
from vestige.study.null import claims
from vestige.study.run import Study
from vestige.study.steps.step import restore


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    tiny.save("bert", folder / "base", layers=2)
    tiny.save("bert", folder / "copy", layers=2)
    moved = tiny.model("bert", layers=2, classes=2)
    with torch.no_grad():
        moved.bert.load_state_dict(tiny.model("bert", layers=2).state_dict())
        moved.bert.encoder.layer[1].output.dense.weight *= 1.5
        moved.bert.encoder.layer[0].attention.self.query.weight *= 1.01
        moved.bert.pooler.dense.weight.normal_()
    moved.save_pretrained(folder / "moved")
    tiny.tokenizer("bert").save_pretrained(folder / "moved")
    return folder


def study(place, *names, **changes):
    models = {"base": str(place / "base")}
    models |= {name: {"load": str(place / name), "reference": "base"} for name in names}
    return {"study": "tiny", "models": models, "analyses": [{"weights": {}}], **changes}


def test_a_study_without_a_corpus_plans_cells_and_loads_nothing(place, tmp_path):
    made = Study.from_dict(study(place, "moved", "copy"), tmp_path / "run", cache=tmp_path / "cache")
    plan = made.plan()
    assert not plan.loads and not plan.extracts and not plan.compares and not plan.tasks
    assert [cell.title for cell in plan.cells] == ["weights, model moved", "weights, model copy"]
    assert len({cell.key for cell in plan.cells}) == 2
    assert plan.cells[0].about == {"moved", "weights"}
    assert restore(plan.cells[0].to_json()) == plan.cells[0]
    again = Study.from_dict(study(place, "copy", "moved"), tmp_path / "other", cache=tmp_path / "cache").plan()
    assert {cell.key for cell in again.cells} == {cell.key for cell in plan.cells}
    assert any("analyses" in line for line in plan_lines(made, EngineSpec()))


def test_cells_are_named_by_both_models(place, tmp_path):
    raw = study(place, "moved", "copy")
    raw["models"]["moved"]["reference"] = "copy"
    raw["models"]["copy"].pop("reference")
    (cell,) = Study.from_dict(raw, tmp_path, cache=tmp_path / "cache").plan().cells
    other = Study.from_dict(study(place, "moved"), tmp_path, cache=tmp_path / "cache").plan().cells[0]
    assert cell.reference.origin.model == "copy"
    assert (cell.key == other.key) == (cell.reference.origin.key == other.reference.origin.key)


@pytest.fixture(scope="module")
def run(place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return Study.from_dict(study(place, "moved", "copy"), folder / "run", cache=folder / "cache").run()


def value(run, metric, model, layer=None, label=None):
    rows = run.results[(run.results["metric"] == metric) & (run.results["model"] == model)]
    rows = rows[rows["layer"].isna() if layer is None else rows["layer"] == layer]
    rows = rows[rows["label"].isna() if label is None else rows["label"] == label]
    return float(rows["value"].iloc[0])


def test_rows_have_no_corpus_and_what_was_planted(run):
    assert set(run.results["corpus"]) == {""} == set(run.results["task"])
    assert value(run, "relative_change", "moved", 2, "MLP out") == pytest.approx(0.5, rel=0.02)
    assert value(run, "relative_change", "moved", 1, "attention q") == pytest.approx(0.01, rel=0.02)
    assert value(run, "share", "moved", 2) > 0.9
    assert value(run, "changed_tensors", "moved") == 3 and value(run, "changed_tensors", "copy") == 0
    assert value(run, "relative_change", "moved", label="pooler") > 0.5
    assert run.comparisons.empty and run.failed == []
    assert "fingerprint" not in run.tables.lock["models"]["base"][0]


def test_the_page_says_what_moved_and_that_a_copy_did_not(run):
    page = page_of("weights")(run.reading, "weights")
    said = {finding.key[-1]: [] for finding in page.findings}
    for finding in page.findings:
        assert finding.kind == "described"
        said[finding.key[-1]].append(finding.text.replace("\u00a0", " "))
    assert said["copy"] == ["No parameter of copy differs from its reference's (39 tensors compared)."]
    assert "the largest relative change is in layer 2, MLP out: 50" in said["moved"][0]
    assert said["moved"][1].endswith("of the squared change of moved is in layer 2.")
    assert "MLP out" in said["moved"][2] and "pooler" not in " ".join(said["moved"])
    answers = {answer.model: answer for answer in page.answers}
    assert answers["copy"].text.startswith("No parameter") and "layer 2" in answers["moved"].text
    assert {answer.topic for answer in page.answers} == {"parameters"}
    assert claims(run) == []


def test_a_change_is_said_to_be_in_some_layers_only_where_these_are_few():
    def shares(*values):
        return pd.DataFrame({"layer": range(len(values)), "subset": "", "value": values})

    assert _held(shares(0.1, 0.1, 0.2, 0.6), "it") == "60\u00a0% of it is in layer 3"
    assert _held(shares(0.1, 0.1, 0.4, 0.4), "it") == "80\u00a0% of it is in layers 2 and 3"
    assert "is spread: no 2 of the" in _held(shares(0.1, 0.3, 0.2, 0.2, 0.2), "it")


def test_the_map_has_a_square_for_every_layer_and_kind(run):
    page = page_of("weights")(run.reading, "weights")
    block = next(block for block in page.sections[0].blocks if "layer and kind: moved" in block.heading)
    (data,) = block.figures[0].spec["datasets"].values()
    found = {(row["x"], row["y"]): row["value"] for row in data}
    assert found["MLP out", "2"] == pytest.approx(0.5, rel=0.02) and found["embeddings", "embeddings"] == 0
    assert len(found) == 1 + 2 * 7


def test_changes_of_models_have_a_cosine_on_the_page(place, tmp_path):
    more = tiny.model("bert", layers=2)
    with torch.no_grad():
        more.encoder.layer[1].output.dense.weight *= 1.2
    more.save_pretrained(place / "more")
    tiny.tokenizer("bert").save_pretrained(place / "more")
    run = Study.from_dict(study(place, "moved", "more"), tmp_path / "run", cache=tmp_path / "cache").run()
    page = page_of("weights")(run.reading, "weights")
    block = next(block for block in page.sections[0].blocks if "osine" in block.heading)
    assert block.findings[0].text.replace("\u00a0", " ").startswith("Changes of different models have a cosine of 1.00")


def test_compare_needs_no_corpus_and_takes_models_in_memory(place, tmp_path):
    tokenizer = tiny.tokenizer("bert")
    base, moved = tiny.model("bert", layers=2), tiny.model("bert", layers=2)
    with torch.no_grad():
        moved.encoder.layer[0].attention.self.key.weight += 0.1
    run = vg.compare(
        base, moved, analyses=["weights"], tokenizer=tokenizer, folder=tmp_path / "run", cache=tmp_path / "cache"
    )
    assert run.tables.lock["corpora"] == {} and "random twin" not in run.tables.lock["spec"]["models"]
    assert value(run, "share", "tuned", 1) == pytest.approx(1)
    assert "weights of base, tuned;" in repr(run)
    with pytest.raises(SpecError, match="layer_probe reads a corpus"):
        vg.compare(str(place / "base"), str(place / "copy"), folder=tmp_path / "x", cache=tmp_path / "cache")


def test_beside_analyses_that_read_a_corpus(place, tmp_path):
    run = vg.compare(
        str(place / "base"), str(place / "moved"), "treebank", analyses=["weights", "similarity"], limit=30,
        folder=tmp_path / "run", cache=tmp_path / "cache",
    )  # fmt: skip
    assert set(run.results[run.results["analysis"] == "weights"]["model"]) == {"tuned"}
    assert set(run.results["corpus"]) == {"", "treebank"}
    page = run.report().read_text()
    assert "weights; similarity (treebank)" in page or "similarity (treebank); weights" in page


@pytest.mark.parametrize(
    "analyses, said",
    [
        ([{"weights": {"tasks": ["words/upos"]}}], "weights reads no corpus|should be corpus/task"),
        ([{"weights": {}}, {"weights": {}}], "weights is asked for twice"),
        ([{"weights": {"below": 2}}], "below"),
    ],
)
def test_mistakes_are_said(place, tmp_path, analyses, said):
    with pytest.raises(SpecError, match=said):
        Study.from_dict(study(place, "moved", analyses=analyses), tmp_path, cache=tmp_path / "cache").plan()


def test_a_task_for_an_analysis_that_takes_none_is_a_mistake(place, tmp_path):
    raw = study(place, "moved", analyses=[{"weights": {"tasks": ["treebank/upos"]}}], corpora={"treebank": "treebank"})
    with pytest.raises(SpecError, match="weights reads no corpus"):
        Study.from_dict(raw, tmp_path, cache=tmp_path / "cache").plan()


def test_a_reference_is_needed_and_twins_are_left_out(place, tmp_path):
    with pytest.raises(SpecError, match="compares a model with its reference"):
        Study.from_dict(study(place), tmp_path, cache=tmp_path / "cache").plan()
    raw = study(place, "moved")
    raw["models"]["twin"] = {"random_twin_of": "base", "reference": "base"}
    plan = Study.from_dict(raw, tmp_path, cache=tmp_path / "cache").plan()
    assert [cell.model for cell in plan.cells] == ["moved"]


def test_a_failure_is_said_without_a_corpus(place, tmp_path):
    other = tiny.save("bert", tmp_path / "quantised", layers=2)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    raw = study(place, "moved")
    raw["models"]["bad"] = {"load": str(other), "reference": "base"}
    run = Study.from_dict(raw, tmp_path / "run", cache=tmp_path / "cache").run()
    assert [failure["model"] for failure in run.failed] == ["bad"]
    assert "missing from this page: weights, model bad" in run.report().read_text()


def test_a_task_that_is_none_says_so():
    with pytest.raises(AnalysisError, match="reads no corpus"):
        _ = NO_TASK.corpus
