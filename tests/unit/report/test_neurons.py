import json
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest
from neuron_frames import (
    neuron_frames,
    neuron_results,
    neuron_rows,
    ranker_rows,
    redundancy_rows,
    retrained,
    selection_changes,
    selection_comparison,
)
from report_frames import Frames

from vestige.report.pages import neuron_rankers, neuron_redundancy, neurons
from vestige.report.pages.neuron_parts.findings import neuron_findings
from vestige.report.pages.neuron_parts.frames import by_layer, label_homes, levels, search_grid
from vestige.report.pages.neuron_parts.rows import ALL, NeuronTask, Selection
from vestige.report.pages.neuron_parts.stability import stable
from vestige.report.reading import Reading
from vestige.report.types import Block, Page

TIGHT, LOOSE = Selection("minimal", "", "delta", 0.005), Selection("minimal", "", "delta", 0.02)


def page_of(frames: Frames) -> Page:
    return neurons.page(frames.reading, "neurons")


def task_of(frames: Frames) -> NeuronTask:
    (part,) = frames.reading.parts("neurons")
    return NeuronTask.of(frames.reading, part, "Neurons")


def said(frames: Frames) -> list[str]:
    task = task_of(frames)
    found = [*neuron_findings(task, frames.reading.judging), *stable(task)]
    return [finding.text.replace("\u00a0", " ").replace("\u202f", " ") for finding in found]


def about(texts: list[str], start: str) -> str:
    (found,) = [text for text in texts if text.startswith(start)]
    return found


def blocks_of(frames: Frames) -> dict[str, Block]:
    (section,) = page_of(frames).sections
    return {block.heading: block for block in section.blocks}


def without(frames: Frames, *metrics: str) -> Frames:
    return replace(frames, results=frames.results[~frames.results["metric"].isin(metrics)])


def test_how_few_are_enough_is_said_with_runs() -> None:
    text = about(said(neuron_frames()), "100 (5.0 %)")
    assert text == (
        "100 (5.0 %) of the 2 000 neurons of base are enough to come within 0.5 points of all of them on dev, "
        "40 (2.0 %) to come within 2 points. On test they reach 92.5 and 91.0 %, all neurons 93.0 %. "
        "Sizes of these sets: 105 (100\u2013110) and 40 in tuned."
    )


def all_needed(frames: Frames, selection: Selection, run: int | None = None) -> Frames:
    """The same tables, with a search for minimal sets that ended at all 2000 neurons."""
    rows = frames.results
    chosen = (rows["metric"] == "minimal_neurons") & (rows["x"] == selection.x)
    chosen &= True if run is None else rows["tune_seed"].eq(run).fillna(False)
    return replace(frames, results=rows.assign(value=rows["value"].mask(chosen, 2000.0)))


def test_where_the_search_ended_at_all_neurons_no_smaller_set_is_enough() -> None:
    frames = all_needed(all_needed(neuron_frames(), TIGHT), LOOSE)
    texts = said(frames)
    assert about(texts, "In base no") == (
        "In base no set smaller than all 2 000 neurons comes within 0.5 points of all of them on dev. "
        "In base no set smaller than all 2 000 neurons comes within 2 points of all of them on dev. "
        "Sizes of these sets: none smaller than all neurons in tuned."
    )
    assert not any(text.startswith(("Of the", "Selectivity")) for text in texts)
    blocks = blocks_of(frames)
    assert not {"Where they are", "Labels"} & set(blocks)
    (table,) = blocks["How few neurons are enough"].tables
    assert [row[2:5] for row in table.rows if row[1].startswith("minimal")] == [
        ["none smaller", "\u2013", "\u2013"]
    ] * 4


