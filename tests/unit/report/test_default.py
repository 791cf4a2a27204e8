"""The default page: what its frames hold, what it says and shows of any analysis, from the declaration alone."""

import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from report_frames import Frames, cells_frame, comparison, declared, lock_of, run_frame
from report_page import Page as Written

from vestige.analyses.metric import LAYER, WHOLE, Axis, Metric
from vestige.comparison.estimators import Mean
from vestige.report import notes, numbers
from vestige.report.curves import baselines, curve_frame, grids, named_series
from vestige.report.default import lead_of, page
from vestige.report.drawing.curves import wrapped
from vestige.report.drawing.parts import place_axis
from vestige.report.front import take_opening
from vestige.report.html import render
from vestige.report.markdown import render as render_markdown
from vestige.report.pages import page_of
from vestige.report.reading import Reading
from vestige.report.types import Block, Page

FROZEN = Axis("frozen_blocks", "blocks frozen (-1: nothing)")
NORM = Metric("norm", "the norm", margin=0.25, decimals=2, compared=Mean())
SCORE = Metric("score", "score", "percent", "higher", decimals=1, along=(FROZEN, WHOLE))
LOSS = Metric("loss", "loss", "nats", "lower", 0.02, along=(WHOLE,), compared=Mean())
ALWAYS = Metric("always", "always the same", "percent", decimals=1, along=(WHOLE,), role="baseline")
LOST = Metric("lost", "lost", "count", along=(WHOLE,), role="remark", remark="{value} of {n} words of {split} are lost")
ENDS = {"low": -0.1, "high": 0.1}
WHERE = {"model": "base", "corpus": "bank", "task": "upos", "params": "p0", "analysis": "theirs", "cell": "c0"}


def rows(values, metric="norm", half=None, **where):
    """Values by layer or, with an axis, by place on it."""
    place = "x" if "axis" in where else "layer"
    sides = {} if half is None else {"low": -half, "high": half}
    made = [(at, value, {side: value + by for side, by in sides.items()}) for at, value in dict(values).items()]
    return [{"metric": metric, "value": value, place: at, **ends, **where} for at, value, ends in made]


def reading(made, comparisons=None, metrics=(NORM, SCORE, LOSS, ALWAYS, LOST), **lock) -> Reading:
    told = {"analysis": "theirs", "title": "Their measure", "source": "", "about": "What it is.", "uses_labels": True}
    known = {"p0": {**told, "metrics": [metric.as_json() for metric in metrics]}}
    table = pd.DataFrame() if comparisons is None else comparisons.assign(analysis="theirs")
    cells = cells_frame({}, analysis="theirs")
    return Frames(run_frame(made, **WHERE), table, cells, {**lock_of(), "declared": known, **lock}).reading


def page_in(*given, **more) -> Page:
    return page(reading(*given, **more), "theirs")


def blocks_of(found: Page) -> dict[str, Block]:
    return {block.heading: block for block in found.sections[0].blocks}


def said(found: Page) -> list[str]:
    return [finding.text.replace("\u00a0", " ") for finding in found.findings]


def two(**where):
    return [
        *rows(enumerate((5.0, 6.0, 7.0)), model="base", **where),
        *rows(enumerate((5.0, 6.0, 8.5)), model="tuned", **where),
    ]


def changed(verdicts, differences=(0.0, 0.1, 1.5), **more):
    table = comparison(differences, "norm", 0.1, verdicts)
    levels = {"base": [5.0, 6.0, 7.0], "tuned": [5.0, 6.1, 8.5]}
    ends = {f"{side}_{end}": [one + by for one in own] for side, own in levels.items() for end, by in ENDS.items()}
    return table.assign(margin=0.25, **levels, **ends, **more)


