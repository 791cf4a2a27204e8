"""Partial freezing: how deep must fine-tuning reach?"""

from collections.abc import Iterator

import pandas as pd

from vestige.report import curves, default, notes, numbers
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Page

_NOTHING = -1
_COST = 0.005
"""A score that is lower by more than this is a measured cost, even where the intervals overlap."""


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence on how many blocks can be frozen."""
    found = default.page(reading, analysis, _frozen, "How deep must fine-tuning reach?")
    for part in reading.parts(analysis):
        found.answers += [Answer("advice", model, text) for model in part.models for text in _advice(part, model)]
    return found


def _advice(part: Part, model: str) -> Iterator[str]:
    """Which blocks could have been frozen at no measured cost, of a model that is shown to have learnt the task."""
    metric = curves.leading(part)
    points = notes.points(curves.curve_frame(part.rows, metric, metric.along[0]), model)
    deep = _harmless(points) if _NOTHING in points.index else []
    always = max(curves.baselines(part, metric, model).values(), default=0.0)
    if deep and deep[-1] > 0 and points.loc[_NOTHING, "low"] > always:
        whole, frozen = points.loc[_NOTHING], points.loc[deep[-1]]
        first = "block" if deep[-1] == 1 else notes.blocks(deep[-1])
        yield (
            f"Tuning {model} on {part.name} could have left the embeddings and the first {first} frozen at no measured "
            f"cost of more than {numbers.margin(metric, _COST)} ({metric.title} {notes.level(metric, frozen)}, all "
            f"blocks tuned {notes.level(metric, whole)}; a cost within these intervals is not ruled out)."
        )


def _harmless(points: pd.DataFrame) -> list[float]:
    """Depths up to which freezing costs next to nothing and is not shown to cost more, with intervals and no gap."""
    found: list[float] = []
    whole = points.loc[_NOTHING]
    for depth in (x for x in points.index if x >= 0):
        frozen = points.loc[depth]
        known = notes.has_interval(frozen) and notes.has_interval(whole)
        if not known or frozen["value"] < whole["value"] - _COST or notes.below(frozen, whole):
            break
        found.append(float(depth))
    return found


def _frozen(part: Part, model: str) -> Iterator[tuple[float, str]]:
    metric = curves.leading(part)
    points = notes.points(curves.curve_frame(part.rows, metric, metric.along[0]), model)
    if _NOTHING not in points.index or len(points) < 3:
        return
    whole, head = points.loc[_NOTHING], points.iloc[-1]
    deep = [x for x in points.index if x >= 0 and not notes.below(points.loc[x], whole)]
    of_whole = f"that of the whole tuned model {notes.level(metric, whole)}"
    if deep:
        reach = "the embeddings alone" if deep[-1] == 0 else f"the embeddings and {notes.blocks(deep[-1])}"
        text = f"With {reach} of {model} frozen the {metric.title} {notes.level(metric, points.loc[deep[-1]])} is not "
        text += f"shown to fall below {of_whole}"
    else:
        text = f"Whatever is frozen in {model}, the {metric.title} is below {of_whole}"
    if part.setting.parameters.get("depths") is None:  # else the deepest may leave blocks free
        text += f"; with the head alone learning it is {notes.level(metric, head)}"
    yield 0.0, f"{text}."
