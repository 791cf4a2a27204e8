"""The page of concepts: examples only where a change is shown, words as text, sentences that the verdicts support."""

from dataclasses import replace

import pytest

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus
from vestige.report.html import render
from vestige.report.pages.concepts import _aligned, _examples, _kept, page
from vestige.report.reading import Reading
from vestige.report.types import Page
from vestige.study.null import null_study

ODD = "<b>&odd</b>"


@pytest.fixture(scope="module")
def reading(tiny_encoder, tmp_path_factory) -> Reading:
    """A tiny model beside one whose hidden states are mostly noise; one word form would be a tag of HTML."""
    folder = tmp_path_factory.mktemp("concepts")
    sampled = load_corpus("treebank").sample({"train": 5, "dev": 5, "test": 60})
    sentences = tuple(
        replace(s, words=tuple(ODD if word == "the" else word for word in s.words)) for s in sampled["test"]
    )
    corpus = Corpus("words", {"test": sentences}, {"upos": "token"})
    asked = {"concepts": {"tasks": ["words/upos"], "clusters": 10, "seeds": 4, "groups": 5, "shuffles": 2}}
    tables = null_study(
        tiny_encoder("bert"),
        {"words": corpus},
        [asked],
        folder / "run",
        rotated=True,
        noise=3.0,
        cache=folder / "cache",
    ).tables
    return Reading(tables.results, tables.comparisons, tables.cells, tables.lock, kept=tables.kept)


@pytest.fixture(scope="module")
def found(reading) -> Page:
    return page(reading, "concepts")


def test_what_is_claimed_is_in_the_table(reading, found):
    said = [answer for answer in found.answers if answer.model == "noise 0"]
    assert said and said[0].kind == "lower" and said[0].topic == "representations"
    rows = reading.comparisons[reading.comparisons["model"] == "noise 0"]
    lower = rows[rows["metric"].isin(["survival", "agreement_change"]) & (rows["verdict"] == "lower")]
    assert len(lower) and "than" in said[0].text and "again" in said[0].text
    assert {answer.kind for answer in found.answers if answer.model.startswith("rotated")} <= {"unchanged"}


def test_examples_are_shown_where_clusters_changed_and_escaped(reading, found):
    (block,) = [block for section in found.sections for block in section.blocks if "differ" in block.heading]
    assert block.heading.endswith("noise 0")
    tables = [table for folded in block.folded for table in folded.tables]
    words = " ".join(row[1] for table in tables for row in table.rows)
    assert ODD in words and " (" in words
    written = render(reading)
    assert ODD not in written and "&lt;b&gt;&amp;odd" in written


def test_without_a_change_no_example_and_nothing_is_claimed(reading):
    quiet = replace(reading, comparisons=reading.comparisons.assign(verdict="undecided"))
    (part,) = quiet.parts("concepts")
    assert not [*_kept(part, "noise 0", ""), *_aligned(part, "noise 0"), *_examples(quiet, part, "noise 0")]
    same = replace(reading, comparisons=reading.comparisons.assign(verdict="unchanged"))
    (part,) = same.parts("concepts")
    assert [answer.kind for answer in _kept(part, "noise 0", "")] == ["unchanged"]
    higher = replace(reading, comparisons=reading.comparisons.assign(verdict="higher"))
    (part,) = higher.parts("concepts")
    texts = [answer.text for answer in (*_kept(part, "noise 0", ""), *_aligned(part, "noise 0"))]
    assert texts[1].startswith(
        "More words are, beyond chance, in clusters of one label (Part of speech) than in the base, at "
    )


def test_a_contrast_is_tabulated_as_the_difference(reading, found):
    """And not as the level of one of its sides."""
    metric = "The change in agreement with the base's clusters beyond re-clustering"
    tables = [table for section in found.sections for block in section.blocks for table in block.tables]
    (values,) = [table for table in tables if table.caption == metric]
    rows = reading.comparisons[reading.comparisons["metric"] == "agreement_change"].set_index(["model", "layer"])
    column = list(values.head).index("noise 0")
    shown = float(values.rows[-1][column].split("\u00a0")[0].replace("\u2212", "-"))
    assert shown == pytest.approx(rows["difference"][("noise 0", 3)], abs=6e-4) and shown < 0
