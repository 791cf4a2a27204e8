"""The trial of the promise that a new analysis is one file: that of another package, by its entry point and no more.

It is computed, compared in its own unit and margin, drawn, put into words, listed and documented; its page is
written where the package is not installed; and the same file works inside `vestige/analyses/`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import yaml
from report_page import Page
from transformers import PreTrainedModel

import vestige
from vestige.analyses import analysis_names
from vestige.listing import WIDTH, lines
from vestige.report.pages import page_of
from vestige.report.reading import Reading
from vestige.report.types import Figure
from vestige.study.finished import StudyRun
from vestige.study.run import Study

THEIRS = Path(__file__).parents[1] / "third_party"
NAME, LAST, SCALE = "vector_norms", 2, 1.5


def save_longer(folder: Path) -> None:
    """The tiny base with the vectors of its last layer longer: norms change there, and nearest means do not."""
    model: PreTrainedModel = tiny.model("bert", layers=LAST)
    norm = model.encoder.layer[-1].output.LayerNorm
    for weights in (norm.weight, norm.bias):
        weights.data *= SCALE
    model.save_pretrained(folder)
    tiny.tokenizer("bert").save_pretrained(folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    tiny.save("bert", folder / "base", layers=LAST)
    save_longer(folder / "longer")
    study = {
        "study": "theirs",
        "models": {"base": "./base", "tuned": {"load": "./longer", "reference": "base"}},
        "corpora": {"trees": "treebank"},
        "analyses": [{NAME: {"tasks": ["trees/upos"]}}],
        "compare": {"resamples": 199},
        "limit": 40,
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    return folder


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.syspath_prepend(THEIRS)


@pytest.fixture(scope="module")
def run(place) -> StudyRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(THEIRS)
        return Study.from_file(place / "study.yaml", place / "run", cache=place / "cache").run()


@pytest.fixture(scope="module")
def page(run):
    tables = run.tables
    reading = Reading(tables.results, tables.comparisons, tables.cells, tables.lock)
    return page_of(NAME)(reading, NAME)


def vestige_command(*arguments: str, path: Path | None, cwd: Path) -> subprocess.CompletedProcess:
    """The program in a process of its own, with one more folder of packages, or none."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {} if path is None else {"PYTHONPATH": str(path)}
    command = [sys.executable, "-m", "vestige.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=300)


def test_it_is_computed(run):
    found = run.results.groupby(["model", "metric"])["layer"].agg(list).to_dict()
    layers = [0, 1, LAST]
    assert found == {(model, metric): layers for model in ("base", "tuned") for metric in ("norm", "nearest")}


def test_it_is_compared_with_intervals_in_its_own_unit_and_margin(run):
    by_metric = dict(tuple(run.comparisons.groupby("metric")))
    assert by_metric.keys() == {"norm", "nearest"}
    for metric, margin in (("norm", 0.25), ("nearest", 0.01)):
        rows = by_metric[metric]
        assert rows["layer"].tolist() == [0, 1, LAST] and set(rows["margin"]) == {margin}
        assert ((rows["low"] <= rows["difference"]) & (rows["difference"] <= rows["high"])).all()
        assert rows["q"].notna().all()
        values = run.results[run.results["metric"] == metric].pivot(index="layer", columns="model", values="value")
        np.testing.assert_allclose(rows["tuned"], values["tuned"].astype(float))
        np.testing.assert_allclose(rows["difference"], (values["tuned"] - values["base"]).astype(float), atol=1e-4)
    norms = by_metric["norm"].set_index("layer")
    assert norms["verdict"].tolist() == ["unchanged", "unchanged", "higher"]
    assert norms.loc[LAST, "tuned"] == pytest.approx(SCALE * norms.loc[LAST, "base"], rel=1e-4)


def values_of(figure: Figure) -> int:
    """How many points a chart holds."""
    spec = figure.spec
    inside = [len(rows) for rows in spec.get("datasets", {}).values()]
    return max([*inside, len(spec.get("data", {}).get("values", ()))])


def test_it_is_drawn(page):
    (section,) = page.sections
    drawn = {block.heading: block.figures for block in section.blocks if block.figures}
    assert list(drawn) == ["The mean vector norm by layer", "Nearest-mean accuracy by layer"]
    for figures in drawn.values():
        curves, change = figures
        assert values_of(curves) == 6 and values_of(change) == 3


def test_it_is_put_into_words(page):
    said = [str(finding).replace("\N{NO-BREAK SPACE}", " ") for finding in page.findings]
    (higher,) = [finding for finding in page.findings if finding.kind == "higher"]
    assert "the mean vector norm" in higher.text.lower() and "5.66" in higher.text and "8.49" in higher.text
    assert higher.weight == pytest.approx((SCALE - 1) * 5.66 / 0.25, rel=0.01)
    assert any("nearest-mean accuracy" in text.lower() for text in said)
    norms = " ".join(text for text in said if "vector norm" in text.lower())
    assert "points" not in norms and "%" not in norms.replace("95 %", "")


def test_it_is_listed_and_documented(installed):
    assert any(line.startswith(f"{NAME} ") and "Vector norms" in line for line in lines("analyses"))
    listed = [*lines("analyses", NAME)]
    said = " ".join(" ".join(listed).split())
    assert max(map(len, listed)) <= WIDTH and "order number; default 2.0. Of the norm." in said
    assert "norm the mean vector norm; no unit; along layer; margin 0.25; compared by Mean" in said
    assert f"- {NAME}: {{tasks: [treebank/upos]}}" in said


def test_its_page_is_written_where_the_package_is_not_installed(run, place):
    assert NAME not in analysis_names()
    target = place / "elsewhere.html"
    done = vestige_command("report", str(run.tables.folder), "--out", str(target), path=None, cwd=place)
    assert done.returncode == 0, done.stderr
    shown = Page(target.read_text())
    assert "Vector norms" in shown.text and "the mean vector norm" in shown.text.lower() and "8.49" in shown.text
    assert len(shown.specs) >= 4 and shown.text == Page(run.report().read_text()).text


def test_the_same_file_works_among_our_own(run, place):
    ours = place / "ours" / "vestige"
    shutil.copytree(Path(vestige.__file__).parent, ours, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(THEIRS / "vestige_trial" / f"{NAME}.py", ours / "analyses")
    asked = ["run", str(place / "study.yaml"), "--out", "run of ours", "--cache", "cache of ours", "--jobs", "1"]
    done = vestige_command(*asked, path=ours.parent, cwd=place)
    assert done.returncode == 0, done.stderr
    for name in ("results", "comparisons"):
        mine, theirs = (pd.read_parquet(place / folder / f"{name}.parquet") for folder in ("run of ours", "run"))
        pd.testing.assert_frame_equal(
            mine.drop(columns="cell", errors="ignore"), theirs.drop(columns="cell", errors="ignore")
        )
    assert (place / "run of ours" / "report.html").read_text() == run.report().read_text()
    assert "Vector norms" in vestige_command("ls", "analyses", path=ours.parent, cwd=place).stdout
