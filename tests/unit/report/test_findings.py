import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_frames import CONVERGED, DURRANI, MLP, Frames, all_metrics, cells_frame, comparison, lock_of, small_frames

from vestige.analyses.registry import analysis_names, find_analysis
from vestige.report.front import MOST, take_opening
from vestige.report.html import render
from vestige.report.limits import glossary, limits
from vestige.report.pages import page_of
from vestige.report.pages.layer_parts.contrasts import contrast_findings
from vestige.report.pages.layer_parts.findings import group_findings
from vestige.report.pages.layer_probe import probe_groups
from vestige.report.reading import Reading
from vestige.report.settings import read_settings
from vestige.report.types import Finding, Page, Section


def reading_of(table: pd.DataFrame, *parameters: dict) -> Reading:
    """A run with these comparisons of one task."""
    depth, task = int(table["layer"].max()) + 1, (str(table["corpus"].iloc[0]), str(table["task"].iloc[0]))
    frames = small_frames([task], parameters=parameters or (CONVERGED,), changes=[0.0] * depth)
    return replace(frames, comparisons=table).reading


def findings(table: pd.DataFrame, *parameters: dict) -> list[Finding]:
    reading = reading_of(table, *parameters)
    return group_findings(probe_groups(reading, "layer_probe")[0], reading.judging)


def texts(table: pd.DataFrame, *parameters: dict) -> list[str]:
    return [plain(finding) for finding in findings(table, *parameters)]


def page_in(reading: Reading, analysis: str = "layer_probe") -> Page:
    return page_of(analysis)(reading, analysis)


def plain(finding: Finding) -> str:
    return str(finding).replace("\u00a0", " ")


def section(page: Page, title: str) -> Section:
    return next(section for section in page.sections if section.title == title)


def test_a_loss_is_said_with_levels_interval_and_q() -> None:
    said = texts(comparison([0.0, 0.0, -0.031], task="deprel"))
    assert said[0] == (
        "Dependency relations: Layer 2 of tuned loses 3.1 points of probe accuracy "
        "(82.0 \u2192 78.9, 95 % interval \u22123.5 to \u22122.7, q = 0.001)."
    )
    assert said[1] == "Dependency relations: The embeddings and layer 1 are unchanged within 0.5 points."


def test_the_larger_direction_comes_first_and_the_others_by_their_range() -> None:
    first, *_ = texts(comparison([0.0, 0.02, -0.008, -0.012, -0.006]))
    assert "Layer 1 of tuned gains 2.0 points" in first
    assert "Layer 3 of tuned loses 1.2 points" in first
    assert "layers 2 and 4 lose 0.6 to 0.8 points" in first
    assert first.index("gains") < first.index("loses")


def test_a_change_weighs_its_size_in_margins_and_what_claims_none_less_than_one() -> None:
    change, steady, *_ = findings(comparison([0.0, -0.03, -0.02]))
    assert (change.kind, change.weight) == ("lower", pytest.approx(6.0))
    assert (steady.kind, steady.weight) == ("unchanged", 0.8)
    assert change.key == ("layer_probe", "bank", "upos", "p0", "tuned")
    small, *_ = findings(comparison([0.0, -0.003], half=0.001))
    assert (small.kind, small.weight) == ("lower", 1.0)


def test_a_change_that_is_found_but_small_is_called_small() -> None:
    first, *_ = texts(comparison([0.0, -0.003], half=0.001))
    assert "layer 1: a detectable change, but one within 0.5 points" in first


def test_undecided_layers_are_named_and_not_called_unchanged() -> None:
    said = " ".join(
        texts(comparison([0.0, -0.004, 0.006], half=0.008, verdicts=["unchanged", "undecided", "undecided"]))
    )
    assert "Layers 1 and 2 are undecided: intervals reach as far as 1.4 points from zero" in said
    assert "The embeddings are unchanged" in said
    assert "No layer of tuned shows a change of probe accuracy that survives" in said