def test_a_set_that_one_delta_or_one_run_does_not_reach_is_left_out_of_the_spread() -> None:
    text = about(said(all_needed(neuron_frames(), TIGHT)), "40 (2.0 %)")
    assert text.startswith("40 (2.0 %) of the 2 000 neurons of base are enough to come within 2 points of all of them")
    assert "In base no set smaller than all 2 000 neurons comes within 0.5 points" in text
    assert about(said(all_needed(neuron_frames(), TIGHT)), "Of the 40 neurons")
    once = all_needed(neuron_frames(), TIGHT, run=1)
    assert "100 (none in 1 of 2 runs) and 40 in tuned." in about(said(once), "100 (5.0 %)")
    (table,) = blocks_of(once)["How few neurons are enough"].tables
    assert "100 (none smaller in 1 of 2 runs)" in [row[2] for row in table.rows]
    spread = by_layer(task_of(once), ["tuned"], TIGHT)
    assert spread["share"].tolist() == [0.1, 0.5, 0.3, 0.1], "that of the first run alone"


def test_where_the_neurons_are() -> None:
    text = about(said(neuron_frames(runs=1)), "Of the 100 neurons")
    assert "base's minimal set within 0.5 points the largest part lies in layer 2 (40.0 %" in text
    assert text.endswith(
        "an even spread would put 25.0 % there); half of them lie at or below layer 2; a re-fit has 82.0 % of them "
        "in common."
    ), "and nothing of where they went"


@pytest.mark.parametrize("overlap, warned", [(0.85, False), (0.79, True)])
def test_the_gap_and_the_overlap_of_a_refit_stand_beside_the_ranking(overlap: float, warned: bool) -> None:
    frames = neuron_frames(runs=1)
    rows = frames.results
    top = (rows["metric"] == "ranking_overlap") & (rows["x"] == 0.05) & (rows["model"] == "tuned")
    frames = replace(frames, results=rows.assign(value=rows["value"].mask(top, overlap)))
    text = about(said(frames), "A re-fit of the probe")
    assert text.startswith(
        f"A re-fit of the probe that ranks the neurons has 85.0 % in base and {100 * overlap:.1f} % in tuned of the "
        "top 5 % in common; in base its objective of 0.370 may be 0.070 above the optimum."
    )
    assert ("is in part chance" in text) is warned
    page = page_of(frames)
    blocks = {block.heading: block for block in page.sections[0].blocks}
    block = blocks["How sure is the ranking?"]
    assert block.tables[0].rows[0] == ["base", "0.370", "0.070", "0.375", "0.100", "85.0", "90.0"]
    assert ("Of tuned a re-fit has less than 80" in block.lede) is warned
    assert blocks["How few neurons are enough"].tables[0].head[-1] == "re-fit in common (%)"
    for heading in ("Where they are", "Labels"):
        lede = blocks[heading].lede.replace("\u00a0", " ")
        assert lede.endswith("A re-fit has 82.0 % in base and 82.0 % in tuned of them in common.")
    assert page.limits[0].startswith("How few neurons are enough")
    assert any("as little as 79 % of the top 5 % in common (tuned)" in line for line in page.limits) is warned
    assert ("may be here by chance" in page.explorer_note) is warned


def test_what_is_left_when_neurons_are_ablated_is_given_as_it_is() -> None:
    """Three accuracies without an interval put nothing in order."""
    text = about(said(neuron_frames()), "With all other neurons ablated")
    assert text == (
        "With all other neurons ablated, the top 20 % of base reach 90.0 %, a random 20 % 60.0 %, the bottom 20 % "
        "20.0 %; all neurons 93.0 % (test). The first three: 90.0, 60.0, 20.0 in tuned."
    )


def test_selectivity_of_the_small_set() -> None:
    text = about(said(neuron_frames()), "Selectivity")
    assert text == (
        "Selectivity of base is 23.0 points with all neurons and 42.5 with the 100 of the minimal set within 0.5 points."
    )


def test_retrained_probes_are_compared_with_their_intervals() -> None:
    text = about(said(neuron_frames()), "tuned against base: the probe")
    assert "the probe on all neurons loses 1.0 points (80.0 \u2192 79.0, 95 % interval" in text
    assert "trained anew, the top 5 % are unchanged within 0.5 points" in text
    assert "the bottom 5 % lose 5.0 points" in text
    assert "The bottom 5 % lose more than the top 5 %, which speaks for a property held less redundantly." in text