class TestFrames:
    def test_a_single_run_has_the_intervals_of_the_analysis(self):
        made = run_frame(rows({-1: 0.8, 0: 0.7}, "score", 0.01, axis="frozen_blocks"), **WHERE)
        found = curve_frame(made, SCORE, FROZEN)
        assert found["x"].tolist() == [-1, 0] and found["value"].tolist() == [0.8, 0.7]
        assert found["low"].tolist() == pytest.approx([0.79, 0.69])

    @pytest.mark.parametrize("intervals, low, high", [(3, 0.15, 0.75), (2, 0.2, 0.7), (0, 0.2, 0.7)])
    def test_several_runs_have_their_mean_and_all_their_intervals_or_else_their_range(self, intervals, low, high):
        made = [
            row
            for run, level in enumerate((0.2, 0.3, 0.7))
            for row in rows({1: level}, half=0.05 if run < intervals else None, tune_seed=run)
        ]
        found = curve_frame(run_frame(made, **WHERE), NORM, LAYER).iloc[0]
        assert found[["value", "low", "high", "runs"]].tolist() == pytest.approx([0.4, low, high, 3])
        assert notes.has_interval(found) == (intervals == 3)

    def test_heads_labels_pairs_of_layers_and_other_axes_are_no_points_of_a_curve(self):
        odd = [{"head": 0}, {"label": "NOUN"}, {"layer2": 2}, {"axis": "share", "x": 0.5}]
        made = [*rows({1: 0.1}), *(row | more for more in odd for row in rows({1: 9.0}))]
        assert curve_frame(run_frame(made, **WHERE), NORM, LAYER)["value"].tolist() == [0.1]
        found = {titles for _, titles, _ in grids(run_frame(made[:2] + made[3:4], **WHERE), NORM)}
        assert found == {("head", "layer"), ("layer of the reference", "layer")}

    def test_variants_are_named_by_the_columns_in_which_they_differ(self):
        made = [*two(subset="erased", split="test"), *two(subset="none", split="test")]
        frame = named_series(curve_frame(run_frame(made, **WHERE), NORM, LAYER))
        assert list(dict.fromkeys(frame["series"])) == ["base, erased", "base, none", "tuned, erased", "tuned, none"]
        assert set(named_series(frame[frame["model"] == "base"])["series"]) == {"erased", "none"}
        assert set(named_series(curve_frame(run_frame(two(subset="none"), **WHERE), NORM, LAYER))["series"]) == {
            "base",
            "tuned",
        }

    def test_baselines_are_in_the_unit_of_the_metric_and_of_it_alone_where_they_name_one(self):
        made = [*two(), *rows({None: 0.2}, "always", layer=None), *rows({0: 0.5}, "score", axis="frozen_blocks")]
        (part,) = reading(made).parts("theirs")
        assert baselines(part, SCORE) == {"always the same": 0.2} and baselines(part, NORM) == {}
        (part,) = reading([*made, *rows({None: 0.3}, "always", layer=None, subset="score")]).parts("theirs")
        assert baselines(part, SCORE) == {"always the same": 0.3}


