"""The page of probe transfer: what a sentence claims, its verdicts show."""

from dataclasses import replace

import pandas as pd

from vestige.analyses.metric import Declared
from vestige.analyses.probe_transfer import ProbeTransfer
from vestige.analyses.schema import IDENTITY, PLACE, VALUE, typed
from vestige.comparison.differences import Settings
from vestige.report.pages.probe_transfer import page
from vestige.report.pages.transfer_parts.sentences import answers, elsewhere, findings
from vestige.report.pages.transfer_parts.split import Split
from vestige.report.reading import Part, Reading
from vestige.report.settings import Setting

ANALYSIS = ProbeTransfer()
NAMES = ("drop", "lost", "re_encoded", "moved", "re_encoded_affine", "moved_affine", "elsewhere")
UNCHANGED = {"lost": 0.0, "re_encoded": 0.0, "moved": 0.0}


def verdict(value: float) -> str:
    return (
        "unchanged" if abs(value) < 0.002 else "undecided" if abs(value) < 0.006 else "higher" if value > 0 else "lower"
    )


def part(*layers: dict[str, float], extra: dict[str, float] | None = None) -> Part:
    """A task with the given values by layer; the drop is their sum, verdicts follow from the sizes."""
    rows, compared = [], []
    for layer, given in enumerate(layers):
        values = {"drop": sum(given[name] for name in ("lost", "re_encoded", "moved")), **given}
        for metric, value in values.items():
            rows.append({"metric": metric, "layer": layer, "value": value})
            if metric in NAMES:
                sides = {"base": 0.7, "tuned": 0.7 + value, "low": value - 0.001, "high": value + 0.001}
                told = {"difference": value, "q": 0.01, "margin": 0.005, "verdict": verdict(value)}
                compared.append({"metric": metric, "layer": layer, **sides, **told})
    of = {"model": "tuned", "reference": "base", "analysis": "probe_transfer", "params": "p", "corpus": "c"}
    of |= {"task": "upos"}
    frame = typed(pd.DataFrame(rows).assign(**of), (*IDENTITY, *PLACE, *VALUE))
    changes = pd.DataFrame(compared).assign(**of)
    changes = pd.concat([typed(changes, (*IDENTITY, *PLACE)), changes.drop(columns=["layer", *of])], axis=1)
    declared = Declared.from_json(ANALYSIS.declared())
    return Part(
        "c", "upos", "p", Setting("p", "probe_transfer", "p"), declared, frame, changes, changes[:0], "Part of speech"
    )


def said(found: Part) -> list[str]:
    return [one.text.replace("\u00a0", " ") for one in findings(Split.of(found, "tuned"), Settings(), "lead")]


def answer(found: Part) -> tuple[str, str]:
    (one,) = answers([Split.of(found, "tuned")])
    assert one.topic == "kind" and one.model == "tuned"
    return one.text, one.kind


SPLIT = {"lost": 0.031, "re_encoded": 0.004, "moved": 0.08}


def test_a_drop_is_taken_apart_at_the_layer_that_lost_most():
    found = part(UNCHANGED, {**SPLIT, "lost": 0.02}, SPLIT)
    assert answer(found) == (
        "Of the 11.5 points of part of speech that the base's probe misses at layer 2, 3.1 are lost and 8.0 "
        "moved, re-encoded is undecided.",
        "lower",
    )
    first, *rest = said(found)
    assert first.startswith(
        "At layer 2 the base's probe reads 11.5 points less from tuned as it is (81.5 \u2192 70.0): "
    )
    assert "3.1 points lost (95 % interval +3.0 to +3.2, q = 0.010)" in first
    assert "re-encoded +0.4 (95 % interval +0.3 to +0.5) is not shown" in first
    assert rest[0] == (
        "Part of speech in tuned: lost at layers 1 and 2 (up to 3.1 points, at layer 2); nothing lost within "
        "\u00b10.5 points at the embeddings."
    )


def test_nothing_is_said_to_change_where_nothing_is_shown():
    text, kind = answer(part(UNCHANGED, UNCHANGED))
    assert kind == "unchanged" and "nothing lost, re-encoded or moved within \u00b10.5 points" in text
    (only,) = findings(Split.of(part(UNCHANGED, UNCHANGED), "tuned"), Settings(), "lead")
    assert only.kind == "unchanged" and only.weight < 1
    unsure = part(UNCHANGED, {**UNCHANGED, "moved": 0.004})
    assert answer(unsure)[1] == "undecided"
    assert said(unsure) == [
        "That anything of part of speech is lost, re-encoded or moved in tuned is not shown at any layer."
    ]