def test_overlapping_intervals_say_nothing_of_redundancy() -> None:
    table = selection_comparison({retrained("top"): -0.02, retrained("bottom"): -0.025}, half=0.01)
    assert "redundantly" not in " ".join(said(replace(neuron_frames(), comparisons=table)))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        (selection_changes([-0.3, -0.34], p=0.01), True),
        (selection_changes([-0.3, -0.34], p=0.2), False),
        (selection_changes([-0.3, -0.34], p=0.01, half=0.5), False),
        (selection_changes([-0.3, -0.34], p=0.01, expected=-0.31), False),
        (selection_changes([-0.3], p=0.01), True),
        (selection_changes([-0.3], p=0.2), False),
    ],
)
def test_a_move_needs_its_test_and_an_interval_away_from_chance(changes: pd.DataFrame, shown: bool) -> None:
    text = about(said(replace(neuron_frames(), changes=changes)), "Top 5 % of tuned against base")
    assert ("they move to lower layers" in text) is shown
    assert ("no move to lower or higher layers is shown" in text) is not shown
    assert "re-fits of one model exchange (80 stay, 20 leave and 30 enter" in text
    assert (
        "; re-fits exchange 12 in base and 13.5 in tuned; beyond re-fits, over both fits of each model, +10.0, 95 % interval +6.0 to +14.0)"
        in text
    )


@pytest.mark.parametrize("runs", [1, 2])
def test_what_refits_exchange_as_well_is_no_move(runs: int) -> None:
    changes = selection_changes([-0.3, -0.34][:runs], p=0.01, beyond=7.0)
    text = about(said(replace(neuron_frames(runs), changes=changes)), "Top 5 % of tuned against base")
    claim = (
        "no more neurons are shown to leave the selection than re-fits of one model exchange, and 5 % of it (80 stay"
    )
    assert claim in text
    assert "beyond re-fits, over both fits of each model, +7.0, 95 % interval +3.0 to +11.0)." in text
    assert "layers" not in text and "move" not in text


def test_without_refits_no_move_is_claimed() -> None:
    changes = selection_changes([-0.3, -0.34], p=0.01).assign(refit_base=float("nan"), refit_tuned=float("nan"))
    frames = replace(neuron_frames(), changes=changes[changes["statistic"] != "left_beyond_refit"])
    assert not any("against base: " in text and "selection" in text for text in said(frames))
    _, exchange = blocks_of(frames)["What fine-tuning does to the selection"].tables
    assert list(exchange.rows[0]) == ["top 5\u00a0%", "80", "20", "30", *["\u2013"] * 4]


def test_one_run_gives_its_p_and_several_their_number() -> None:
    one = " ".join(said(replace(neuron_frames(), changes=selection_changes([-0.3], p=0.01))))
    assert (
        "(mean layer \u22120.30, by chance 0.00; 95 % interval over re-fits \u22120.35 to \u22120.25; p = 0.010)" in one
    )
    assert "earth mover's distance 0.30 layers, by chance 0.10, re-fits 0.05 and 0.07 (p = 0.010)" in one
    two = " ".join(said(neuron_frames()))
    assert "95 % interval over 2 runs and re-fits \u22120.37 to \u22120.27; p at most 0.05 in 2 of 2 runs" in two


def test_tables_show_means_and_the_range_of_runs() -> None:
    blocks = blocks_of(neuron_frames())
    (minimal,) = blocks["How few neurons are enough"].tables
    assert minimal.head[-3:] == ["control task", "selectivity", "re-fit in common (%)"]
    assert [row[1:4] for row in minimal.rows if row[0] == "tuned"][1] == [
        "minimal set within 0.5 points",
        "105 (100\u2013110)",
        "5.3 (5.0\u20135.5)",
    ]
    (kept,) = blocks["What the top and the bottom of the ranking do"].tables
    assert kept.rows[0] == ["base", "test", "93.0", "90.0", "60.0", "20.0"]
    assert kept.rows[1] == ["base", "dev", "92.0", "89.0", "59.0", "19.0"]
    distances, exchange = blocks["What fine-tuning does to the selection"].tables
    assert list(distances.rows[0]) == [
        "top 5\u00a0%", "mean layer", "\u22120.32", "0.00", "+0.05", "+0.07", "\u22120.37 to \u22120.27",
        "0.010, 0.010",
    ]  # fmt: skip
    assert exchange.head[4:6] == ["leave in a re-fit of base", "leave in a re-fit of tuned"]
    assert list(exchange.rows[0]) == ["top 5\u00a0%", "80", "20", "30", "12", "13.5", "+10.0", "+6.0 to +14.0"]


