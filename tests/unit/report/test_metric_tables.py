"""Findings, tables and charts of a run as Python has them: the numbers are those of its tables."""

import altair as alt
import pandas as pd
import pytest
import vl_convert
from report_frames import CHANGES, small_frames

from vestige.errors import VestigeError
from vestige.report.findings import Findings
from vestige.report.front import all_findings, opening, read_pages, take_opening
from vestige.report.metric_tables import differences_table, plots, values_table


@pytest.fixture(scope="module")
def reading():
    return small_frames([("bank", "upos"), ("bank", "deprel")], tuned=("tuned", "other")).reading


@pytest.fixture(scope="module")
def found(reading):
    return Findings(all_findings([page for _, page in read_pages(reading)]))


def test_findings_read_as_sentences_and_count_as_a_sequence(found):
    assert len(found) == len(list(found)) and isinstance(found[:2], Findings) and len(found[:2]) == 2
    assert [one.weight for one in found] == sorted((one.weight for one in found), reverse=True)
    assert f"  {found[0].text}" in repr(found) and found[0].lead in repr(found)


def test_the_frame_has_the_interval_that_the_sentence_names(found, reading):
    frame = found.frame
    assert list(frame["finding"]) == [one.text for one in found]
    lost = frame[(frame["kind"] == "lower") & frame["difference"].notna()]
    assert len(lost) == 4 and set(lost["model"]) == {"tuned", "other"} and set(lost["task"]) == {"upos", "deprel"}
    table = reading.comparisons
    for row in lost.itertuples():
        mine = table[(table["model"] == row.model) & (table["task"] == row.task) & (table["layer"] == row.layer)]
        (compared,) = mine[mine["metric"] == row.metric].itertuples()
        assert (row.difference, row.low, row.high) == (compared.difference, compared.low, compared.high)
        assert f"{abs(100 * row.difference):.1f} points" in row.finding and f"layer {row.layer}" in row.finding.lower()


def test_a_sentence_without_a_comparison_has_no_numbers(found):
    notes = found.frame[found.frame["kind"] == "note"]
    assert len(notes) and notes[["difference", "low", "high"]].isna().all(axis=None)


def test_what_opens_a_report_is_chosen_without_taking_it_out(reading):
    pages = [page for _, page in read_pages(reading)]
    before = [one.text for page in pages for one in page.findings]
    chosen = opening(pages)
    assert [one.text for page in pages for one in page.findings] == before
    assert take_opening(pages) == chosen and len([one for page in pages for one in page.findings]) < len(before)


def test_values_have_intervals_and_differences_their_verdict(reading):
    values = values_table(reading, "layer_probe", "accuracy", "upos", "")
    assert list(values["layer"]) == 4 * list(range(len(CHANGES)))
    known = values.dropna(subset="low")
    assert set(known["model"]) == {"base", "tuned", "other"} and (known["low"] < known["value"]).all()
    compared = differences_table(reading, "layer_probe", "accuracy", "bank/upos", "tuned")
    assert list(compared["difference"]) == list(CHANGES) and "verdict" in compared
    assert set(compared["corpus"] + "/" + compared["task"]) == {"bank/upos"}


def test_the_first_metric_is_taken_where_none_is_named(reading):
    assert set(values_table(reading, "layer_probe", "", "", "")["metric"]) == {"accuracy"}


@pytest.mark.parametrize("compared", [False, True])
def test_charts_are_altair_s_and_are_drawn(reading, compared):
    one = plots(reading, "layer_probe", "accuracy", "upos", "tuned", compared, 300)
    assert isinstance(one, alt.LayerChart) and one.width == 300
    both = plots(reading, "layer_probe", "", "", "", compared, 300)
    assert isinstance(both, alt.ConcatChart)
    for chart in (one, both):
        assert vl_convert.vegalite_to_svg(chart.to_json()).startswith("<svg")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (("probes", "", "", ""), "no analysis 'probes'.*layer_probe"),
        (("layer_probe", "f2", "", ""), "no metric 'f2'.*accuracy"),
        (("layer_probe", "", "ner", ""), "no task 'ner'.*bank/upos"),
        (("layer_probe", "", "", "bert"), "no model 'bert'.*tuned"),
    ],
)
def test_what_a_run_has_not_is_named_with_a_choice(reading, asked, named):
    for ask in (values_table, differences_table, lambda *a: plots(*a, True, 300)):
        with pytest.raises(VestigeError, match=f"(?s){named}"):
            ask(reading, *asked)


def test_a_run_without_comparisons_says_so():
    frames = small_frames(tuned=())
    frames = type(frames)(frames.results, pd.DataFrame(), frames.cells, frames.lock)
    with pytest.raises(VestigeError, match="no model is compared"):
        differences_table(frames.reading, "layer_probe", "", "", "")
