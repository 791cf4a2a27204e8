"""Analyses that are told by curves: what the frames hold, what is said of them, what the page shows."""

import pandas as pd
import pytest
from report_frames import cells_frame, comparison

from vestige.report.chapter_findings import chapter_findings
from vestige.report.chapter_sections import chapter_headlines, chapter_sections
from vestige.report.chapters import CHAPTERS
from vestige.report.charts import Charts
from vestige.report.curves import SCORE, Curve, curve_frame, named_series, score_metric
from vestige.report.html import render
from vestige.report.markdown import render as render_markdown
from vestige.report.reading import Reading

TEXT = ("label", "subset", "axis", "model", "reference", "metric", "corpus", "task", "params", "analysis", "cell")
KINDS = {
    "layer": "Int16", "layer2": "Int16", "head": "Int16", "tune_seed": "Int32", "probe_seed": "Int32",
    "x": "Float64", "value": "Float64", "n": "Int64", **dict.fromkeys(TEXT, "string"),
}  # fmt: skip


def frame(rows, **where):
    named = {"model": "base", "corpus": "mnli", "task": "mnli", "params": "p0", "cell": "c0", **where}
    table = pd.DataFrame([{**named, **row} for row in rows])
    return table.reindex(columns=list(KINDS)).astype(KINDS)


def scores(values, axis, half=0.01, **where):
    """Accuracy with its interval by place on an axis, an F1 and a count beside it."""
    rows = []
    for x, value in values.items():
        at = {"axis": axis, "x": x, "probe_seed": 0, **where}
        rows += [
            {"metric": "accuracy", "value": value, **at},
            {"metric": "accuracy_low", "value": value - half, **at},
            {"metric": "accuracy_high", "value": value + half, **at},
            {"metric": "accuracy_majority", "value": 0.34, **at},
            {"metric": "f1", "value": value / 2, **at},
            {"metric": "trained_parameters", "value": 1e6, **at},
        ]
    return rows


FROZEN = {-1: 0.80, 0: 0.801, 1: 0.795, 2: 0.70, 3: 0.60}
HELD = Curve(SCORE, "score", "frozen blocks", unit="percent", decimals=1)


def frozen(**where):
    return frame(scores(FROZEN, "frozen blocks"), analysis="freezing", **where)


def reading(results, comparisons=None, **lock):
    cells = pd.concat([cells_frame(), cells_frame().assign(params="p1", analysis="freezing", parameters="{}")])
    return Reading(results, pd.DataFrame() if comparisons is None else comparisons, cells, {"study": "s", **lock})


def test_runs_are_counted_for_models_that_no_layer_probe_compares():
    rows = frame([{"metric": "perplexity", "value": 9.0}], analysis="perplexity", model="cola")
    models = {"base": [{"source": "minilm"}], "cola": [{"tuned_on": "cola/cola"}] * 3, "rte": [{"tuned_on": "rte/rte"}]}
    assert reading(rows, models=models).tuned_runs == {"cola": 3}
    compared = comparison([0.1, 0.1], "saved").assign(analysis="description_length", model="mnli")
    assert reading(frozen(), compared).tuned_runs == {"mnli": 1}


def _scored(level, half, **where):
    """A score of a model's own task with its interval."""
    sides = (("", level), ("_low", level - half), ("_high", level + half))
    return [{"metric": f"task_accuracy{side}", "value": value, **where} for side, value in sides]