def test_every_block_of_a_full_study() -> None:
    assert list(blocks_of(neuron_frames())) == [
        "How few neurons are enough",
        "How sure is the ranking?",
        "What the top and the bottom of the ranking do",
        "Where they are",
        "Labels",
        "Top and bottom neurons, trained anew",
        "What fine-tuning does to the selection",
        "How the penalties were chosen",
        "Every result along its axis",
    ]


def test_rankings_compared_stand_by_themselves() -> None:
    frames = replace(neuron_frames(), results=neuron_results([*neuron_rows("base"), *ranker_rows()]))
    page = neuron_rankers.page(frames.reading, "neuron_rankers")
    assert (page.title, [section.title for section in page.sections]) == (
        "Neurons: rankings compared",
        ["Part of speech"],
    )
    block, *_ = page.sections[0].blocks
    better, agreement = block.tables
    assert [list(row) for row in better.rows] == [["probe", "90.0"], ["probeless", "80.0"], ["random", "85.0"]]
    assert list(agreement.rows[2]) == ["random", "\u22120.02", "0.03", "\u2013"]
    assert page.findings == []
    assert len(block.figures) == 1


def test_a_single_ranker_agrees_with_no_other() -> None:
    rows = [row for row in ranker_rows() if row["metric"] == "accuracy" and row["subset"] == "probe"]
    page = neuron_rankers.page(replace(neuron_frames(), results=neuron_results(rows)).reading, "neuron_rankers")
    block, *_ = page.sections[0].blocks
    assert "in common" not in block.lede and "correlations" not in block.lede
    assert (len(block.figures), [list(row) for row in block.tables[0].rows]) == (0, [["probe", "90.0"]])


@pytest.mark.parametrize(("reached", "told"), [(0.9, "200"), (0.896, "200"), (0.88, "not reached")])
def test_redundancy_says_what_representatives_reach(reached: float, told: str) -> None:
    frames = replace(neuron_frames(), results=neuron_results([*neuron_rows("base"), *redundancy_rows(reached=reached)]))
    page = neuron_redundancy.page(frames.reading, "neuron_redundancy")
    assert page.title == "Neurons: redundancy"
    (block,) = page.sections[0].blocks
    assert [list(row) for row in block.tables[0].rows] == [
        ["all neurons", "\u2013", "\u2013", "91.0", "300"],
        ["correlation 0.7", "900", "50", "88.0", told],
    ]
    assert [folded.title for folded in block.folded] == ["Within each layer of base"]


@pytest.mark.parametrize("page", [neuron_rankers.page, neuron_redundancy.page])
def test_changes_of_further_analyses_stand_with_them(page: Callable[[Reading, str], Page]) -> None:
    """Their probes are trained once, so that changes are described."""
    name, params = ("neuron_rankers", "r0") if page is neuron_rankers.page else ("neuron_redundancy", "c0")
    made = ranker_rows if params == "r0" else redundancy_rows
    chosen = Selection("probe", "top", "share", 0.05) if params == "r0" else ALL
    table = selection_comparison({chosen: -0.02}, analysis=name, params=params).assign(verdict="described")
    results = neuron_results([*made("base"), *({**row, "reference": "base"} for row in made("tuned"))])
    found = page(replace(neuron_frames(), results=results, comparisons=table).reading, name)
    block, *_ = found.sections[0].blocks
    assert block.tables[-1].rows[0][0] == ("probe, top 5\u00a0%" if params == "r0" else "all neurons")
    assert [finding.weight for finding in found.findings] == ([] if params == "r0" else [0.2])


def test_without_a_control_task_its_columns_are_gone() -> None:
    frames = without(neuron_frames(), "control_accuracy", "selectivity")
    assert blocks_of(frames)["How few neurons are enough"].tables[0].head[4:] == ["accuracy", "re-fit in common (%)"]
    assert not any(text.startswith("Selectivity") for text in said(frames))


