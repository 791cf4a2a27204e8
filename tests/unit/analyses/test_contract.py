"""Every analysis once, on tiny models: what it declares is measured, compared and on its page, and nothing else is.

The numbers mean nothing here. What is tested is that declaration, rows, comparisons and page agree, so that a metric,
an axis or a column that is renamed in one place only is found.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import tiny
import tiny_lm
from pydantic import TypeAdapter

from vestige.analyses import analysis_names, find_analysis
from vestige.analyses.base import Analysis
from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.report.pages import page_of
from vestige.report.reading import Reading
from vestige.report.types import Block, Figure, Page
from vestige.study.finished import StudyRun
from vestige.study.run import Study

RECIPE = {"epochs": 1, "batch": 8, "rate": 1e-3, "max_tokens": 24}
WORDS, TREES, OPINIONS = {"tasks": ["words/upos"]}, {"tasks": ["words/head"]}, {"tasks": ["opinions/opinion"]}
TUNED = {**OPINIONS, "models": ["base"], "recipe": "mosbach2020_cola", "changes": RECIPE}
EDGES = {"projected": 8, "hidden": 8, "rate": 3e-3, "validate_every": 5, "max_validations": 2, "seeds": 2}
FEW = {"resamples": 20, "sentences": 8}

ANALYSES = {
    "attention": {**WORDS, **FEW, "embedding": "layer0", "embedding_sentences": 2},
    "concepts": {"tasks": ["words/upos", "opinions/opinion"], "clusters": 8, "groups": 5, "shuffles": 2, "seeds": 2},
    "description_length": {**WORDS, "fractions": [0.25, 0.5, 1.0]},
    "edge_probe": {"tasks": ["arcs/dependency_arcs"], "inputs": ["layers", "mix", "mixes"], **EDGES},
    "erasure": {**WORDS, **FEW, "tolerance": 0.1},
    "freezing": {**TUNED, "depths": [0, 1]},
    "geometry": {"tasks": ["words/upos", "opinions/opinion"], "words": 80, "groups": 5},
    "layer_probe": {**WORDS, "seeds": 2, "tolerance": 0.1},
    "lens": {**WORDS, **FEW, "rate": 0.5},
    "minimal_pairs": {"tasks": ["pairs/acceptability"], "resamples": 20},
    "neuron_rankers": {**WORDS, "rankers": ["probe", "probeless", "random"], "shares": [0.05, 0.2]},
    "neuron_redundancy": {**WORDS, "step": 0.5, "correlation": [0.9, 0.5]},
    "neurons": {**WORDS, "grid": [1e-3, 1e-2], "step": 0.25},
    "output_drift": {**WORDS, **FEW, "rate": 0.5},
    "patched_probe": {**WORDS, "g": [0.0, 0.5], "sentences": 12, "tolerance": 0.1},
    "patching": {"tasks": ["pairs/acceptability"], "measures": ["task", "loss", "pairs"], "rate": 0.5, "g": [0.0, 0.5]},
    "perplexity": {**WORDS, **FEW, "block": 40, "rate": 0.3, "single": [1, 2]},
    "probe_transfer": {**WORDS, "tolerance": 0.1, "across": "all"},
    "pruning": {**TUNED, "dropped": [1]},
    "sentence_probe": {**OPINIONS, "pooling": "cls+sentence_mean", "seeds": 2, "tolerance": 0.1},
    "similarity": {"tasks": ["words/upos", "opinions/opinion"], "n": 80, "groups": 5, "all_pairs": True},
    "structural_probe": {**TREES, "max_epochs": 2, "rank": 4, "seeds": 2},
    "truncation": TUNED,
    "v_information": {**WORDS, "tolerance": 0.1, "resamples": 20, "least_words": 20},
    "weights": {},
}
MORE = [{"v_information": {**ANALYSES["v_information"], "context": False, "probe": "mlp", "hidden": 8, "seeds": 2}}]
"""Other settings, under which an analysis declares and leaves something else."""


def write_pairs(folder) -> None:
    for paradigm in ("word_order", "agreement"):
        about = {"UID": paradigm, "linguistics_term": "made up", "field": "syntax"}
        texts = [" ".join(text.split()[:6]) for text in tiny.TEXT[:4]]
        records = [
            {**about, "pairID": number, "sentence_good": good, "sentence_bad": " ".join(good.split()[::-1])}
            for number, good in enumerate(texts)
        ]
        (folder / f"{paradigm}.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> StudyRun:
    folder = tmp_path_factory.mktemp("contract")
    tiny_lm.whole("bert", layers=2).save_pretrained(folder / "base")
    tiny.tokenizer("bert").save_pretrained(folder / "base")
    (folder / "pairs").mkdir()
    write_pairs(folder / "pairs")
    few = {"train": 40, "dev": 20, "test": 32}
    tuning = {"of": "base", "task": "opinions/opinion", "recipe": {"like": "mosbach2020_cola", **RECIPE}}
    raw = {
        "study": "contract",
        "models": {"base": str(folder / "base"), "tuned": {"finetune": tuning}},
        "corpora": {
            "words": {"name": "treebank", "sample": few},
            "arcs": {"name": "treebank", "derive": "dependency_arcs", "sample": few},
            "opinions": {"name": "opinions", "sample": few},
            "pairs": {"files": str(folder / "pairs"), "format": "blimp"},
        },
        "analyses": [*({name: asked} for name, asked in ANALYSES.items()), *MORE],
        "compare": {"resamples": 99},
    }
    return Study.from_dict(raw, folder / "run", cache=folder / "cache").run(jobs=2)


@pytest.fixture(scope="module")
def reading(run) -> Reading:
    tables = run.tables
    return Reading(
        tables.results, tables.comparisons, tables.cells, tables.lock, changes=tables.neuron_changes, kept=tables.kept
    )


@pytest.fixture(scope="module")
def pages(reading) -> dict[str, Page]:
    return {name: page_of(name)(reading, name) for name in ANALYSES}


def analysis_of(cell: pd.Series) -> Analysis:
    return TypeAdapter(find_analysis(cell["analysis"])).validate_python(json.loads(cell["parameters"]))


def cells_of(run: StudyRun, name: str) -> Iterator[tuple[str, Analysis, pd.DataFrame]]:
    """Every cell of an analysis: its key, the analysis and its rows."""
    for _, cell in run.tables.cells.iterrows():
        if cell["analysis"] == name:
            yield cell["cell"], analysis_of(cell), run.results[run.results["cell"] == cell["cell"]]


def test_every_analysis_is_asked_and_answers(run):
    assert sorted(ANALYSES) == analysis_names()
    assert [failure["problem"] for failure in run.failed] == []
    assert set(run.results["analysis"]) == set(ANALYSES)


@pytest.mark.parametrize("name", analysis_names())
def test_every_metric_is_measured_or_said_to_be_absent(run, name):
    absent = run.tables.kept("absent")
    for key, analysis, rows in cells_of(run, name):
        given, measured = {metric.name for metric in analysis.given}, set(rows["metric"])
        assert given <= {metric.name for metric in analysis.metrics}
        excused = dict(absent[key].itertuples(index=False)) if key in absent else {}
        assert measured <= given and not measured & set(excused)
        assert given - measured == set(excused), f"{name}: {sorted(given - measured ^ set(excused))}"
        assert all(len(why) > 10 for why in excused.values())


@pytest.mark.parametrize("name", analysis_names())
def test_every_compared_metric_has_comparisons(run, name):
    """Of a task that was measured in both models."""
    found = run.comparisons[run.comparisons["analysis"] == name]
    for _, analysis, rows in cells_of(run, name):
        both = run.results[
            (run.results["params"] == rows["params"].iloc[0]) & (run.results["task"] == rows["task"].iloc[0])
        ]
        for metric in analysis.given if both["model"].nunique() > 1 else ():
            measured = both[both["metric"] == metric.name].groupby("model").ngroups == 2
            compared = found[(found["metric"] == metric.name) & (found["task"] == rows["task"].iloc[0])]
            if metric.compared is not None and measured:
                assert len(compared) and compared["difference"].notna().all(), f"{name}: {metric.name}"
                assert set(compared["margin"]) == {metric.margin}


VARIANT = ["model", "pooling", "input", "side", "subset", "subset2"]


@dataclass(frozen=True)
class Curve:
    """A metric along one of its axes, of one model and variant."""

    metric: Metric
    axis: Axis
    model: str
    points: list[list[float]]
    """At every place the mean over seeds and, where models are compared there, the level of the comparison."""


def along(rows: pd.DataFrame, metric: Metric, axis: Axis) -> pd.DataFrame:
    """The rows that lie along an axis and nothing else, with their place in `x`."""
    own = rows[(rows["metric"] == metric.name) & rows[["label", "head", "layer2", "axis2"]].isna().all(axis=1)]
    if axis.name == "layer":
        return own[own["axis"].isna() & own["layer"].notna()].assign(x=own["layer"])
    return own[(own["axis"] == axis.name) & own["layer"].isna()]


def curves(reading: Reading, name: str) -> Iterator[Curve]:
    """Every curve that has two places or more."""
    for part in reading.parts(name):
        results = [one for one in part.declared.metrics.values() if one.role == "result"]
        for metric, axis in [(one, axis) for one in results for axis in one.along if axis != WHOLE]:
            compared = along(part.changes, metric, axis) if len(part.changes) else part.changes
            for (model, *_), curve in along(part.rows, metric, axis).groupby(VARIANT, dropna=False):
                means = curve.groupby("x")["value"].mean()
                levels = [
                    (row.x, level)
                    for row in compared.itertuples()
                    for of, level in ((row.model, row.tuned), (row.reference, row.base))
                    if of == model
                ]
                points = [[value, *(level for at, level in levels if at == x)] for x, value in means.items()]
                if len(points) > 1:
                    yield Curve(metric, axis, model, points)


def blocks_of(page: Page) -> Iterator[Block]:
    for section in page.sections:
        yield from section.blocks


def figures_of(page: Page) -> Iterator[Figure]:
    for block in blocks_of(page):
        yield from block.figures
        for folded in block.folded:
            yield from folded.figures


def numbers_in(spec: object) -> Iterator[float]:
    """Every number of a chart's data, however it is nested."""
    if isinstance(spec, dict):
        spec = [*spec.values()]
    if isinstance(spec, list):
        for inner in spec:
            yield from numbers_in(inner)
    elif isinstance(spec, int | float) and not isinstance(spec, bool):
        yield float(spec)


