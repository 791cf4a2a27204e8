import re

import numpy as np
import pandas as pd
from report_frames import CONVERGED, DURRANI, MLP, all_metrics, cells_frame, comparison, lock_of, small_frames

from vestige.comparison.differences import Settings
from vestige.report.caveats import caveats, glossary
from vestige.report.contrasts import contrast_findings
from vestige.report.findings import MOST, Finding, group_findings, headlines, overview
from vestige.report.groups import Group, Titles, primary, split_groups
from vestige.report.html import render
from vestige.report.reading import Reading
from vestige.report.settings import read_settings


def groups_of(table: pd.DataFrame, *parameters: dict) -> list[Group]:
    return split_groups(table, read_settings(cells_frame(*parameters)))


def texts(table: pd.DataFrame, *parameters: dict) -> list[str]:
    groups = groups_of(table, *parameters)
    return [plain(f) for f in group_findings(groups[0], Titles.of(groups), Settings())]


def plain(finding: Finding) -> str:
    return str(finding).replace("\u00a0", " ")


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


def test_two_copies_of_one_model_have_no_sentence_of_change() -> None:
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
    assert overview(groups_of(table)).endswith("over 2 layers: described in 2 of 2 comparisons.")
    assert "described" in dict(glossary(Settings(), 1, described=True))


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
    groups = groups_of(table, *parameters)
    return [plain(f) for f in contrast_findings(groups, Titles.of(groups), Settings())]


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


def test_the_page_opens_with_few_findings_of_the_preferred_setting() -> None:
    tasks = [("bank", f"task{i}") for i in range(12)]
    frames = small_frames(tasks, parameters=(DURRANI, CONVERGED))
    groups = split_groups(frames.comparisons, read_settings(frames.cells))
    assert {group.setting.protocol for group in primary(groups)} == {"converged"}
    shown = headlines(groups, contrast_findings(groups, Titles.of(groups), Settings()), Titles.of(groups), Settings())
    assert 3 <= len(shown) <= MOST
    assert shown[-1].lead == "Protocol"
    assert "lower in 12, unchanged in 24 and undecided in 12 of 48 comparisons" in overview(groups)


def test_two_tasks_of_one_model_are_told_apart_by_model_and_corpus_only_where_needed() -> None:
    frames = small_frames([("bank", "upos"), ("web", "upos")], tuned=("a", "b"))
    groups = split_groups(frames.comparisons, read_settings(frames.cells))
    titles = Titles.of(groups)
    assert [titles.group(group) for group in groups[:2]] == ["Part of speech (bank), a", "Part of speech (bank), b"]


def test_a_setting_with_several_values_is_named_in_words() -> None:
    cells = cells_frame({"inputs": ["layers", "mix"]}, {"inputs": ["mix"]}, {"inputs": None})
    assert [setting.name for setting in read_settings(cells).values()] == [
        "inputs layers and mix",
        "inputs mix",
        "inputs not set",
    ]


def test_one_run_is_about_one_checkpoint() -> None:
    frames = small_frames()
    said = " ".join(caveats(frames.results, frames.comparisons, frames.lock, {"tuned": 1}))
    assert "One tuned run supports findings about this checkpoint (tuned) only" in said
    assert "itself tuned for sentence similarity" in said
    said = " ".join(caveats(frames.results, frames.comparisons, lock_of(source="bert-base-cased"), {"tuned": 5}))
    assert "tuned: 5 fine-tuning runs, averaged" in said
    assert "checkpoint" not in said
    assert "similarity" not in said
    said = " ".join(caveats(frames.results, frames.comparisons, frames.lock, {"a": 3, "b": 3, "c": 2}))
    assert "a and b: 3 fine-tuning runs each, averaged" in said and "c: 2 fine-tuning runs, averaged" in said