class TestSentences:
    def test_a_change_is_told_in_the_unit_and_margin_of_its_metric(self):
        found = page_in(two(), changed(["unchanged", "unchanged", "higher"]))
        text, best, _ = said(found)
        assert text == (
            "In tuned, the norm is higher than in base at layer 2 (7.00 \u2192 8.50, 95 % interval +1.40 to +1.60, "
            "q = 0.001); unchanged within \u00b10.25 at the embeddings and layer 1."
        )
        assert best.startswith("The norm of base is lowest at the embeddings, 5.00")
        first = found.findings[0]
        assert (first.kind, first.weight) == ("higher", pytest.approx(6.0))
        assert first.key == ("theirs", "bank", "upos", "p0", "tuned")
        assert first.lead == "Their measure: Part of speech"

    @pytest.mark.parametrize(
        ("verdicts", "kind", "weight", "text"),
        [
            (["unchanged"] * 3, "unchanged", 0.8, "the norm is as in base everywhere, within \u00b10.25."),
            (["unchanged", "undecided", "undecided"], "undecided", 0.4, "is nowhere shown to differ from base"),
            (["lower", "undecided", "higher"], "higher", 6.0, "; lower at the embeddings."),
            (["higher", "higher", "higher"], "higher", 6.0, "; also at the embeddings and layer 1."),
            (["failed probe"] * 3, "described", 0.2, "All probes of tuned or base failed"),
            (["failed probe", "unchanged", "unchanged"], "unchanged", 0.8, "is as in base wherever no probe failed, "),
        ],
    )
    def test_no_more_is_said_than_the_verdicts_do(self, verdicts, kind, weight, text):
        finding = page_in(two(), changed(verdicts)).findings[0]
        assert text in finding.text and (finding.kind, finding.weight) == (kind, pytest.approx(weight))

    def test_what_is_not_tested_is_described(self):
        finding = page_in(two(), changed(["described"] * 3, q=float("nan"))).findings[0]
        assert (
            "are described, not tested; the largest is at layer 2 (7.00" in finding.text and finding.kind == "described"
        )

    def test_a_whole_model_has_no_layer_in_its_sentence(self):
        made = [row for model in ("base", "tuned") for row in rows({None: 2.0}, "loss", layer=None, model=model)]
        table = comparison([0.5], "loss", 0.01, ["higher"]).assign(layer=pd.NA, margin=0.02, base=2.0, tuned=2.5)
        found = page_in(made, table)
        assert said(found)[0].startswith("In tuned, loss is higher than in base (2.000 \u2192 2.500, 95 % interval")
        assert blocks_of(found)["Numbers"].tables[1].rows[0][:4] == ["loss", "2.000", "2.500", "+0.500"]
        unsure = said(page_in(made, table.assign(verdict="undecided")))[0]
        assert "not shown to differ from base; the difference is +0.500 (2.000" in unsure

    def test_a_significant_difference_within_the_margin_is_not_said_to_be_none(self):
        table = changed(["unchanged", "undecided", "undecided"])
        assert "nowhere shown to differ from base; " in said(page_in(two(), table.assign(q=0.5)))[0]
        small = said(page_in(two(), table.assign(q=[0.01, 0.5, 0.5])))[0]
        assert "nowhere shown to differ from base by more than \u00b10.25; the largest" in small

    def test_inputs_and_other_axes_are_places_too(self):
        made = [*two(), *(row | {"input": "mix", "layer": None} for row in two()[:1])]
        table = changed(["unchanged", "undecided", "higher"]).assign(input=[None, None, "mix"], layer=[0, 1, pd.NA])
        assert "than in base for input mix (7.00" in said(page_in(made, table))[0]
        made = [row | {"subset": "logit lens"} for row in two()]
        table = changed(["unchanged", "undecided", "higher"]).assign(subset="logit lens")
        text = said(page_in(made, table))[0]
        assert "than in base at layer 2 (logit lens) (7.00" in text and "at the embeddings (logit lens)." in text
        assert "subset" not in text
        assert numbers.places(FROZEN, [3, -1]) == "blocks frozen \u22121 and 3"

    def test_a_best_place_is_told_with_those_that_are_not_shown_to_be_worse(self):
        made = rows({-1: 0.80, 0: 0.801, 1: 0.795, 2: 0.60}, "score", 0.01, axis="frozen_blocks")
        assert said(page_in(made)) == [
            "Score of base is highest at blocks frozen 0, 80.1 (79.1 to 81.1); blocks frozen \u22121 and 1 are not "
            "shown to be lower."
        ]
        without = [{**row, "low": None, "high": None} for row in made]
        assert said(page_in(without)) == ["Score of base is highest at blocks frozen 0, 80.1."]

    def test_the_range_of_a_few_runs_is_no_interval(self):
        made = [
            row
            for run in (0, 1)
            for row in rows({0: 0.7 + run / 100, 1: 0.9}, "score", axis="frozen_blocks", tune_seed=run)
        ]
        assert said(page_in(made))[0].endswith("is highest at blocks frozen 1, 90.0 (90.0 to 90.0).")

    def test_layers_that_are_not_shown_to_differ_are_told_so(self):
        near = said(page_in(rows({0: 0.5, 1: 0.6}, half=0.2)))[0]
        assert near.endswith("highest at layer 1, 0.60 (0.40 to 0.80): no layer is shown to differ from another.")
        assert not said(page_in(rows({0: 0.1, 1: 0.9}, half=0.2)))[0].endswith("another.")

    def test_that_no_layer_differs_is_said_of_no_curve_with_two_that_do(self):
        made = [*rows({0: 0.5, 3: 0.6}, half=0.3), *rows({1: 0.51, 2: 0.59}, half=0.01)]
        assert said(page_in(made))[0].endswith("0.60 (0.30 to 0.90): these two are not shown to differ.")

    def test_places_with_one_number_are_named_together(self):
        (text,) = said(page_in(rows({0: 1.0, 1: 0.9999, 2: 0.5}, half=0.01)))
        assert "lowest at layer 2, 0.50" in text and "highest at the embeddings and layer 1, 1.00" in text


def test_intervals_of_another_confidence_are_not_called_95_percent():
    made = rows({0: 0.1, 1: 0.9}, half=0.2)
    lock = lock_of()
    asked = {**lock["spec"], "compare": {"confidence": 0.9}}
    for more, text in (({}, "95 % intervals."), ({"spec": asked}, "(90 % where they are of the comparison).")):
        (block,) = page_in(made, **more).sections[0].blocks
        assert block.lede.replace("\u00a0", " ").endswith(text)