def test_what_only_moved_is_neither_lower_nor_higher():
    found = part(UNCHANGED, {**UNCHANGED, "moved": 0.5})
    assert answer(found) == (
        "Of the 50.0 points of part of speech that the base's probe misses at layer 1, 50.0 are moved, nothing is "
        "lost or re-encoded within \u00b10.5 points.",
        "note",
    )
    assert {one.kind for one in findings(Split.of(found, "tuned"), Settings(), "lead")} <= {"note", "unchanged"}


def test_a_gain_is_called_one_and_a_part_below_0_has_its_sign():
    found = part({"lost": -0.03, "re_encoded": -0.02, "moved": 0.05})
    assert answer(found)[0] == (
        "At the embeddings, of part of speech, 3.0 points are gained, \u22122.0 re-encoded and 5.0 moved."
    )
    assert answer(found)[1] == "higher"
    assert (
        "3.0 points gained (95 % interval +2.9 to +3.1, q = 0.010), \u22122.0 points re-encoded (95 % interval \u22122.1 "
        in (said(found)[0])
    )


def test_a_part_that_is_more_than_the_drop_is_not_said_to_be_of_it():
    found = part(UNCHANGED, {"lost": -0.004, "re_encoded": 0.10, "moved": -0.005})
    assert answer(found)[0] == (
        "The base's probe misses 9.1 points of part of speech at layer 1, where 10.0 points are re-encoded and \u22120.9 "
        "the other parts in sum, lost and moved are undecided."
    )
    whole = part({"lost": -0.03, "re_encoded": 0.05, "moved": 0.01})
    assert answer(whole)[0] == (
        "The base's probe misses 3.0 points of part of speech at the embeddings, where 3.0 points are gained, 5.0 "
        "re-encoded and 1.0 moved."
    )


def test_a_layer_with_a_part_that_is_shown_is_spoken_of_before_a_larger_drop_without_one():
    nothing_shown = {"lost": 0.005, "re_encoded": 0.005, "moved": 0.005}
    found = part(nothing_shown, {"lost": -0.04, "re_encoded": 0.04, "moved": 0.0})
    assert answer(found)[0].startswith("At layer 1, of part of speech, 4.0 points are gained and 4.0 re-encoded")


def test_what_the_bases_probe_reads_after_an_affine_map_is_out_of_reach_rather_than_gone():
    found = part({"lost": 0.05, "re_encoded": 0.0, "moved": 0.1, "re_encoded_affine": -0.04, "moved_affine": 0.14})
    assert "the base's probe reads 4.0 points after an affine map: out of reach rather than gone" in answer(found)[0]
    assert "by any affine map in place of a rotation" in said(found)[0]


def test_another_layer_is_named_only_for_a_loss_that_is_shown():
    there = {"elsewhere": 0.03, "elsewhere_layer": 1.0, "elsewhere_in_base": 0.72}
    (found,) = elsewhere(Split.of(part({**SPLIT, **there}), "tuned"), Settings(), "lead")
    assert found.text.startswith("What the embeddings of tuned lost is found in another layer, at least in part: ")
    assert "reads 73.0 from layer 1 after an affine map" in found.text and found.text.endswith("72.0 from there.")
    assert not list(elsewhere(Split.of(part({**UNCHANGED, **there}), "tuned"), Settings(), "lead"))
    (not_found,) = elsewhere(Split.of(part({**SPLIT, **there, "elsewhere": -0.1}), "tuned"), Settings(), "lead")
    assert "is not found in another layer" in not_found.text


def test_the_bars_of_a_layer_add_up_to_the_tick():
    found = part(
        UNCHANGED, {"lost": 0.05, "re_encoded": -0.02, "moved": 0.1, "re_encoded_affine": -0.04, "moved_affine": 0.12}
    )
    reading = Reading(found.rows, found.changes, pd.DataFrame(), {"declared": {"p": ANALYSIS.declared()}})
    reading = replace(reading, cells=pd.DataFrame(columns=["params", "analysis", "parameters"]))
    made = page(reading, "probe_transfer")
    assert len(made.sections) == 1 and len(made.answers) == 1
    block = made.sections[0].blocks[0]
    assert len(block.figures) == 2
    data = [row for rows in block.figures[0].spec["datasets"].values() for row in rows if "part" in row]
    at = {row["part"]: row["value"] for row in data if row["layer"] == 1}
    assert round(at["lost"] + at["re-encoded"] + at["moved"] - at["drop"], 9) == 0
    assert block.tables[0].rows[1] == [
        "1",
        "+13.0 (above)",
        "+5.0 (above)",
        "\u22122.0 (below)",
        "+10.0 (above)",
        *block.tables[0].rows[1][5:],
    ]