def test_a_significant_difference_within_the_margin_is_not_called_none() -> None:
    table = comparison([0.0, 0.002, 0.01], half=0.002).assign(verdict=["unchanged", "unchanged", "undecided"])
    assert "shows a change of probe accuracy that survives" in texts(table.assign(q=0.5))[0]
    small = texts(table.assign(q=[0.5, 0.001, 0.2]))[0]
    assert "No layer of tuned shows a change of probe accuracy by more than \u00b10.5 points that survives" in small


def test_all_unchanged_is_one_sentence() -> None:
    said = texts(comparison([0.0, 0.001, 0.0]))
    assert said[0] == "Part of speech: All layers of tuned are unchanged within 0.5 points."
    assert not any("loses" in text or "undecided" in text for text in said)


def test_the_first_of_several_drops_is_one_with_a_verdict_and_all_its_interval() -> None:
    """Layer 1 drops by more than a point in the mean alone, layer 2 without a verdict."""
    verdicts = ["unchanged", "lower", "undecided", "lower", "lower"]
    *_, shape = texts(comparison([0.0, -0.012, -0.05, -0.02, -0.03], verdicts=verdicts))
    assert "The lowest layer shown to drop by more than 1 point: layer 3 (83.0 \u2192 81.0, 95 % interval" in shape
    assert "change places" not in shape


def test_best_layers_change_places_only_where_intervals_are_apart_in_both_models() -> None:
    said = " ".join(texts(comparison([0.0, 0.0, -0.03])))
    assert "Layer 2 and layer 1 change places: 82.0 (81.6 to 82.4) and 81.0 (80.6 to 81.4) in base, 79.0" in said
    said = " ".join(texts(comparison([0.0, 0.0, -0.03], half=0.006)))
    assert "change places" not in said, "the base's intervals overlap"
    said = " ".join(texts(comparison([0.0, 0.0, -0.014])))
    assert "change places" not in said, "the tuned model's intervals overlap"


