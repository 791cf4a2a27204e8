"""Attention: how far fine-tuning moved it for the same sentence and head."""

from collections.abc import Iterator

from vestige.report import curves, default, notes
from vestige.report.reading import Part, Reading
from vestige.report.types import Page

_MOVED, _SPREAD = "emd", "entropy"


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence on the layers that moved least and most; without a reference, on the spread."""
    return default.page(reading, analysis, _moved)


def _moved(part: Part, model: str) -> Iterator[tuple[float, str]]:
    for name, what in ((_MOVED, "{} between the attention of {} and of its reference"), (_SPREAD, "{} of {}")):
        metric = part.declared.metrics.get(name)
        if metric is None:
            continue
        points = notes.points(curves.curve_frame(part.rows, metric, metric.along[0]), model)
        if len(points) > 1:
            text = f"The {what.format(metric.title, model)} is {notes.span(metric, metric.along[0], points)}."
            yield float(points["value"].max()) if name == _MOVED else 0.0, text
            return
