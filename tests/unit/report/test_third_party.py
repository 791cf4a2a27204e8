"""An analysis that the report has no page for: what it measured and compared is shown, and said."""

import sys

import pandas as pd
import pytest
import tiny
from report_frames import comparison
from report_page import Page

from vestige.report.chapter_sections import chapter_headlines, chapter_sections
from vestige.report.charts import Charts
from vestige.report.html import render
from vestige.report.markdown import render as render_markdown
from vestige.report.reading import Reading
from vestige.study.run import Study

THEIRS = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vestige.analyses.base import Analysis, Outcome
from vestige.analyses.rows import WordRows


@dataclass(frozen=True)
class Centroids(Analysis):
    """The label whose mean vector is nearest, layer by layer."""

    name: ClassVar[str] = "centroids"
    title: ClassVar[str] = "Nearest centroids"
    source: ClassVar[str] = "nobody2026"
    needs = frozenset({"hidden_states"})
    levels = ("token",)
    pooling: str = "last"

    def run(self, inputs):
        rows, outcome, parts = WordRows.of(inputs, "test"), Outcome(), []
        train, test = rows.representations["train"], rows.representations["test"]
        gold, truth = rows.labels["train"].numpy(), rows.labels["test"].numpy()
        sentences, words = rows.places(inputs.task, "test")
        for layer in range(train.layers):
            centres = np.stack([train.layer(layer)[gold == c].mean(0) for c in range(len(rows.classes))])
            distances = ((test.layer(layer)[:, None] - centres[None]) ** 2).sum(-1)
            right = distances.argmin(1) == truth
            outcome.add("hits", right.mean(), layer=layer)
            outcome.add("nearest", distances.min(), layer=layer)
            parts.append((np.full(len(right), layer), right))
        outcome.add("labels", len(rows.classes))
        count = len(parts)
        outcome.items = {
            "sentence": np.tile(sentences, count), "word": np.tile(words, count),
            "subset": np.full(count * len(words), "task", dtype=object),
            "layer": np.concatenate([layer for layer, _ in parts]),
            "probe_seed": np.zeros(count * len(words), dtype=int),
            "correct": np.concatenate([right for _, right in parts]),
        }
        return outcome

    right = "hits"
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_centroids.py").write_text(THEIRS)
    info = folder / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[vestige.analyses]\ncentroids = their_centroids:Centroids\n")
    for name, seed in (("base", 0), ("other", 1)):
        tiny.save("bert", folder / name, seed=seed)
    raw = {
        "study": "theirs",
        "models": {"base": str(folder / "base"), "tuned": {"load": str(folder / "other"), "reference": "base"}},
        "corpora": {"trees": "treebank"},
        "analyses": [{"centroids": {"tasks": ["trees/upos"]}}],
        "limit": 40,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield Study.from_dict(raw, folder / "run", cache=folder / "cache").run()
    sys.modules.pop("their_centroids", None)


def reading_of(run) -> Reading:
    tables = run.tables
    return Reading(tables.results, tables.comparisons, tables.cells, tables.lock)


def test_the_page_shows_the_comparisons_of_an_analysis_it_has_no_page_for(run):
    reading = reading_of(run)
    assert len(reading.comparisons) == 4
    page = Page(render(reading))
    assert "No model of this study is compared" not in page.text
    assert "Nearest centroids" in page.text and "against tuned" in page.text
    assert "In tuned, hits is" in page.text
    ((_, (section,)),) = chapter_sections(reading, Charts())
    blocks = {block.heading: block for block in section.blocks}
    assert list(blocks) == ["Hits (%) by layer", "Nearest by layer", "Numbers", "Change by fine-tuning"]
    (table,) = blocks["Change by fine-tuning"].tables
    assert [row[-1] for row in table.rows] == list(reading.comparisons["verdict"])
    assert [row[0] for row in table.rows] == ["embeddings", "1", "2", "3"]
    assert blocks["Numbers"].tables[0].rows[0][0] == "labels"
    assert "| layer | base | tuned | change | interval | q | verdict |" in render_markdown(reading)


def test_a_page_is_written_where_the_package_is_not_installed(run):
    found = reading_of(run)
    unknown = found.results.assign(analysis="unheard_of")
    reading = Reading(unknown, found.comparisons.assign(analysis="unheard_of"), found.cells, found.lock)
    assert "Unheard of" in Page(render(reading)).text


def test_where_nothing_is_claimed_the_page_does_not_say_that_nothing_is_compared(run):
    found = reading_of(run)
    described = found.comparisons.assign(verdict="described", p=float("nan"), q=float("nan"))
    page = Page(render(Reading(found.results, described, found.cells, found.lock)))
    assert "No model of this study is compared" not in page.text
    assert "nothing is claimed of their differences" in page.text
    assert "described" in page.text


def test_a_whole_model_has_no_layer_in_its_sentence():
    """Minimal pairs are scored by the whole model; its depth in the table of items is no finding about a layer."""
    text = dict.fromkeys(("label", "subset", "axis"), "string")
    rows = pd.DataFrame(
        [
            {"metric": "accuracy", "value": value, "model": model, "n": 40}
            for model, value in (("base", 0.8), ("tuned", 0.7))
        ]
    ).assign(analysis="minimal_pairs", corpus="bank", task="blimp", params="p0", cell="c")
    columns = [*rows, "layer", "layer2", "head", *text, "reference", "tune_seed", "x"]
    rows = rows.reindex(columns=columns).astype({**text, "layer": "Int16"})
    where = {"analysis": "minimal_pairs", "task": "blimp"}
    table = comparison([-0.1], half=0.01, **where).assign(layer=6)
    (finding,) = chapter_headlines(Reading(rows, table, pd.DataFrame(), {"study": "s"}))
    assert finding.text.startswith("In tuned, accuracy is lower than in base (80.0")
