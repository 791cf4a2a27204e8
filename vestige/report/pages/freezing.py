"""Partial freezing: how deep must fine-tuning reach?"""

from collections.abc import Iterator

from vestige.report import curves, default, notes
from vestige.report.reading import Part, Reading
from vestige.report.types import Page

_NOTHING = -1


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence on how many blocks can be frozen."""
    return default.page(reading, analysis, _frozen, "How deep must fine-tuning reach?")


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