def test_two_runs_of_one_model_have_no_sentence_of_change() -> None:
    """Differences of up to 1.5 points whose intervals hold zero, as another seed leaves them."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        changes = rng.uniform(-0.015, 0.015, 7)
        tables = [comparison(changes, half=0.02), comparison(changes, "selectivity", half=0.02)]
        for text in texts(pd.concat(tables, ignore_index=True)):
            assert not re.search(r"moves|drop|lose|gain|falls|change places|area|the change is", text), text


def test_differences_without_a_test_are_described_and_nothing_is_claimed() -> None:
    unknown = dict.fromkeys(("p", "q", "low", "high"), float("nan"))
    table = comparison([0.0, -0.05], verdicts=["described", "described"]).assign(**unknown)
    (text,) = texts(table)
    assert text == (
        "Part of speech: No layer of tuned has a verdict: differences are described, not tested; the largest "
        "difference is \u22125.0 points at layer 1 (81.0 \u2192 76.0)."
    )
    reading = reading_of(table)
    assert page_in(reading).overview.endswith("over 2 layers: described in 2 of 2 comparisons.")
    assert "described" in dict(glossary(reading))


def test_a_like_loss_on_the_control_task_is_said() -> None:
    said = " ".join(texts(all_metrics([0.0, -0.02], [0.0, -0.021])))
    assert "At layer 1 the control task loses as well, (40.0" not in said
    assert "At layer 1 the control task loses as well (40.0 \u2192 37.9" in said
    assert "rather than the property" in said


def test_a_loss_with_selectivity_is_one_of_the_property() -> None:
    said = " ".join(texts(all_metrics([0.0, -0.02], [0.0, 0.0])))
    assert "At layer 1 selectivity falls with accuracy" in said
    assert "rather than the property" not in said


def test_without_a_control_task_nothing_is_said_of_selectivity() -> None:
    assert "selectivity" not in " ".join(texts(comparison([0.0, -0.02])))


def across(table: pd.DataFrame, *parameters: dict) -> list[str]:
    groups = probe_groups(reading_of(table, *parameters), "layer_probe")
    return [plain(finding) for finding in contrast_findings(groups)]


def two(first: list[float], second: list[float]) -> pd.DataFrame:
    return pd.concat([comparison(first, params="p0"), comparison(second, params="p1")], ignore_index=True)


def test_an_effect_that_shrinks_under_convergence_is_named() -> None:
    (said,) = across(two([0.0, 0.0, -0.07], [0.0, 0.0, -0.014]), DURRANI, CONVERGED)
    assert "Part of speech at layer 2" in said
    assert "from \u22127.0 points (\u22127.4 to \u22126.6) under durrani to \u22121.4 (\u22121.8 to \u22121.0)" in said


def test_overlapping_intervals_are_no_shrinking() -> None:
    (said,) = across(two([0.0, -0.020], [0.0, -0.016]), DURRANI, CONVERGED)
    assert said.startswith("Protocol: No change seen under the papers' protocol")


def test_a_small_change_that_is_unchanged_elsewhere_is_no_shrinking() -> None:
    """Both lie within the margin: that one of them is significant does not make the other smaller."""
    first, second = comparison([0.0, -0.003], half=0.001, params="p0"), comparison([0.0, -0.002], half=0.003)
    both = pd.concat([first, second.assign(params="p1")], ignore_index=True)
    assert list(both["verdict"]) == ["unchanged", "lower", "unchanged", "unchanged"]
    (said,) = across(both, DURRANI, CONVERGED)
    assert said.startswith("Protocol: No change seen under the papers' protocol")


def test_settings_that_differ_elsewhere_are_not_set_side_by_side() -> None:
    assert across(two([0.0, -0.07], [0.0, -0.014]), {**DURRANI, "pooling": "mean"}, CONVERGED) == []


def test_what_the_mlp_still_finds() -> None:
    (said,) = across(two([0.0, -0.03], [0.0, 0.001]), CONVERGED, MLP)
    assert "The mlp still finds all or part of what the linear probe lost: Part of speech at layer 1" in said
    (said,) = across(two([0.0, -0.03], [0.0, -0.03]), CONVERGED, MLP)
    assert "the mlp is not shown to keep" in said
    assert across(two([0.0, 0.0], [0.0, 0.0]), CONVERGED, MLP) == []


def test_the_report_opens_with_few_findings_of_the_preferred_setting() -> None:
    tasks = [("bank", f"task{i}") for i in range(5)]
    page = page_in(small_frames(tasks, parameters=(DURRANI, CONVERGED)).reading)
    blocks = [block for one in page.sections[:5] for block in one.blocks]
    assert [block.closed for block in blocks[:2]] == [False, True]
    assert {block.heading for block in blocks if not block.closed} == {"linear probe, converged"}
    assert all(block.findings for block in blocks if block.closed)
    assert section(page, "Change at a glance").findings[0].lead == "Protocol"
    assert "lower in 5, unchanged in 10 and undecided in 5 of 20 comparisons" in page.overview
    opening = take_opening([page])
    assert 3 <= len(opening) <= MOST
    assert {finding.key[3] for finding in opening if finding.key} == {"p1"}


def test_two_tasks_of_one_model_are_told_apart_by_model_and_corpus_only_where_needed() -> None:
    page = page_in(small_frames([("bank", "upos"), ("web", "upos")], tuned=("a", "b")).reading)
    assert [one.title for one in page.sections[:2]] == ["Part of speech (bank), a", "Part of speech (bank), b"]
    assert page.sections[0].name == "bank/upos"


def test_every_pooling_of_a_sentence_probe_is_a_group_of_its_own() -> None:
    frames = small_frames(changes=[0.0, -0.03], analysis="sentence_probe")
    known = frames.comparisons
    results = pd.concat([frames.results.assign(pooling=name) for name in ("cls", "sentence_mean")])
    other = known.assign(difference=known["difference"] + 0.01, pooling="sentence_mean")
    comparisons = pd.concat([known.assign(pooling="cls"), other], ignore_index=True)
    page = page_in(Frames(results, comparisons, frames.cells, frames.lock).reading, "sentence_probe")
    assert page.title == "Sentences, layer by layer"
    (told,) = page.answers
    assert "part of speech (cls) from layer 1 (3.0 points)" in told.text
    assert "part of speech (sentence_mean) from layer 1 (2.0 points)" in told.text
    assert "over 2 poolings and 2 layers" in page.overview
    first, second = page.sections[:2]
    assert [first.title, second.title] == ["Part of speech, cls", "Part of speech, sentence_mean"]
    assert [one.blocks[0].closed for one in (first, second)] == [False, False]
    assert "loses 3.0 points" in first.findings[0].text and "loses 2.0 points" in second.findings[0].text
    drawn = str(first.blocks[0].figures[1].spec)
    assert "'difference': -3," in drawn and "'difference': -2," not in drawn


def test_an_analysis_without_a_page_of_its_own_gets_the_default_one() -> None:
    default = page_of("somebody_elses").__module__
    assert default == "vestige.report.default"
    assert page_of("../x").__module__ == page_of("layer_parts").__module__ == default
    assert page_of("sentence_probe").__module__ == "vestige.report.pages.sentence_probe"


def test_a_setting_with_several_values_is_named_in_words() -> None:
    cells = cells_frame({"inputs": ["layers", "mix"]}, {"inputs": ["mix"]}, {"inputs": None})
    assert [setting.name for setting in read_settings(cells).values()] == [
        "inputs layers, mix",
        "inputs mix",
        "inputs not set",
    ]
    cells = cells_frame({"probe": "linear", "context": True}, {"probe": "mlp", "context": False})
    assert [setting.name for setting in read_settings(cells).values()] == [
        "linear probe, with context",
        "mlp probe, without context",
    ]


def limits_of(frames: Frames, **other: object) -> list[str]:
    return limits(replace(frames, **other).reading, [])


def with_runs(frames: Frames, runs: dict[str, int]) -> pd.DataFrame:
    """The comparisons of models with so many runs each."""
    return pd.concat([frames.comparisons.assign(model=name, runs=number) for name, number in runs.items()])


def test_one_run_is_about_one_checkpoint() -> None:
    frames = small_frames()
    said = " ".join(limits_of(frames))
    assert "One tuned run supports findings about this checkpoint (tuned) only" in said
    assert "itself tuned for sentence similarity" in said
    plain_source = {**frames.lock, "models": lock_of(source="bert-base-cased")["models"]}
    said = " ".join(limits_of(frames, lock=plain_source, comparisons=with_runs(frames, {"tuned": 5})))
    assert "tuned: 5 fine-tuning runs, averaged" in said
    assert "checkpoint" not in said
    assert "similarity" not in said
    said = " ".join(limits_of(frames, comparisons=with_runs(frames, {"a": 3, "b": 3, "c": 2})))
    assert "a and b: 3 fine-tuning runs each, averaged" in said and "c: 2 fine-tuning runs, averaged" in said


@pytest.mark.parametrize("analysis", analysis_names())
def test_everything_that_an_analysis_lost_is_reported(analysis: str) -> None:
    """A row of every remark that it declares: a line each, and none where nothing was lost."""
    frames, kind = small_frames(), find_analysis(analysis)
    remarks = [metric for metric in kind.metrics if metric.role == "remark"]
    declared = {**kind().declared(), "metrics": [metric.as_json() for metric in remarks]}
    lock = {**frames.lock, "declared": {"p0": declared}}
    rows = frames.results.iloc[[0] * len(remarks)].assign(
        metric=[metric.name for metric in remarks], value=[metric.above + 7 for metric in remarks], n=900, layer=3,
        split="train", subset="a cycle", model="base",
    )  # fmt: skip
    none = pd.DataFrame()
    said = limits_of(frames, lock=lock, comparisons=none, results=rows)
    silent = limits_of(frames, lock=lock, comparisons=none, results=rows.assign(value=0.0))
    assert len(said) == len(silent) + len(remarks)
    assert not any("{" in line or "nan" in line.lower() for line in said)


def test_what_a_probe_could_not_read_is_reported_with_its_numbers() -> None:
    frames = small_frames()
    lost = {
        "truncated_words": (7, "bank/upos: 7 of 900 words were cut off because"),
        "unseen_label_words": (3, "bank/upos: 3 of 900 words of the scored split carry a label that train lacks"),
    }
    rows = frames.results.iloc[[0] * len(lost)].assign(metric=list(lost), value=[v for v, _ in lost.values()], n=900)
    said = limits_of(
        frames,
        results=pd.concat([frames.results, rows]),
        comparisons=frames.comparisons.assign(dropped_items=12),
    )
    for _, text in lost.values():
        assert sum(text in line for line in said) == 1, text
    assert sum("up to 12 scored items had no partner" in line for line in said) == 1
    assert not any("no partner" in line for line in limits_of(frames))


def test_outlier_units_are_said_by_model_and_layer() -> None:
    frames = small_frames()
    more = frames.results.iloc[:3].assign(metric="outlier_units", layer=[3, 4, 5], value=[1.0, 1.0, 2.0], model="base")
    said = limits_of(frames, results=pd.concat([frames.results, more]))
    assert any(
        line.startswith("base has up to 2 outlier units at layers 3 to 5, more than 30 times as large") for line in said
    )


def test_every_term_is_explained_with_the_settings_of_the_study() -> None:
    frames = small_frames()
    spec = {**frames.lock["spec"], "compare": {"confidence": 0.9, "margins": {"accuracy": 0.01}}}
    comparisons = frames.comparisons.assign(margin=0.01)
    terms = dict(glossary(replace(frames, lock={**frames.lock, "spec": spec}, comparisons=comparisons).reading))
    assert {"p", "q", "unchanged", "undecided", "90 % interval"} <= set(terms)
    assert "\u00b11 point of probe accuracy" in terms["margin"]


def test_a_failed_probe_is_neither_the_largest_difference_nor_a_change() -> None:
    frames = small_frames()
    failed = frames.comparisons.copy()
    failed.loc[failed["layer"] == 3, ["verdict", "q"]] = ["failed probe", float("nan")]
    reading = replace(frames, comparisons=failed).reading
    said = " ".join(finding.text for finding in page_in(reading).findings)
    assert "layer 3" not in said.lower() and "loses" not in said
    page = render(reading)
    assert "a ridge a thousand times weaker" in page and "failed probe" in page


def test_a_study_that_compares_nothing_has_curves_and_controls_and_no_finding() -> None:
    frames = small_frames(tuned=())
    page = page_in(frames.reading)
    assert [one.title for one in page.sections] == ["Part of speech", "Controls"]
    assert (page.findings, page.overview, page.lede) == ([], "", "")
    (table,) = page.sections[1].blocks[1].tables
    assert table.head[:3] == ["layer", "probe accuracy, base", "probe accuracy, random twin"]
    assert "majority label 20.0 %" in table.caption.lower()


def test_a_random_twin_that_is_all_there_is_has_its_curve() -> None:
    """The cells of every other model failed."""
    frames = small_frames(tuned=())
    twin = frames.results[frames.results["model"] == "random twin"]
    page = page_in(replace(frames, results=twin).reading)
    assert "random twin" in str(page.sections[0].blocks[0].figures[0].spec)


def test_the_baseline_of_the_control_task_stands_with_the_control_task() -> None:
    frames = small_frames(analysis="sentence_probe")
    more = frames.results.iloc[:1].assign(metric="control_majority", value=0.45)
    reading = replace(frames, results=pd.concat([frames.results, more])).reading
    (group,) = probe_groups(reading, "sentence_probe")
    assert group.control is not None
    assert list(group.control.levels.values()) == [0.45]
    assert list(group.accuracy.levels.values()) == pytest.approx([0.2])
