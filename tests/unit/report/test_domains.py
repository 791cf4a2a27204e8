"""The page of similarity: what it shows and says of the domain a model was tuned on."""

import json

import pandas as pd
import pytest
from report_frames import cells_frame, declared, lock_of, run_frame

from vestige.analyses.schema import PLACE, PLACES, typed
from vestige.report.front import read_pages
from vestige.report.reading import Reading
from vestige.report.types import Block, Finding, Section

INSIDE, OUTSIDE = (0.99, 0.90, 0.71), (0.99, 0.95, 0.83)
VERDICTS = ("unchanged", "lower", "lower")


def results(metrics, **corpora):
    """Measures by layer of the model `m` on some corpora, with intervals."""
    rows = [
        {"metric": metric, "value": value, "low": value - 0.01, "high": value + 0.01, "layer": layer, "corpus": corpus,
         "task": f"{corpus}-task", "model": "m", "params": f"p-{corpus}", "analysis": "similarity", "cell": corpus}
        for corpus, values in corpora.items()
        for metric in metrics
        for layer, value in enumerate(values)
    ]  # fmt: skip
    return run_frame(rows)


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
             "other_params": f"p-{other}", "runs": 1, "items": 5000, "sentences": 400, "other_items": 5000,
             "other_sentences": 400, "margin": 0.005, "base": None, "tuned": None, **more}  # fmt: skip
    table = pd.DataFrame(rows).assign(**named)
    return table.assign(**typed(table, PLACE)[[name for name in PLACES if name != "layer"]])


def reading(comparisons, metrics=("rsa",), **corpora) -> Reading:
    corpora = corpora or {"mnli": INSIDE, "wiki": OUTSIDE}
    cells = pd.concat(
        [cells_frame({"split": "dev"}, analysis="similarity").assign(cell=name, params=f"p-{name}") for name in corpora]
    )
    (known,) = declared({"measures": list(metrics)}, analysis="similarity").values()
    lock = {**lock_of(), "declared": {f"p-{name}": known for name in corpora}}
    return Reading(results(metrics, **corpora), comparisons, cells, lock)


def sections(found: Reading) -> dict[str, Section]:
    """By corpus."""
    ((_, page),) = read_pages(found)
    return {section.name.partition("/")[0]: section for section in page.sections}


def domain(section: Section) -> list[Block]:
    return [block for block in section.blocks if block.heading == "m in its domain and out of it"]


def said(found: Reading) -> list[Finding]:
    findings = [finding for section in sections(found).values() for finding in section.findings]
    return [finding for finding in findings if finding.text.startswith("Tuned")]


def test_the_corpus_of_the_tuning_has_a_block_with_all_corpora_in_one_chart():
    found = sections(reading(differences(metrics=("rsa", "cka")), ("rsa", "cka")))
    (block,) = domain(found["mnli"])
    assert found["mnli"].title == "mnli" and not domain(found["wiki"])
    (table,) = block.tables
    assert table.head[:4] == ["layer", "mnli", "wiki", "difference"]
    assert table.rows[2] == ["2", "0.710", "0.830", "\u22120.120", "\u22120.140 to \u22120.100", "< 0.001", "lower"]
    assert [folded.title for folded in block.folded] == ["CKA"]
    drawn = json.dumps(block.figures[0].spec)
    assert "mnli (in domain)" in drawn and '"wiki"' in drawn
    assert "not alike" not in block.lede


def test_runs_without_a_domain_have_none():
    for comparisons in (pd.DataFrame(), differences(("lower",) * 3).drop(columns="other_corpus").assign(params="x")):
        found = reading(comparisons)
        assert not domain(sections(found)["mnli"]) and not said(found)


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


def test_every_other_corpus_has_its_sentence_and_weighs_its_margins():
    both = pd.concat([differences(), differences(other="news")], ignore_index=True)
    first, second = said(reading(both, mnli=INSIDE, wiki=OUTSIDE, news=OUTSIDE))
    assert "than on wiki" in first.text and "than on news" in second.text
    assert first.weight == second.weight == pytest.approx(0.12 / 0.005)


def test_a_corpus_taken_twice_is_told_apart_by_its_split():
    again = differences().assign(other_params="p-again")
    found = reading(pd.concat([differences(), again], ignore_index=True))
    cells = pd.concat([found.cells, found.cells.head(1).assign(params="p-again", parameters='{"split": "train"}')])
    found = Reading(found.results, found.comparisons, cells, found.lock)
    (block,) = domain(sections(found)["mnli"])
    assert [table.head[2] for table in block.tables] == ["wiki (dev)", "wiki (train)"]


def test_samples_that_are_not_alike_are_reported():
    (block,) = domain(sections(reading(differences(other_sentences=90)))["mnli"])
    assert "5\u202f000 in 90 of wiki" in block.lede and "not alike" in block.lede
