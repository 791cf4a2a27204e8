"""Erasure: whether a property is still used."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.report import curves, default, notes, numbers
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Page
from vestige.report.wording import layer

_OWN, _PROBES = "task_", ("accuracy", "last_accuracy")
"""What scores of a model's own task are called, and those of probes."""


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with sentences on every model's own task, the largest effect first, and on perplexity."""
    reading = replace(reading, results=_with_baselines(reading.results, analysis))
    found = default.page(
        reading,
        analysis,
        _erased,
        "Is it still used?",
        "The property is erased from one layer (LEACE), and what follows is measured: the task that the model was "
        "tuned on, the language model, a probe at that layer and one at the last layer. Beside it, as many random "
        "directions erased.",
    )
    for part in reading.parts(analysis):
        whats = f" of {part.title}" if len(reading.parts(analysis)) > 1 else ""
        for model in part.models:
            found.answers += [
                Answer("use", model, f"Is it still used{whats}? {text}")
                for _, text in islice(_own_task(part, model), 1)
            ]
    return found


def _with_baselines(rows: pd.DataFrame, analysis: str) -> pd.DataFrame:
    """The rows, with baselines naming the metrics that they are of: of probes, or of the model's own task."""
    always = (rows["analysis"] == analysis) & rows["metric"].isin(["majority", f"{_OWN}majority"])
    own = rows[always & rows["subset"].notna()]
    probes = [rows[always & rows["subset"].isna()].assign(subset=name) for name in _PROBES]
    return pd.concat([rows[~always], own.assign(subset=_OWN + own["subset"]), *probes], ignore_index=True)


def _erased(part: Part, model: str) -> Iterator[tuple[float, str]]:
    yield from _own_task(part, model)
    if "perplexity" in set(part.rows.loc[part.rows["model"] == model, "metric"]):
        for size, text in _one_erased(part, model, part.declared.metrics["perplexity"]):
            yield size - 1e9, text  # after all own tasks


def _own_task(part: Part, model: str) -> Iterator[tuple[float, str]]:
    """What erasing does to the task that the model was tuned on."""
    measured = part.rows.loc[part.rows["model"] == model, "metric"].drop_duplicates()
    results = [metric.name for metric in curves.of_metric(part)]
    own = next((name for name in measured if name.startswith(_OWN) and name in results), None)
    if own:
        yield from _one_erased(part, model, part.declared.metrics[own])


def _one_erased(part: Part, model: str, metric: Metric) -> Iterator[tuple[float, str]]:
    """The layer at which erasing does the most, beside what random directions do there; and how much it does."""
    frame = curves.curve_frame(part.rows, metric, LAYER)
    none, erased, random = (notes.points(frame, model, variant) for variant in ("none", "erased", "random"))
    if erased.empty:
        return
    level = f"In {model}, {metric.title} is {notes.level(metric, none.iloc[0])}"
    always = [numbers.text(metric, value) for value in curves.baselines(part, metric, model).values()]
    level += f" (always the same answer: {always[0]})" if always and metric.name.startswith(_OWN) else ""
    if not all(notes.has_interval(point) for _, point in erased.iterrows()):
        yield 0.0, f"{level}; with the property erased it is {notes.span(metric, LAYER, erased)}."
        return
    moved = [
        at
        for at in erased.index
        if notes.below(erased.loc[at], none.loc[at]) or notes.below(none.loc[at], erased.loc[at])
    ]
    if not moved:
        where = layer(int(erased.index[0])) if len(erased) == 1 else "any one layer"
        yield 0.0, f"{level}; erasing the property from {where} is not shown to change it."
        return
    effects = (erased["value"] - none["value"]).loc[moved].abs()
    most = effects.idxmax()
    text = f"{level}; with the property erased from {layer(int(most))}"
    text += ", where the largest difference is shown," if len(erased) > 1 else ""
    text += f" {notes.level(metric, erased.loc[most])}"
    text += f", with random directions instead {notes.level(metric, random.loc[most])}" if most in random.index else ""
    yield float(effects[most]), f"{text}."