def drawn(curve: Curve, chart: np.ndarray) -> bool:
    """Whether a chart has every point of the curve; percentages may be drawn as such."""
    scale = 100.0 if curve.metric.unit == "percent" else 1.0
    candidates = [np.array([*values, *(scale * value for value in values)]) for values in curve.points]
    return all(np.isclose(values[:, None], chart, rtol=1e-3, atol=1e-6).any() for values in candidates)


@pytest.mark.parametrize("name", analysis_names())
def test_every_curve_is_on_the_page(reading, pages, name):
    charts = [np.array([*numbers_in(figure.spec)]) for figure in figures_of(pages[name])]
    lacking = {
        f"{curve.metric.name} of {curve.model} along {curve.axis.name}"
        for curve in curves(reading, name)
        if not any(drawn(curve, chart) for chart in charts)
    }
    assert not lacking, sorted(lacking)


def sentences_of(page: Page) -> str:
    """All that is said on a page, in small letters."""
    said = [page.overview, *page.limits]
    for section in page.sections:
        said += [finding.text for finding in section.findings]
    for block in blocks_of(page):
        said += [block.heading, *(finding.text for finding in block.findings)]
        said += [figure.description for figure in block.figures] + [table.caption for table in block.tables]
    return " ".join(" ".join(said).replace("\N{NO-BREAK SPACE}", " ").split()).lower()