def test_a_title_with_a_colon_is_followed_by_a_dash():
    (part,) = reading(two()).parts("theirs")
    assert lead_of(part, "How much?") == f"How much: {part.title}"
    assert lead_of(part, "Lens: what it says") == f"Lens: what it says \N{EN DASH} {part.title}"


def test_axes_show_places_as_they_are_and_long_titles_in_lines():
    """An axis without a precision of its own would show 0.25 as 0.3."""
    assert place_axis([0, 0.25, 1], "g").to_dict()["axis"]["format"] == ".4~g"
    assert place_axis([0, 1, 2], "layer").to_dict()["axis"]["format"] == "d"
    lines = wrapped("recovered share of the change of the language model's loss (%)")
    assert len(lines) == 2 and max(map(len, lines)) <= 42 and wrapped("loss (nats)") == ["loss (nats)"]


class TestPage:
    def test_every_curve_has_its_chart_its_changes_and_its_tables(self):
        made = [
            *two(),
            *rows({0: 0.5, 1: 0.6}, "score", axis="frozen_blocks"),
            *rows({None: 0.2}, "always", layer=None),
        ]
        made += rows({None: 1.5}, "loss", layer=None)
        found = page_in(made, changed(["unchanged", "undecided", "higher"]))
        assert (found.title, found.lede) == ("Their measure", "What it is.")
        blocks = blocks_of(found)
        assert list(blocks) == ["The norm by layer", "Score by blocks frozen", "Numbers"]
        _, change = blocks["The norm by layer"].figures
        assert "0.25" in json.dumps(change.spec) and "change of the norm" in change.description
        values, changes = blocks["The norm by layer"].tables
        assert values.head == ["layer", "base", "tuned"] and values.rows[0][0] == "embeddings"
        assert values.rows[2][1:] == ["7.00\u00a0(6.90\u00a0to\u00a07.10)", "8.50\u00a0(8.40\u00a0to\u00a08.60)"]
        assert changes.rows[2][-1] == "higher" and changes.head == [
            "layer", "base", "tuned", "change", "interval", "q", "verdict",
        ]  # fmt: skip
        assert "within \u00b10.25 a change counts as none" in blocks["The norm by layer"].lede
        assert blocks["Score by blocks frozen"].note == "Off the axis: always the same 20.0."
        assert blocks["Numbers"].tables[0].rows == [["Loss (nats)", "1.500"], ["Always the same (%)", "20.0"]]

    def test_labels_have_a_table_and_those_along_layers_a_folded_one(self):
        made = [*two(), *rows({1: 0.5}, label="NOUN", n=7), *rows({None: 1.0}, "loss", layer=None, label="VERB", n=9)]
        block = blocks_of(page_in(made))["By label"]
        assert block.tables[0].rows == [["VERB", "9", "1.000"]]
        assert block.folded[0].tables[0].rows == [["NOUN", "7", "0.50"]]

    def test_many_curves_of_several_models_have_a_picture_for_each(self):
        made = [row for subset in "abcd" for row in two(subset=subset)]
        assert [name for name in blocks_of(page_in(made)) if "norm" in name] == [
            "The norm by layer: base",
            "The norm by layer: tuned",
        ]

    def test_all_pairs_of_layers_are_a_folded_map_of_every_model(self):
        made = [*two(), *(row | {"layer2": at} for at in (0, 1) for row in two())]
        (folded,) = blocks_of(page_in(made))["The norm by layer"].folded
        assert [figure.description.split(" of ")[-1] for figure in folded.figures] == ["the reference"] * 2

    def test_html_and_markdown_hold_the_page_and_its_remarks(self):
        made = [*two(), *rows({None: 3}, "lost", layer=None, n=40, split="dev")]
        found = reading(made, changed(["unchanged", "undecided", "higher"]))
        for text in (Written(render(found)).text, render_markdown(found)):
            assert "bank/upos: 3 of 40 words of dev are lost." in text
            assert "\u00b10.25 of the norm" in text or "| layer | base | tuned | change |" in text
            assert text.count("In tuned, the norm is higher than in base") == 1

    def test_what_is_compared_is_not_called_uncompared_and_the_other_way_round(self):
        none = "No model of this study is compared"
        assert none in Written(render(reading(two()))).text
        described = Written(render(reading(two(), changed(["described"] * 3, q=float("nan"))))).text
        assert none not in described and "nothing is claimed of their differences" in described
        assert none not in Written(render(reading(two(), changed(["unchanged"] * 3)))).text
        assert none not in Written(render(reading([row | {"reference": "base"} for row in two()]))).text

    def test_the_heaviest_findings_of_all_pages_open_the_report_and_are_not_repeated(self):
        found = page_in(two(), changed(["unchanged", "undecided", "higher"]))
        light = replace(found, sections=[replace(found.sections[0], findings=[])])
        before = list(found.findings)
        assert take_opening([light, found]) == before and found.findings == []

    def test_runs_are_counted_for_models_that_nothing_compares(self):
        models = {"base": [{"source": "minilm"}], "tuned": [{"tuned_on": "a/b"}] * 3, "other": [{"tuned_on": "a/b"}]}
        assert reading(two(), models=models).tuned_runs == {"tuned": 3}
        assert reading(two(), changed(["unchanged"] * 3, model="cola"), models={}).tuned_runs == {"cola": 1}


