"""The page of V-information: only what has a verdict is put into words, and words of a corpus are only text."""

from dataclasses import replace

import pandas as pd
from report_frames import cells_frame, comparison, declared, lock_of, run_frame
from report_page import EVIL

from vestige.analyses.schema import PLACE, PLACES, typed
from vestige.report.html import render
from vestige.report.pages.v_information import page
from vestige.report.reading import Reading

WHERE = {"analysis": "v_information", "corpus": "bank", "task": "upos", "params": "p0"}
KEY = {**WHERE, "half": 0.01}


def examples(word: str = "swims") -> pd.DataFrame:
    row = {"layer": 2, "side": "lost", "left": "the fish", "word": word, "right": "away", "label": "VERB"}
    return pd.DataFrame([{**row, "before": 2.5, "after": -0.5}])


def group(kind: str, label: str, change: float, verdict: str, layer: int = 2, q: float = 0.001) -> pd.DataFrame:
    table = comparison([change], "pointwise", verdicts=[verdict], **KEY)
    return table.assign(layer=layer, subset=kind, label=label, items=200, q=q, margin=0.05)


def reading(*tables: pd.DataFrame, word: str = "swims", probe: str = "linear") -> Reading:
    rows = [
        {"model": model, "cell": f"{model}-0", "metric": "information", "layer": layer, "value": 3.0 - 0.1 * layer}
        for model in ("base", "tuned")
        for layer in range(3)
    ]
    rows += [
        {"model": "tuned", "cell": "tuned-0", "metric": metric, "layer": layer, "value": 0.1}
        for metric in ("lost", "gained")
        for layer in range(3)
    ]
    found = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    if len(found):
        found = found.assign(**typed(found, PLACE)[list(PLACES)])
    lock = {**lock_of(twin=False), "declared": declared({}, analysis="v_information")}
    kept = {"tuned-0": examples(word)}
    return Reading(
        run_frame(rows, **WHERE), found, cells_frame({"probe": probe}, analysis="v_information"), lock,
        kept=lambda name: kept if name == "examples" else {},
    )  # fmt: skip


def contrast(metric: str, changes: list[float], verdicts: list[str]) -> pd.DataFrame:
    return comparison(changes, metric, verdicts=verdicts, **KEY).assign(margin=0.02)


LOST = contrast("lost", [0.0, 0.05, 0.131], ["unchanged", "higher", "higher"])
GAINED = contrast("gained", [0.0, 0.0, 0.021], ["unchanged", "undecided", "undecided"])


def test_what_is_lost_opens_the_report_with_its_bits_and_layers():
    (said,) = page(reading(LOST, GAINED), "v_information").answers
    assert said.text == (
        "Linear probes read up to 0.131 bits per word about part of speech (layers 1 and 2, most at layer 2) from the "
        "base\u2019s layers that the tuned ones do not give."
    )
    assert (said.topic, said.model, said.kind) == ("kind", "tuned", "lower")


def test_what_is_gained_too():
    gained = GAINED.assign(verdict=["unchanged", "undecided", "higher"])
    (said,) = page(reading(LOST, gained), "v_information").answers
    assert said.text.endswith(
        ", and 0.021 bits per word about part of speech (layer 2) from the tuned layers that the base\u2019s do not give."
    )
    alone = contrast("lost", [0.0] * 3, ["undecided"] * 3)
    (said,) = page(reading(alone, gained), "v_information").answers
    assert said.text.startswith("Linear probes read 0.021 bits per word") and said.kind == "higher"


def test_the_family_of_probes_is_named_where_its_bits_are():
    found = page(reading(LOST, GAINED, probe="mlp"), "v_information")
    (said,), (limit,) = found.answers, found.limits
    assert said.text.startswith(
        "Probes with a hidden layer read up to 0.131 bits per word about part of speech (layers"
    )
    assert "those that probes with a hidden layer find" in limit and "linear" not in found.lede + limit
    assert "linear probes find" in page(reading(LOST, GAINED), "v_information").limits[0]