def mentions(said: str, metric: Metric, others: list[Metric]) -> bool:
    """Whether a metric's title is in a text, not being part of another's or of an axis'."""
    title = metric.title.lower()
    names = {text.lower() for other in others for text in (other.title, *(axis.title for axis in other.along))}
    for name in sorted(names - {title}, key=len, reverse=True):
        if title in name:
            said = said.replace(name, "")
    return bool(re.search(rf"\b{re.escape(title)}\b", said))


def without(reading: Reading, name: str, metrics: set[str]) -> Reading:
    """The same run without the rows of some metrics."""

    def lacking(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[~((frame["analysis"] == name) & frame["metric"].isin(metrics))]

    return replace(reading, results=lacking(reading.results), comparisons=lacking(reading.comparisons))


@pytest.mark.parametrize("name", analysis_names())
def test_nothing_is_said_of_a_metric_that_has_no_rows(reading, pages, name):
    """Of those that this run lacks, and of every result that is taken from its tables; one half of them at a time."""
    declared = {metric.name: metric for part in reading.parts(name) for metric in part.declared.metrics.values()}
    measured = set(reading.results[reading.results["analysis"] == name]["metric"])
    results = [metric.name for metric in declared.values() if metric.role == "result" and metric.name in measured]
    cases = [(pages[name], set(declared) - measured)]
    for half in ({*results[::2]}, {*results[1::2]}):
        if half and measured - half:
            cases.append((page_of(name)(without(reading, name, half), name), half))
    for page, lacking in cases:
        said = sentences_of(page)
        told = {metric for metric in lacking if mentions(said, declared[metric], [*declared.values()])}
        assert not told, f"{sorted(told)}: {said}"