def test_a_page_is_written_without_torch_and_without_any_analysis(tmp_path):
    """In a process of its own, from the folder of a run."""
    found = reading(two(), changed(["unchanged", "undecided", "higher"]))
    for name in ("results", "comparisons", "cells"):
        getattr(found, name).to_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "study.lock.json").write_text(json.dumps(found.lock))
    code = f"""
import json, pathlib, sys
import pandas as pd
from vestige.report.html import write_report
from vestige.report.markdown import write_markdown
from vestige.report.reading import Reading
folder = pathlib.Path({str(tmp_path)!r})
tables = [pd.read_parquet(folder / f"{{name}}.parquet") for name in ("results", "comparisons", "cells")]
reading = Reading(*tables, json.loads((folder / "study.lock.json").read_text()))
write_report(folder / "report.html", reading)
write_markdown(folder / "README.md", reading)
heavy = {{"torch", "transformers", "vestige.analyses.base"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the norm is higher" in (tmp_path / "report.html").read_text()


def own_page(analysis, made, **parameters) -> Page:
    """The page of one of our analyses."""
    frame = run_frame(made, **{**WHERE, "analysis": analysis})
    lock = {**lock_of(), "declared": declared(parameters, analysis=analysis)}
    cells = cells_frame(parameters, analysis=analysis)
    return page_of(analysis)(Frames(frame, pd.DataFrame(), cells, lock).reading, analysis)


def test_pruning_starts_both_ways_at_the_whole_model():
    made = [
        row
        for side, values in (("all", {0: 0.8}), ("top", {2: 0.7}), ("bottom", {2: 0.6}))
        for row in rows(values, "accuracy", 0.01, axis="dropped_blocks", side=side)
    ]
    found = own_page("pruning", made)
    (table,) = found.sections[0].blocks[0].tables
    assert table.head == ["blocks dropped", "top", "bottom"] and table.rows[0][1] == table.rows[0][2]
    plain = said(found)[0].replace("\u00a0", " ")
    assert plain == (
        "Accuracy of base is 80.0 (79.0 to 81.0) whole; without its top 2 blocks 70.0 (69.0 to 71.0) and without its "
        "bottom 2 blocks 60.0 (59.0 to 61.0)."
    )


@pytest.mark.parametrize(
    "levels, text",
    [
        ({-1: 0.8, 0: 0.8, 1: 0.79, 2: 0.5}, "With the embeddings and 1 block of base frozen the accuracy 79.0"),
        ({-1: 0.8, 0: 0.6, 1: 0.6, 2: 0.5}, "Whatever is frozen in base, the accuracy is below that of the whole"),
    ],
)
def test_freezing_reports_how_much_may_be_frozen(levels, text):
    made = rows(levels, "accuracy", 0.01, axis="frozen_blocks")
    first = said(own_page("freezing", made))[0].replace("\u00a0", " ")
    assert first.startswith(text) and "with the head alone learning it is 50.0 (49.0 to 51.0)." in first


def test_what_is_named_as_all_blocks_is_all_blocks():
    made = rows({-1: 0.8, 0: 0.8, 1: 0.5}, "accuracy", 0.01, axis="frozen_blocks")
    (first, *_) = said(own_page("freezing", made, depths=[-1, 0, 1]))
    assert "head alone" not in first
    made = rows({1: 0.5, 3: 0.8}, "accuracy", 0.01, axis="kept_blocks")
    (first, *_) = said(own_page("truncation", made, depths=[1, 3]))
    assert "whole" not in first and "to 3 blocks" in first


@pytest.mark.parametrize(
    "levels, always, text",
    [
        ({-1: 0.8, 0: 0.8, 1: 0.798, 2: 0.5}, 0.5, "the embeddings and the first block frozen at no measured cost of"),
        ({-1: 0.8, 0: 0.8, 1: 0.79, 2: 0.5}, 0.5, ""),
        ({-1: 0.8, 0: 0.8, 1: 0.8, 2: 0.8}, 0.795, ""),
    ],
)
def test_freezing_is_advised_of_models_that_learnt_the_task_and_lost_nothing(levels, always, text):
    made = rows(levels, "accuracy", 0.01, axis="frozen_blocks")
    made += [{"metric": "majority", "value": always, "subset": "accuracy"}]
    told = [one.text for one in own_page("freezing", made).answers]
    assert len(told) == bool(text) and all(text in one for one in told)


def test_truncation_reports_how_many_blocks_are_enough():
    made = rows({1: 0.5, 2: 0.79, 3: 0.8}, "accuracy", 0.01, axis="kept_blocks")
    first = said(own_page("truncation", made))[0].replace("\u00a0", " ")
    assert first == (
        "Accuracy of base is 50.0 (49.0 to 51.0) cut to 1 block and 80.0 (79.0 to 81.0) whole; with 2 blocks, 79.0 "
        "(78.0 to 80.0), it is not shown to fall below that."
    )


def test_attention_reports_where_it_moved_or_how_wide_it_is():
    spread = rows({1: 1.0, 2: 2.0}, "entropy", 0.1)
    alone = said(own_page("attention", spread))[0].replace("\u00a0", " ")
    assert alone.startswith("The entropy of attention of base is lowest at layer 1, 1.000 (0.900 to 1.100)")
    moved = said(own_page("attention", [*spread, *rows({1: 0.1, 2: 0.7}, "emd", 0.01)]))
    assert moved[0].startswith(
        "The earth mover's distance between the attention of base and of its reference is lowest"
    )


@pytest.mark.parametrize("lowest, text", [(20.0, "it falls to 20.0"), (29.0, "it is not shown to fall")])
def test_perplexity_tells_how_far_the_reference_is_restored(lowest, text):
    made = rows({0: 30.0, 1: 30.5, 2: lowest}, "perplexity", 2.0, axis="last_replaced", subset="layers")
    made += rows({None: 18.0}, "reference_perplexity", layer=None)
    first, *_ = said(own_page("perplexity", made))
    assert first.startswith("Perplexity is 18.0 in the reference and 30.0 (28.0 to 32.0) in base; ") and text in first


def test_perplexity_is_set_beside_that_of_a_models_own_reference():
    made = []
    for model, level in (("one", 18.0), ("two", 50.0)):
        made += rows({0: 90.0, 1: 89.0}, "perplexity", 2.0, axis="last_replaced", subset="layers", model=model)
        made += rows({None: level}, "reference_perplexity", layer=None, model=model)
    first, second = said(own_page("perplexity", made))
    assert first.startswith("Perplexity is 18.0 in the reference and 90.0")
    assert second.startswith("Perplexity is 50.0 in the reference and 90.0")
    assert "Perplexity is" not in " ".join(said(own_page("perplexity", [one for one in made if one.get("x") != 0])))


def erased(effect, half=0.01, runs=1, **where):
    return [
        row
        for subset, level in (("none", 0.81), ("erased", 0.81 - effect), ("random", 0.80))
        for run in range(runs)
        for row in rows(
            {0: level + 0.001 * run, 1: level}, "task_accuracy", half, subset=subset, tune_seed=run, **where
        )
    ]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (erased(0.3), "with the property erased from the embeddings, where the largest difference is shown, 51.0"),
        (erased(0.004, 0.03, runs=2), "is not shown to change it"),
    ],
)
def test_erasure_tells_what_is_still_used(made, text):
    made = [
        *made,
        *rows({None: 0.5}, "task_majority", layer=None, subset="accuracy"),
        *rows({None: 0.2}, "majority", layer=None),
    ]
    page = own_page("erasure", made)
    (first,) = said(page)
    (answer,) = page.answers  # the top of the report says the same
    for told in (first, answer.text):
        assert text in told and "(always the same answer: 50.0)" in told


def test_models_that_moved_most_come_first():
    made = [row for model, low in (("a", 0.9), ("b", 0.5)) for row in rows({0: 0.99, 1: low}, "rsa", 0.01, model=model)]
    assert [text[:8] for text in said(own_page("similarity", made))] == ["RSA of b", "RSA of a"]
