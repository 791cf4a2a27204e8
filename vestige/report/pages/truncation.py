"""Truncation: how much depth does the task need?"""

from collections.abc import Iterator

from vestige.report import curves, default, notes
from vestige.report.reading import Part, Reading
from vestige.report.types import Page
from vestige.report.wording import capital


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence on how many blocks are enough."""
    return default.page(reading, analysis, _cut, "How much depth does the task need?")


def _cut(part: Part, model: str) -> Iterator[tuple[float, str]]:
    metric = curves.leading(part)
    points = notes.points(curves.curve_frame(part.rows, metric, metric.along[0]), model)
    if len(points) < 2:
        return
    first, whole = points.iloc[0], points.iloc[-1]
    sure = all(notes.has_interval(point) for _, point in points.iterrows())
    enough = next((x for x in points.index if sure and not notes.below(points.loc[x], whole)), points.index[-1])
    text = f"{capital(metric.title)} of {model} is {notes.level(metric, first)} cut to {notes.blocks(points.index[0])} "
    every = part.setting.parameters.get("depths") is None
    text += f"and {notes.level(metric, whole)} {'whole' if every else f'to {notes.blocks(points.index[-1])}'}"
    if enough != points.index[-1]:
        text += f"; with {notes.blocks(enough)}, {notes.level(metric, points.loc[enough])}, it is not shown to fall "
        text += "below that"
    yield 0.0, f"{text}."
