"""Layer pruning: which blocks can be left out? The whole model is the start of every way to prune it."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from vestige.report import curves, default, notes
from vestige.report.reading import Part, Reading
from vestige.report.types import Page
from vestige.report.wording import capital, listing

_WAYS = ("top", "bottom")


def page(reading: Reading, analysis: str) -> Page:
    """The default page with the whole model on the curve of both ways, and a sentence on what each way costs."""
    rows = reading.results
    whole = (rows["analysis"] == analysis) & (rows["side"] == "all")
    both = pd.concat([*(rows[whole].assign(side=way) for way in _WAYS), rows[~whole]], ignore_index=True)
    return default.page(replace(reading, results=both), analysis, _pruned, "Which blocks can be left out?")


def _pruned(part: Part, model: str) -> Iterator[tuple[float, str]]:
    metric = curves.leading(part)
    frame = curves.curve_frame(part.rows, metric, metric.along[0])
    ways = {way: notes.points(frame, model, way) for way in _WAYS}
    whole = next((points.loc[0] for points in ways.values() if 0 in points.index), None)
    said = [
        f"without its {way} {notes.blocks(x)} {notes.level(metric, points.loc[x])}"
        for way, points in ways.items()
        for x in points.index
        if x > 0
    ]
    if whole is not None and said:
        yield 0.0, f"{capital(metric.title)} of {model} is {notes.level(metric, whole)} whole; {listing(said)}."