def test_labels_that_train_lacks_and_codes_that_still_fall_are_told() -> None:
    frames = small_frames()
    more = frames.results.iloc[:3].assign(
        metric=["unseen_labels", "still_falling", "still_falling"], value=[7.0, 0.034, 0.002], subset="dev", n=90
    )
    said = caveats(pd.concat([frames.results, more]), frames.comparisons, frames.lock, {"tuned": 1})
    assert sum("7 of 90 labels of dev do not occur in train" in line for line in said) == 1
    assert sum("still got shorter by up to 3 % in the last tenth" in line for line in said) == 1


def test_few_items_and_pairs_left_out_are_told() -> None:
    frames = small_frames()
    more = frames.results.iloc[:2].assign(metric=["items_per_unit", "left_out_pairs"], value=[0.5, 3.0], n=[100, 40])
    said = " ".join(caveats(pd.concat([frames.results, more]), frames.comparisons, frames.lock, {"tuned": 1}))
    assert "fewer words than units (100 words)" in said
    assert "3 of 40 minimal pairs" in said


def test_everything_that_was_lost_is_told() -> None:
    frames = small_frames()
    lost = {
        "left_out_targets": ("train: outside the sentence", 400.0, "400 of 900 targets are left out (train: outside"),
        "shortened_targets": ("test", 20.0, "20 of 900 targets lost some of their words"),
        "left_out_sentences": ("dev: a cycle", 90.0, "90 of 900 sentences are left out (dev: a cycle)"),
        "untrained_blocks": (None, 5.0, "up to 5 of 900 blocks were sent by the uniform code"),
        "dropped_fractions": (None, 2.0, "sent with the next (bank/upos: 2 of 900)"),
        "unmatched_words": (None, 500.0, "500 of 900 words of the model have no partner in its reference"),
        "truncated_words": (None, 7.0, "7 of 900 words were cut off"),
        "rsa_undefined": (None, 1.0, "rsa of base is not defined at layer 0, where vectors do not differ"),
    }
    rows = frames.results.iloc[[0] * len(lost)].assign(
        metric=list(lost), subset=[where for where, _, _ in lost.values()], value=[v for _, v, _ in lost.values()],
        n=900, layer=0,
    )  # fmt: skip
    comparisons = frames.comparisons.assign(dropped_items=12)
    said = caveats(pd.concat([frames.results, rows]), comparisons, frames.lock, {"tuned": 1})
    for _, _, text in lost.values():
        assert sum(text in line for line in said) == 1, text
    assert sum("up to 12 scored items had no partner" in line for line in said) == 1
    unsaid = caveats(pd.concat([frames.results, rows.assign(value=0.0)]), frames.comparisons, frames.lock, {"tuned": 1})
    assert not any("900" in line or "not defined" in line or "no partner" in line for line in unsaid)


def test_every_term_is_explained_with_the_settings_of_the_study() -> None:
    terms = dict(glossary(Settings(margin=0.01, confidence=0.9), 1))
    assert {"p", "q", "unchanged", "undecided", "90 % interval"} <= set(terms)
    assert "\u00b11 point" in terms["unchanged"]


def test_outlier_units_are_said_by_model_and_layer():
    frames = small_frames()
    more = frames.results.iloc[:3].assign(metric="outlier_units", layer=[3, 4, 5], value=[1.0, 1.0, 2.0], model="base")
    said = caveats(pd.concat([frames.results, more]), frames.comparisons, frames.lock, {"tuned": 1})
    assert any(
        line.startswith("base: layers 3 to 5 are dominated by 1 to 2 outlier units, more than 30") for line in said
    )


def test_a_failed_probe_is_neither_the_largest_difference_nor_a_change():
    frames = small_frames()
    failed = frames.comparisons.copy()
    failed.loc[failed["layer"] == 3, ["verdict", "q"]] = ["failed probe", float("nan")]
    reading = Reading(frames.results, failed, frames.cells, frames.lock)
    said = " ".join(finding.text for finding in reading.headlines)
    assert "layer 3" not in said.lower() and "loses" not in said
    page = render(reading)
    assert "a ridge a thousand times weaker" in page and "failed probe" in page