def test_two_families_are_two_answers():
    both, other = reading(LOST, GAINED), contrast("lost", [0.0, 0.0, 0.2], ["unchanged", "unchanged", "higher"])
    tables = replace(
        both,
        results=pd.concat([both.results, both.results.assign(params="p1")], ignore_index=True),
        comparisons=pd.concat([both.comparisons, other.assign(params="p1")], ignore_index=True),
        cells=cells_frame({"probe": "linear"}, {"probe": "mlp"}, analysis="v_information"),
        lock={**both.lock, "declared": declared({}, {}, analysis="v_information")},
    )
    linear, mlp = page(tables, "v_information").answers
    assert linear.text.startswith("Linear probes read up to 0.131 bits per word about part of speech (layers 1")
    assert mlp.text.startswith("Probes with a hidden layer read 0.200 bits per word about part of speech (layer 2)")


def test_without_a_verdict_nothing_opens_it():
    quiet = [contrast(name, [0.01, 0.02, 0.03], ["undecided"] * 3) for name in ("lost", "gained")]
    assert page(reading(*quiet), "v_information").answers == []
    below = contrast("lost", [-0.1, -0.1, -0.1], ["lower"] * 3)
    assert page(reading(below, quiet[1]), "v_information").answers == []
    assert page(reading(), "v_information").answers == []


def test_nothing_lost_is_claimed_only_where_it_is_shown_everywhere():
    same = [contrast(name, [0.0] * 3, ["unchanged"] * 3) for name in ("lost", "gained")]
    (said,) = page(reading(*same), "v_information").answers
    assert said.text == "No V-information about part of speech is lost or gained at any layer, within the margin."
    assert page(reading(same[0], GAINED), "v_information").answers == []


def test_groups_without_a_verdict_are_not_put_into_words():
    groups = [
        group("label", "VERB", -0.30, "lower"),
        group("label", "VERB", -0.10, "lower", layer=1),
        group("label", "NOUN", -0.40, "undecided", q=0.2),
        group("frequency", "not in train", -0.20, "lower"),
        group("word", "the", 0.15, "higher"),
    ]
    (section,) = page(reading(LOST, GAINED, *groups), "v_information").sections
    (block,) = [one for one in section.blocks if one.heading == "Which words"]
    lower, higher = block.findings
    assert (lower.kind, higher.kind) == ("lower", "higher")
    assert "words labelled VERB at layer 2" in lower.text and "words that do not occur in train" in lower.text
    assert "NOUN" not in lower.text + higher.text and "the word \u2018the\u2019 at layer 2" in higher.text
    assert [[line[0] for line in table.rows] for table in block.tables] == [
        ["Words labelled VERB", "Words that do not occur in train"],
        ["The word \u2018the\u2019"],
    ]
    by_label = next(one for one in block.folded if one.title.startswith("Label")).tables[0]
    assert [line[0] for line in by_label.rows] == ["VERB", "NOUN"]
    assert by_label.rows[1][-1] == "(\u22120.400)" and by_label.rows[0][-1] == "\u22120.300"


def test_single_words_are_examples_and_folded():
    (section,) = page(reading(LOST, GAINED), "v_information").sections
    (block,) = [one for one in section.blocks if one.heading.startswith("Single words")]
    assert block.closed and "no test" in block.lede and block.findings == []
    assert block.folded[0].tables[0].rows == [["the fish", "swims", "away", "VERB", "2.50", "\u22120.50", "\u22123.00"]]


def test_words_of_a_corpus_cannot_break_out_of_the_page():
    groups = group("word", EVIL, -0.3, "lower")
    written = render(reading(LOST, GAINED, groups, word=EVIL))
    plain = render(replace(reading(LOST, GAINED, groups.assign(label="x"))))
    assert EVIL not in written and written.count("<script") == plain.count("<script")
