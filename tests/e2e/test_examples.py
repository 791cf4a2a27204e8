"""The pages of the examples are what their commands write from the tables kept beside them."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from examples.page import Page
from vestige.analyses.metric import Declared
from vestige.study.finished import StudyRun

EXAMPLES = Path(__file__).parents[2] / "examples"


NAMES = ["durrani2020", "durrani2021", "merchant2020", "merchant2020_depth", "mosbach2020", "what_happened"]


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


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_written_from_its_tables(name, tmp_path):
    kept = EXAMPLES / name
    page = Page(tmp_path, StudyRun.open(kept / "results"))
    import_module(f"examples.{name}.__main__").build(page)
    assert page.write(name).read_text() == (kept / "README.md").read_text()
    assert {image.name for image in tmp_path.glob("images/*")} == {image.name for image in kept.glob("images/*")}