class TestFrames:
    def test_the_score_is_the_first_measure_whatever_its_name(self):
        assert score_metric(frozen()) == "accuracy"
        assert score_metric(frame([{"metric": "trained_parameters", "value": 1.0}])) is None

    def test_a_single_run_has_the_intervals_of_the_analysis(self):
        found = curve_frame(frozen(), HELD, ["base"])
        assert found["x"].tolist() == [-1, 0, 1, 2, 3]
        assert found["value"].tolist() == list(FROZEN.values())
        assert found["low"].tolist() == pytest.approx([value - 0.01 for value in FROZEN.values()])

    @pytest.mark.parametrize("intervals, low, high", [(3, 0.15, 0.75), (2, 0.2, 0.7), (0, 0.2, 0.7)])
    def test_several_runs_have_their_mean_and_all_their_intervals_or_else_their_range(self, intervals, low, high):
        rows = [
            {"metric": metric, "value": value, "layer": 1, "tune_seed": seed}
            for seed, level in enumerate((0.2, 0.3, 0.7))
            for metric, value in (("rsa", level), ("rsa_low", level - 0.05), ("rsa_high", level + 0.05))
            if metric == "rsa" or seed < intervals
        ]
        found = curve_frame(frame(rows), Curve("rsa", "RSA"), ["base"]).iloc[0]
        assert found[["value", "low", "high", "runs"]].tolist() == pytest.approx([0.4, low, high, 3])

    def test_a_second_run_does_not_turn_noise_into_a_finding(self):
        """Values that lie within each other's intervals, run by run, and just outside the range of the runs."""
        rows = [
            row
            for seed in range(2)
            for subset, level in (("none", 0.81), ("erased", 0.806), ("random", 0.81))
            for layer in range(2)
            for row in _scored(level + 0.001 * seed, 0.03, subset=subset, layer=layer, tune_seed=seed)
        ]
        (finding,) = chapter_findings("erasure", frame(rows, analysis="erasure"), "EWT")
        assert "is not shown to change it" in finding.text

    def test_heads_labels_pairs_of_layers_and_other_axes_are_left_out(self):
        rows = [{"metric": "emd", "value": 0.1, "layer": 1}]
        rows += [{"metric": "emd", "value": 9.0, "layer": 1, **odd} for odd in
                 ({"head": 0}, {"label": "x"}, {"layer2": 2}, {"axis": "a", "x": 1})]  # fmt: skip
        assert curve_frame(frame(rows), Curve("emd", "EMD"), ["base"])["value"].tolist() == [0.1]

    def test_models_keep_their_order_and_others_are_left_out(self):
        rows = pd.concat([frozen(model=name) for name in ("b", "a", "c")], ignore_index=True)
        assert list(dict.fromkeys(curve_frame(rows, HELD, ["c", "b"])["model"])) == ["c", "b"]

    def test_curves_are_named_by_what_tells_them_apart(self):
        rows = pd.DataFrame({"model": ["m", "m"], "subset": ["top", "bottom"]})
        assert named_series(rows)["series"].tolist() == ["top", "bottom"]
        rows = pd.DataFrame({"model": ["m", "n", "n"], "subset": ["", "", "single"]})
        assert named_series(rows)["series"].tolist() == ["m", "n", "n, single"]
        rows = pd.DataFrame({"model": ["m", "n"], "subset": ["layers", "layers"]})
        assert named_series(rows)["series"].tolist() == ["m", "n"]