def test_without_minimal_sets_the_rest_stands() -> None:
    gone = ("minimal_neurons", "minimal_share", "selected_neurons", "label_neurons", "dominant_layer")
    frames = without(neuron_frames(), *gone)
    blocks = blocks_of(frames)
    assert {"Where they are", "Labels", "How few neurons are enough"}.isdisjoint(blocks)
    assert any(text.startswith("With all other neurons ablated") for text in said(frames))


def test_one_model_alone() -> None:
    frames = replace(
        neuron_frames(), results=neuron_results(neuron_rows("base")), comparisons=pd.DataFrame(), changes=None
    )
    texts = " ".join(said(frames))
    assert "fine-tuning" not in texts
    assert "What fine-tuning does to the selection" not in blocks_of(frames)


def test_a_random_twin_stands_in_tables_and_in_no_sentence() -> None:
    rows = [*neuron_rows("base"), *neuron_rows("random twin")]
    frames = replace(neuron_frames(), results=neuron_results(rows), comparisons=pd.DataFrame(), changes=None)
    frames.lock["spec"]["models"]["random twin"] = {"random_twin_of": "base"}
    assert "random twin" not in " ".join(said(frames))
    assert {row[0] for row in blocks_of(frames)["What the top and the bottom of the ranking do"].tables[0].rows} == {
        "base",
        "random twin",
    }


def test_the_chosen_pair_is_marked_in_every_run() -> None:
    grid = search_grid(task_of(neuron_frames()), "tuned")
    chosen = grid[grid["chosen"] > 0]
    assert chosen[["l1", "l2", "chosen"]].to_numpy().tolist() == [[0.001, 0.0, 2]]
    assert len(grid) == 4


def test_frames_of_charts() -> None:
    task = task_of(neuron_frames())
    spread = by_layer(task, ["base", "tuned"], TIGHT).set_index(["model", "layer"])
    assert spread.loc[("tuned", 1), "share"] == pytest.approx((0.5 + 60 / 110) / 2)
    assert spread.loc[("tuned", 1), ["low", "high"]].tolist() == pytest.approx([0.5, 60 / 110])
    assert set(levels(task)["value"].round(4)) == {0.92, 0.915, 0.9}
    assert len(label_homes(task, TIGHT)) == 2 * 3


def test_selections_as_a_reader_says_them() -> None:
    assert retrained("top").title == "top 5\u00a0%, retrained"
    assert Selection("ablated", "random", "share", 0.2).title == "random 20\u00a0%, others ablated"
    assert Selection("minimal", "", "delta", 0.01).title == "minimal set within 1 point"
    assert ALL.title == "all neurons"


def test_a_shown_change_weighs_its_margins_and_notes_less_than_one() -> None:
    found = page_of(neuron_frames()).findings
    weights = {finding.text.split(" ")[0]: finding.weight for finding in found if finding.kind != "note"}
    assert weights == {"tuned": pytest.approx(10)}, "five points, half a point being nothing"
    assert [finding.weight for finding in found if finding.kind == "note"] == [1.0, 0.7, 0.6, 0.5, 0.4, 0.3]
    assert {finding.lead for finding in found} == {"Neurons: Part of speech"}
    assert {finding.key[:4] for finding in found} == {("neurons", "bank", "upos", "n0")}
    undecided = replace(neuron_frames(), changes=selection_changes([-0.3], p=0.2))
    assert about(said(undecided), "Top 5 %")
    assert [finding.weight for finding in page_of(undecided).findings if finding.kind == "undecided"] == [0.4]


def test_many_labels_are_cut_in_the_middle() -> None:
    frames = neuron_frames()
    rows = neuron_rows("base")
    own = next(row for row in rows if row["metric"] == "label_neurons")
    rows += [{**own, "label": f"L{i}", "value": 1000 - i} for i in range(60)]
    block = blocks_of(replace(frames, results=neuron_results(rows)))["Labels"]
    assert "22 labels between the largest and the smallest are not drawn" in block.lede


def test_charts_hold_no_missing_numbers() -> None:
    figures = [figure for block in blocks_of(neuron_frames(runs=1)).values() for figure in block.figures]
    assert len(figures) == 17
    assert "NaN" not in json.dumps([figure.spec for figure in figures])
