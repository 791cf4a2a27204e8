"""`vestige reproduce` on a tiny model: every paper at the demo scale, its page, its claims, and a kept run."""

import csv
import shlex

import pytest
import shelf
import tiny
import tiny_lm
import yaml
from typer.testing import CliRunner

from vestige.cli import app
from vestige.papers.paper import NAMES, find_paper
from vestige.papers.template import fill
from vestige.papers.verdicts import VERDICTS
from vestige.study.spec import make_spec

FEW = {
    "durrani2020": ("Table 1", "Table 5", "Figures 2 to 5"),
    "durrani2021": ("Table 1: POS", "Table 7: POS", "Tables 2 and 6"),
    "mosbach2020": ("Table 2", "Figure 3"),
    "merchant2020": ("Table 1: probes read", "Figures 2 and 5"),
    "merchant2020_depth": ("Figure 3: freezing", "Figure 4: truncation"),
}


def run(command: str):
    said = CliRunner().invoke(app, shlex.split(command)[1:])
    assert said.exit_code == 0, f"{command}\n{said.output}\n{said.exception!r}"
    return said.output


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two tiny models with their language-model heads, and one cache for all papers."""
    folder = tmp_path_factory.mktemp("papers")
    for name, seed in (("first", 0), ("second", 1)):
        tiny_lm.whole("bert", seed=seed, layers=2).save_pretrained(folder / name)
        tiny.tokenizer("bert").save_pretrained(folder / name)
    return folder


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("VESTIGE_CACHE", str(place / "cache"))
    monkeypatch.setenv("VESTIGE_MODELS", str(place))


@pytest.mark.parametrize(
    ("name", "models", "limit"),
    [
        ("durrani2021", ["first"], 64),
        ("mosbach2020", ["first"], 320),  # its checkpoints of steps 20 and 40 need that many sentences
        ("merchant2020_depth", ["first", "second"], 64),
    ],
)
def test_a_paper_is_reproduced(place, name, models, limit):
    named = " ".join(f"--model {model}" for model in models)
    run(f"vestige reproduce {name} {named} --engine inline --limit {limit} --out {name}")
    held_to_its_claims(place / name, name)
    page = (place / name / "paper.md").read_text()
    assert all(model in page for model in models)


def test_every_paper_is_reproduced_somewhere_here():
    """`durrani2020` where its page is written again, and whole, with two models, among the commands of the README."""
    assert {*NAMES} == {"durrani2020", "durrani2021", "mosbach2020", "merchant2020", "merchant2020_depth"}


def test_the_last_paper_is_two_studies(place):
    said = run("vestige reproduce merchant2020 --model first --engine inline --limit 64 --out both")
    assert said.count("page: ") == 2
    for name in ("merchant2020", "merchant2020_depth"):
        held_to_its_claims(place / "both" / name, name)


def held_to_its_claims(folder, name):
    page = (folder / "paper.md").read_text()
    for heading in FEW[name]:
        assert heading in page
    assert "in the paper" not in page  # nothing published beside a model that is not the paper's
    with open(folder / "claims.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["claim"] for row in rows} == {statement.name for statement in find_paper(name).statements}
    assert {row["verdict"] for row in rows} <= {verdict.lower() for verdict in VERDICTS.values()}
    for image in folder.glob("images/*.png"):
        assert f"images/{image.name}" in page


def test_a_page_is_written_again_and_a_run_is_kept(place):
    run("vestige reproduce durrani2020 --model first --engine inline --limit 64 --out short")
    held_to_its_claims(place / "short", "durrani2020")
    first = (place / "short" / "paper.md").read_text()
    assert "smoke run" in first
    (place / "short" / "paper.md").unlink()
    run("vestige reproduce durrani2020 --from short")
    assert (place / "short" / "paper.md").read_text() == first
    run("vestige reproduce durrani2020 --from short --keep kept")
    kept = yaml.safe_load((place / "kept" / "study.yaml").read_text())
    assert kept["study"] == "durrani2020-demo" and kept["models"] == {"first": "first"}
    assert make_spec(kept) == make_spec(fill("durrani2020", "demo", ["first"]))
    wrong = CliRunner().invoke(app, shlex.split("reproduce mosbach2020 --from short --keep other"))
    assert wrong.exit_code == 1 and "which is none of mosbach2020" in str(wrong.exception)
    kept = (place / "kept" / "README.md").read_text()
    (place / "kept" / "README.md").unlink()
    run("vestige reproduce durrani2020 --from kept")
    assert (place / "kept" / "README.md").read_text() == kept


def test_a_plan_runs_nothing(place):
    said = run("vestige reproduce merchant2020 --model first --plan --out planned")
    assert "merchant2020-demo" in said and "merchant2020-depth-demo" in said and not (place / "planned").exists()


def test_the_full_scale_is_planned_with_stand_ins_for_the_papers_models(place, monkeypatch):
    copies = place / "copies"
    for name in ("bert-base-cased", "xlnet-base-cased"):
        tiny.save(name.partition("-")[0], copies / name, layers=2)
    monkeypatch.setenv("VESTIGE_MODELS", str(copies))
    monkeypatch.setenv("VESTIGE_DATA", str(shelf.ROOT))
    said = run("vestige reproduce durrani2020 --scale full --plan")
    assert "on one A100 40GB" in said and "xlnet-base-cased: 12 blocks (as published)" in said


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("smith2026", "no paper is called 'smith2026'"),
        ("durrani2020 --scale huge", "no scale is called 'huge'"),
        ("durrani2020 --keep kept", "--keep takes the tables of a run"),
    ],
)
def test_what_cannot_be_is_refused(command, problem):
    said = CliRunner().invoke(app, ["reproduce", *shlex.split(command)])
    assert said.exit_code == 1 and problem in str(said.exception)