class TestFindings:
    def test_freezing_names_the_deepest_depth_within_the_interval(self):
        (finding,) = chapter_findings("freezing", frozen(), "MNLI")
        assert "the embeddings and 1\u00a0block" in finding.text.replace("1 block", "1\u00a0block")
        assert "60.0" in finding.text and "is not shown to fall below that of the whole" in finding.text

    def test_freezing_that_always_costs_says_so(self):
        rows = frame(scores({-1: 0.9, 0: 0.7, 1: 0.6}, "frozen blocks"))
        (finding,) = chapter_findings("freezing", rows, "MNLI")
        assert "Whatever is frozen in base, the score is below" in finding.text

    def test_pruning_tells_both_sides(self):
        rows = scores({0: 0.8}, "dropped blocks", subset="all")
        rows += scores({3: 0.7}, "dropped blocks", subset="top") + scores({3: 0.5}, "dropped blocks", subset="bottom")
        (finding,) = chapter_findings("pruning", frame(rows), "MNLI")
        assert finding.text.index("70.0") < finding.text.index("50.0") and "80.0" in finding.text

    @pytest.mark.parametrize("half", [0.0, 3.0, 40.0])
    def test_perplexity_falls_where_intervals_are_apart(self, half):
        rows = [{"metric": "reference_perplexity", "value": 12.0}]
        rows += [
            {"metric": f"perplexity{side}", "value": value + by, "axis": "last_replaced", "x": x, "subset": "layers"}
            for x, value in enumerate((90.0, 40.0, 25.0, 31.0))
            for side, by in (("", 0), ("_low", -half), ("_high", half))
            if half or not side
        ]
        (finding,) = chapter_findings("perplexity", frame(rows, model="tuned"), "Text")
        assert "Perplexity is 12.0 in the reference and 90.0" in finding.text
        falls = "with the last 2 blocks replaced by the reference's it falls to 25.0"
        assert (falls in finding.text) is (half == 3)
        assert ("it is not shown to fall" in finding.text) is (half != 3)

    def erased(self, values, metric="task_las", more=()):
        rows = [
            {"metric": name, "value": value, "layer": layer, "subset": subset}
            for subset, levels in values.items()
            for layer, value in enumerate(levels)
            for name in (metric, *more)
        ]
        return frame(rows, model="tuned")

    def with_intervals(self, rows, half, scale=1.0):
        sides = [
            rows.assign(metric=rows["metric"] + f"_{side}", value=rows["value"] * (1 + by) + by * half)
            for side, by in (("low", -scale), ("high", scale))
        ]
        return pd.concat([rows, *sides])

    def test_erasure_names_the_layer_where_the_difference_is_largest_beside_random_directions(self):
        values = {"none": (0.8, 0.8), "erased": (0.75, 0.5), "random": (0.79, 0.78)}
        rows = self.with_intervals(self.erased(values, more=["task_uas"]), 1, 0.01)
        (finding,) = chapter_findings("erasure", rows, "Tags")
        text = finding.text.replace("\u00a0", " ")
        assert "The LAS of tuned on its own task is 80.0 (78.2 to 81.8); with the property erased from layer 1" in text
        assert text.endswith("50.0 (48.5 to 51.5), with random directions instead 78.0 (76.2 to 79.8).")

    def test_without_intervals_erasure_gives_its_numbers_and_claims_nothing(self):
        rows = self.erased({"none": (0.8, 0.8), "erased": (0.75, 0.5), "random": (0.79, 0.78)})
        (finding,) = chapter_findings("erasure", rows, "Tags")
        assert finding.text.endswith(
            "is 80.0; with the property erased it is lowest at layer 1, 50.0, and highest at the embeddings, 75.0."
        )

    def test_erasure_that_does_nothing_claims_nothing(self):
        values = dict.fromkeys(("none", "erased", "random"), (0.8, 0.8))
        (finding,) = chapter_findings("erasure", self.with_intervals(self.erased(values), 0, 0.1), "Tags")
        assert finding.text.endswith("erasing the property from any one layer is not shown to change it.")
        rows = self.erased({"none": (0.8, 0.8), "erased": (0.79, 0.76), "random": (0.8, 0.8)})
        sides = [rows.assign(metric=f"task_las_{side}", value=rows["value"] + by)
                 for side, by in (("low", -0.03), ("high", 0.03))]  # fmt: skip
        (finding,) = chapter_findings("erasure", pd.concat([rows, *sides]), "Tags")
        assert "is not shown to change it" in finding.text, "values outside of each other's intervals, which overlap"

    def test_erasure_that_raises_perplexity_beyond_its_interval_says_so(self):
        rows = self.erased({"none": (700.0, 700.0), "erased": (800.0, 4400.0), "random": (900.0, 910.0)}, "perplexity")
        sides = [rows.assign(metric=f"perplexity_{side}", value=rows["value"] * by)
                 for side, by in (("low", 0.75), ("high", 1.3))]  # fmt: skip
        (finding,) = chapter_findings("erasure", pd.concat([rows, *sides]), "Tags")
        assert "erased from layer 1, where the difference is largest, 4400.0" in finding.text

    def test_the_own_task_that_loses_most_is_told_first_and_perplexities_last(self):
        lost = {"a": 0.7, "b": 0.2, "c": 0.5}
        values = {name: {"none": (0.8,), "erased": (level,), "random": (0.8,)} for name, level in lost.items()}
        tables = [(name, self.erased(levels)) for name, levels in values.items()]
        tables.append(("a", self.erased(values["a"], "perplexity")))
        parts = [self.with_intervals(rows, 0, 0.01).assign(model=name) for name, rows in tables]
        told = [finding.text.split(" is ")[0] for finding in chapter_findings("erasure", pd.concat(parts), "Tags")]
        assert told == [*(f"The LAS of {name} on its own task" for name in "bca"), "The perplexity of a"]

    def test_an_analysis_without_a_rule_says_nothing(self):
        assert chapter_findings("minimal_pairs", frozen(), "MNLI") == []


