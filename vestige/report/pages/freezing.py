"""Partial freezing: how deep must fine-tuning reach?"""

from collections.abc import Iterator

import pandas as pd

from vestige.report import curves, default, notes
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Page

_NOTHING = -1


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence on how many blocks can be frozen."""
    found = default.page(reading, analysis, _frozen, "How deep must fine-tuning reach?")
    for part in reading.parts(analysis):
        found.answers += [Answer("advice", model, text) for model in part.models for text in _advice(part, model)]
    return found


def _advice(part: Part, model: str) -> Iterator[str]:
    """Which blocks could have been frozen at no measured cost."""
    metric = curves.leading(part)
    points = notes.points(curves.curve_frame(part.rows, metric, metric.along[0]), model)
    deep = _harmless(points) if _NOTHING in points.index else []
    if deep and deep[-1] > 0:
        whole, frozen = points.loc[_NOTHING], points.loc[deep[-1]]
        yield (
            f"Tuning {model} on {part.name} could have left the embeddings and the first {notes.blocks(deep[-1])} "
            f"frozen at no measured cost ({metric.title} {notes.level(metric, frozen)}, all blocks tuned "
            f"{notes.level(metric, whole)})."
        )


def _harmless(points: pd.DataFrame) -> list[float]:
    """Depths up to which freezing is not shown to lower the score, without a gap and with intervals throughout."""
    found: list[float] = []
    for depth in (x for x in points.index if x >= 0):
        if not notes.has_interval(points.loc[depth]) or notes.below(points.loc[depth], points.loc[_NOTHING]):
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
    yield 0.0, f"{text}; with the head alone learning it is {notes.level(metric, head)}."
