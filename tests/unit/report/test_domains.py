"""The similarity chapter: what it shows and says of the domain a model was tuned on."""

import json

import pandas as pd
import pytest

from vestige.report.chapter_sections import chapter_headlines, chapter_sections
from vestige.report.chapters import CHAPTERS
from vestige.report.charts import Charts
from vestige.report.domains import domain_blocks
from vestige.report.reading import Reading

TEXT = ("label", "subset", "axis", "model", "reference", "metric", "corpus", "task", "params", "analysis", "cell")
KINDS = {
    "layer": "Int16", "layer2": "Int16", "head": "Int16", "tune_seed": "Int32", "probe_seed": "Int32",
    "x": "Float64", "value": "Float64", "n": "Int64", **dict.fromkeys(TEXT, "string"),
}  # fmt: skip
INSIDE, OUTSIDE = (0.99, 0.90, 0.71), (0.99, 0.95, 0.83)
VERDICTS = ("unchanged", "lower", "lower")


def results(metrics, **corpora):
    """Measures by layer of the model `m` on some corpora, with intervals."""
    rows = [
        {"metric": f"{metric}{side}", "value": value + step, "layer": layer, "corpus": corpus, "task": f"{corpus}-task",
         "model": "m", "params": f"p-{corpus}", "analysis": "similarity", "cell": corpus}
        for corpus, values in corpora.items()
        for metric in metrics
        for layer, value in enumerate(values)
        for side, step in (("", 0.0), ("_low", -0.01), ("_high", 0.01))
    ]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=list(KINDS)).astype(KINDS)


def differences(verdicts=VERDICTS, metrics=("rsa",), other="wiki", **more):
    """Rows of the table of comparisons: `m`, tuned on mnli, there and on another corpus."""
    rows = [
        {"metric": metric, "layer": layer, "in_domain": mine, "out_of_domain": theirs, "difference": mine - theirs,
         "low": mine - theirs - 0.02, "high": mine - theirs + 0.02, "q": 0.0001, "verdict": verdict}
        for metric in metrics
        for layer, (mine, theirs, verdict) in enumerate(zip(INSIDE, OUTSIDE, verdicts, strict=True))
    ]  # fmt: skip
    named = {"model": "m", "reference": "base", "analysis": "similarity", "corpus": "mnli", "task": "mnli-task",
             "params": "p-mnli", "tuned_on": "mnli/mnli", "other_corpus": other, "other_task": f"{other}-task",
             "other_params": f"p-{other}", "runs": 1, "words": 5000, "sentences": 400, "other_words": 5000,
             "other_sentences": 400, **more}  # fmt: skip
    return pd.DataFrame(rows).assign(**named)


def reading(comparisons, metrics=("rsa",), **corpora):
    corpora = corpora or {"mnli": INSIDE, "wiki": OUTSIDE}
    cells = [
        {"cell": name, "params": f"p-{name}", "analysis": "similarity", "parameters": json.dumps({"split": "dev"})}
        for name in corpora
    ]
    return Reading(results(metrics, **corpora), comparisons, pd.DataFrame(cells), {"study": "s"})


def blocks(found, corpus):
    """What is shown of the domain where similarity on a corpus is."""
    (similarity,) = [chapter for chapter in CHAPTERS if chapter.name == "similarity"]
    rows = found.results[found.results["corpus"] == corpus]
    return domain_blocks(found, rows, similarity.curves, "title", Charts())


def said(found):
    return [finding for finding in chapter_headlines(found) if finding.text.startswith("Tuned")]


def test_the_corpus_of_the_tuning_has_a_block_with_all_corpora_in_one_chart():
    charts, both = Charts(), ("rsa", "cka")
    ((_, sections),) = chapter_sections(reading(differences(metrics=both), both), charts)
    (block,) = [block for block in sections[0].blocks if block.heading == "m in its domain and out of it"]
    assert sections[0].name == "mnli/mnli-task" and "mnli" in sections[0].title
    (table,) = block.tables
    assert table.head[:4] == ["layer", "mnli", "wiki", "difference"]
    assert table.rows[2] == ["2", "0.710", "0.830", "\u22120.120", "\u22120.140 to \u22120.100", "< 0.001", "lower"]
    assert [title for title, _, _ in block.folded] == ["CKA"]
    drawn = json.dumps(charts.specs[block.charts[0]])
    assert "mnli (in domain)" in drawn and '"wiki"' in drawn
    assert "not alike" not in block.lede
    assert not [block for block in sections[0].blocks if block.heading.startswith("Change")]


def test_the_other_corpora_and_runs_without_a_domain_have_none():
    assert len(blocks(reading(differences()), "mnli")) == 1 and not blocks(reading(differences()), "wiki")
    for comparisons in (pd.DataFrame(), differences().drop(columns="other_corpus").assign(params="another")):
        found = reading(comparisons)
        assert not blocks(found, "mnli") and not said(found)


def test_the_layer_that_differs_most_is_told_with_its_numbers():
    (finding,) = said(reading(differences()))
    text = finding.text.replace("\u00a0", " ")
    assert text == (
        "Tuned on mnli, layer 2 of m is less similar to base on mnli (RSA 0.710) than on wiki (0.830; 95 % interval "
        "of the difference \u22120.140 to \u22120.100, q < 0.001); layer 1 is less similar too."
    )
    assert finding.kind == "lower"


@pytest.mark.parametrize(
    ("verdicts", "kind", "text"),
    [
        (("unchanged",) * 3, "unchanged", "all layers of m are as similar to base on mnli as on wiki, within 0.005"),
        (("unchanged", "undecided", "undecided"), "undecided", "no layer of m is shown to be less or more similar"),
        (("higher", "lower", "lower"), "lower", "; layer 1 is less similar too; the embeddings are more similar."),
        (("higher", "undecided", "undecided"), "higher", "the embeddings of m are more similar to base on mnli"),
    ],
)
def test_no_more_is_said_than_the_verdicts_do(verdicts, kind, text):
    (finding,) = said(reading(differences(verdicts)))
    assert text in finding.text and finding.kind == kind


def test_one_sentence_opens_the_page_and_those_on_further_corpora_stand_with_the_task():
    both = pd.concat([differences(), differences(other="news")], ignore_index=True)
    found = reading(both, mnli=INSIDE, wiki=OUTSIDE, news=OUTSIDE)
    assert len(said(found)) == 1
    ((_, (section, *_)),) = chapter_sections(found, Charts())
    assert ["than on news" in finding.text for finding in section.findings] == [True]


def test_a_corpus_taken_twice_is_told_apart_by_its_split():
    again = differences().assign(other_params="p-again")
    found = reading(pd.concat([differences(), again], ignore_index=True))
    cells = pd.concat([found.cells, found.cells.head(1).assign(params="p-again", parameters='{"split": "train"}')])
    found = Reading(found.results, found.comparisons, cells, found.lock)
    (block,) = blocks(found, "mnli")
    assert [table.head[2] for table in block.tables] == ["wiki (dev)", "wiki (train)"]


def test_samples_that_are_not_alike_are_told():
    (block,) = blocks(reading(differences(other_sentences=90)), "mnli")
    assert "5\u202f000 in 90 of wiki" in block.lede and "not alike" in block.lede