class TestChanges:
    """What is said of fine-tuning where models are compared; it opens the page, not what a base model's curve is like."""

    def opening(self, changes, half=0.01, metric="uuas"):
        rows = frame([{"metric": metric, "value": 0.5, "layer": layer} for layer in range(4)])
        rows["analysis"] = "structural_probe"
        where = {"analysis": "structural_probe", "corpus": "mnli", "task": "mnli"}
        tables = [comparison(values, metric, half, model=model, **where) for model, values in changes.items()]
        found = reading(rows, pd.concat(tables, ignore_index=True))
        (first,), ((_, (section,)),) = chapter_headlines(found), chapter_sections(found, Charts())
        return first, section.findings

    def test_the_largest_change_opens_the_page_and_the_others_stand_with_the_task(self):
        changes = {"a": [0, 0, 0.05, 0.1], "b": [0.03, -0.2, 0.02, 0.04]}
        first, rest = self.opening(changes)
        text = first.text.replace("\u00a0", " ")
        assert text == (
            "In b, UUAS is lower than in base at layer 1 (40.0 \u2192 20.0, 95 % interval \u221221.00 to \u221219.00, "
            "q = 0.001); higher at the embeddings and layers 2 and 3."
        )
        assert first.kind == "lower"
        assert [finding.text.split(" (")[0] for finding in rest[:1]] == ["In a, UUAS is higher than in base at layer 3"]
        assert rest[0].text.endswith("; also at layer 2.") and first not in rest

    def test_where_nothing_is_shown_nothing_is_claimed(self):
        first, _ = self.opening({"a": [0.01, -0.02, 0, 0]}, half=0.1)
        assert first.kind == "undecided" and "nowhere shown to differ from base; the largest" in first.text
        first, _ = self.opening({"a": [0, 0, 0, 0]}, half=0.001)
        assert first.kind == "unchanged"
        assert first.text == "In a, UUAS is as in base everywhere, within \u00b10.50."

    def test_places_are_the_inputs_of_probes_where_they_have_names(self):
        rows = frame([{"metric": "f1_micro", "value": 0.5, "subset": "mix"}], analysis="edge_probe")
        where = {"analysis": "edge_probe", "corpus": "mnli", "task": "mnli"}
        table = comparison([0.1, 0.2, 0.3], "f1_micro", 0.01, **where).assign(subset=["mix", "top", "cat"])
        (first,) = chapter_headlines(reading(rows, table))
        assert "F1 is higher than in base from cat" in first.text and first.text.endswith("; also from mix and top.")


