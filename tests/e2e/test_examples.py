"""The pages of the examples are what their commands write from the tables kept beside them."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from vestige.analyses.metric import Declared
from vestige.papers.keep import open_run
from vestige.papers.page import Page
from vestige.papers.paper import NAMES as PAPERS
from vestige.papers.reproduce import rewrite
from vestige.papers.template import fill, template_text
from vestige.study.finished import StudyRun
from vestige.study.spec import make_spec, read_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


NAMES = [*PAPERS, "what_happened"]


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_declared_beside_the_tables(name):
    run = StudyRun.open(EXAMPLES / name / "results")
    declared = {params: Declared.from_json(said) for params, said in run.tables.lock["declared"].items()}
    for params, metric in run.results[["params", "metric"]].drop_duplicates().itertuples(index=False):
        assert metric in declared[params].metrics
    if len(run.comparisons):
        for params, metric in run.comparisons[["params", "metric"]].drop_duplicates().itertuples(index=False):
            assert declared[params].metrics[metric].margin


@pytest.mark.parametrize("name", ["durrani2021", "merchant2020"])
def test_probes_that_chance_trains_and_that_were_trained_once_have_no_verdict(name):
    run = StudyRun.open(EXAMPLES / name / "results")
    found, cells = run.comparisons, run.tables.cells
    durrani = cells[[json.loads(said).get("protocol") == "durrani" for said in cells["parameters"]]]["params"]
    chance = found["analysis"].isin(["edge_probe", "structural_probe"]) | found["params"].isin(set(durrani))
    assert chance.any()
    assert ((found["verdict"] == "described") >= (chance & (found["seeds"] == 1))).all()
    assert not (found[found["analysis"].isin(["similarity", "neurons"])]["verdict"] == "described").any()


@pytest.mark.parametrize("name", PAPERS)
def test_the_page_of_a_kept_run_is_written_from_its_tables(name, tmp_path):
    kept = EXAMPLES / name
    (tmp_path / "results").symlink_to(kept / "results")
    page = rewrite(name, tmp_path)
    assert page.read_text() == (kept / "README.md").read_text()
    assert (tmp_path / "claims.csv").read_text() == (kept / "claims.csv").read_text()
    assert {image.name for image in tmp_path.glob("images/*")} == {image.name for image in kept.glob("images/*")}


def test_a_page_beyond_the_papers_is_written_from_its_tables(tmp_path):
    example, kept = import_module("examples.what_happened.__main__"), EXAMPLES / "what_happened"
    page = Page(tmp_path)
    example.build(page, open_run(kept))
    assert page.write("README.md", example.NOTE).read_text() == (kept / "README.md").read_text()
    assert {image.name for image in tmp_path.glob("images/*")} == {image.name for image in kept.glob("images/*")}


@pytest.mark.parametrize("name", PAPERS)
def test_the_study_file_of_an_example_is_the_template_at_the_small_scale(name, monkeypatch):
    monkeypatch.setenv("VESTIGE_DATA", "/data")
    file = EXAMPLES / name / "study.yaml"
    assert file.read_text() == template_text(name, "small")
    assert read_spec(file).as_json() == make_spec(fill(name, "small", ["minilm"])).as_json()


KEPT_BY_ANOTHER = {"merchant2020": "its tables are of the study before RTE was left out"}


@pytest.mark.parametrize("name", PAPERS)
def test_kept_tables_are_those_of_the_template(name, monkeypatch):
    """Models, tasks, analyses and what was drawn of the corpora; places and settings that came later aside."""
    if name in KEPT_BY_ANOTHER and "rte" in open_run(EXAMPLES / name).tables.lock["spec"]["models"]:
        pytest.skip(KEPT_BY_ANOTHER[name])
    monkeypatch.setenv("VESTIGE_DATA", "/data")
    kept = open_run(EXAMPLES / name).tables.lock["spec"]
    asked = json.loads(json.dumps(make_spec(fill(name, "small", ["minilm"])).as_json()))
    for said in (kept, asked):
        for model in said["models"].values():
            model["read"] = None
        for corpus in said["corpora"].values():
            corpus["files"] = None
    assert {*kept["models"]} == {*asked["models"]} and {*kept["corpora"]} == {*asked["corpora"]}
    for part in ("models", "corpora"):
        for name in kept[part]:
            alike(kept[part][name], asked[part][name])
    for mine, theirs in zip(kept["analyses"], asked["analyses"], strict=True):
        assert mine["name"] == theirs["name"] and mine["tasks"] == theirs["tasks"]
        alike(mine["parameters"], theirs["parameters"])


def alike(kept, asked):
    """Alike in all that was known when the run was kept; keys that came later have their defaults."""
    shared = kept.keys() & asked.keys()
    assert len(shared) > 3 and {key: kept[key] for key in shared} == {key: asked[key] for key in shared}