class TestPage:
    def test_every_chapter_has_a_name_of_its_own(self):
        assert len({chapter.name for chapter in CHAPTERS}) == len(CHAPTERS)

    def test_mixes_are_shown_whether_along_an_axis_or_by_name(self):
        at = {"metric": "f1_micro", "model": "base"}
        mixes = [{**at, "subset": "mixes", "axis": "last layer mixed", "x": x, "value": 0.5 + x / 10} for x in (0, 2)]
        rows = frame([*mixes, {**at, "subset": "mix", "value": 0.83}], analysis="edge_probe")
        ((_, (section,)),) = chapter_sections(reading(rows), Charts())
        told = {block.heading: [line for table in block.tables for line in table.rows] for block in section.blocks}
        assert told == {
            "F1 (%) by last layer of the mix": [["0", "50.0"], ["2", "70.0"]],
            "By input": [["mix", "83.0"]],
        }

    @pytest.mark.parametrize(("models", "pictures"), [("a", 1), ("ab", 1), ("abc", 3)])
    def test_more_curves_than_colours_are_drawn_model_by_model(self, models, pictures):
        rows = [
            {"metric": "accuracy", "value": 0.5, "layer": layer, "subset": subset, "model": model}
            for model in models
            for subset in ("none", "erased", "random")
            for layer in (0, 1)
        ]
        ((_, (section,)),) = chapter_sections(reading(frame(rows, analysis="erasure")), Charts())
        assert len(section.blocks) == pictures and all(len(block.charts) == 1 for block in section.blocks)
        if pictures > 1:
            assert section.blocks[1].heading == "Probe at the layer (%) by layer: b"
            assert section.blocks[1].tables[0].head == ["layer", "none", "erased", "random"]

    def test_minimal_pairs_are_a_table_by_paradigm(self):
        rows = [
            {"metric": "accuracy", "value": value, "n": 40, "label": label, "model": model}
            for model, values in (("base", (0.9, 0.7)), ("tuned", (0.8, 0.6)))
            for label, value in zip(("agreement", "islands"), values, strict=True)
        ]
        found = reading(frame(rows, analysis="minimal_pairs"))
        ((chapter, (section,)),) = chapter_sections(found, Charts())
        assert chapter.name == "minimal_pairs"
        assert section.blocks[0].tables[0].rows == [
            ["agreement", "40", "90.0", "80.0"],
            ["islands", "40", "70.0", "60.0"],
        ]

    def test_a_study_of_freezing_alone_has_a_page(self):
        found = reading(frozen(params="p1"))
        assert [chapter.name for chapter, _ in chapter_sections(found, Charts())] == ["freezing"]
        page = render(found)
        assert "How deep must fine-tuning reach?" in page and 'id="layers"' not in page
        assert "measured by freezing" in page
        assert chapter_headlines(found)[0].text.split(" ")[0] in page
        written = render_markdown(found)
        assert "| 80.0 (79.0 to 81.0) |" in written.replace("\u00a0", " ")

    def test_analyses_with_layers_are_not_taken_for_layer_probes(self):
        rows = frame([{"metric": "accuracy", "value": 0.5, "layer": layer} for layer in range(3)])
        rows["analysis"] = "structural_probe"
        changes = comparison([0.1, 0.1, 0.1], "accuracy", 0.01).assign(analysis="structural_probe")
        found = reading(rows, changes)
        assert found.groups == [] and found.tasks == []

    def test_changes_of_shares_are_in_points_and_those_of_correlations_are_not(self):
        rows = frame([{"metric": metric, "value": 0.5, "layer": 0} for metric in ("uuas", "dspr")])
        rows["analysis"] = "structural_probe"
        where = {"analysis": "structural_probe", "corpus": "mnli", "task": "mnli"}
        changes = pd.concat([comparison([0.1], metric, 0.01, **where) for metric in ("uuas", "dspr")])
        ((_, (section,)),) = chapter_sections(reading(rows, changes), Charts())
        (block,) = [block for block in section.blocks if block.heading == "Change by fine-tuning"]
        assert [table.caption for table in block.tables] == ["UUAS (%), tuned minus base", "DSpr, tuned minus base"]
        assert [table.rows[0][1:5] for table in block.tables] == [
            ["40.0", "50.0", "+10.00", "+9.00 to +11.00"],
            ["0.400", "0.500", "+0.100", "+0.090 to +0.110"],
        ]

    @pytest.mark.parametrize(
        "analysis, metric, values", [("similarity", "rsa", (0.9, 0.2)), ("attention", "emd", (1, 3))]
    )
    def test_the_model_that_differs_most_is_told_of_first(self, analysis, metric, values):
        rows = frame(
            [
                {"metric": metric, "value": value * (layer + 1) / 2, "layer": layer, "model": model}
                for model, value in zip(("still", "other"), values, strict=True)
                for layer in range(2)
            ],
            analysis=analysis,
        )
        told = [finding.text for finding in chapter_findings(analysis, rows, "MNLI")]
        assert len(told) == 2 and "of other and" in told[0] and "of still and" in told[1]

    def test_a_model_that_is_alike_everywhere_is_not_said_to_differ(self):
        rows = frame([{"metric": "rsa", "value": 1.0, "layer": layer} for layer in range(3)], analysis="similarity")
        (finding,) = chapter_findings("similarity", rows, "MNLI")
        assert finding.text == "RSA of base and its reference is 1.00 at all layers."

    @pytest.mark.parametrize("half, apart", [(0.01, True), (0.2, False)])
    def test_layers_are_put_in_order_only_where_their_intervals_are_apart(self, half, apart):
        levels = (0.7, 0.95, 0.94)

        def told(analysis, metric):
            rows = [
                {"metric": f"{metric}{side}", "value": value + by, "layer": layer}
                for layer, value in enumerate(levels)
                for side, by in (("", 0), ("_low", -half), ("_high", half))
            ]
            (finding,) = chapter_findings(analysis, frame(rows, analysis=analysis), "MNLI")
            return finding.text

        for analysis, metric in (("similarity", "rsa"), ("attention", "emd")):
            assert ("no layer is shown to differ from another" in told(analysis, metric)) is not apart
        alike = "layer 2 is" if apart else "the embeddings and layer 2 are"
        assert told("structural_probe", "uuas").endswith(f"; {alike} not shown to be lower.")

    def test_the_range_of_a_few_runs_is_no_interval(self):
        rows = [
            {"metric": "rsa", "value": value + 0.01 * seed, "layer": layer, "tune_seed": seed}
            for layer, value in enumerate((0.7, 0.9))
            for seed in range(2)
        ]
        (finding,) = chapter_findings("structural_probe", frame(rows).replace("rsa", "uuas"), "MNLI")
        assert finding.text.replace("\u00a0", " ").endswith("is highest at layer 1 (90.5 (90.0 to 91.0)).")
