"""What all charts share: colours, legends, the lines of a tooltip, the axis of layers, the frame of a figure.

Colours are safe for colour-blind readers: base grey-blue, tuned orange; verdicts magenta / green
with a shape of their own, so that no meaning hangs on hue alone.
"""

from collections.abc import Iterable
from typing import Any

import altair as alt

from vestige.report.types import Figure

BASE, TUNED, QUIET = "#4f7296", "#dd7a1e", "#8b939c"
FURTHER = (BASE, TUNED, "#2a9d8f", "#a05195", "#7a7a2a", "#c2507a")
"""Where several models share a chart."""

VERDICTS = {
    "lower": ("#c2307f", "triangle-down"),
    "higher": ("#1f8a55", "triangle-up"),
    "unchanged": ("#7f8994", "circle"),
    "undecided": ("#b58a1b", "diamond"),
    "described": ("#4f7296", "square"),
    "failed probe": ("#4f7296", "cross"),
}
"""Colour and shape of a change by its verdict."""


def legend(columns: int, width: int = 140, **look: Any) -> alt.Legend:
    """A legend above the chart that breaks its line where the chart is narrow; names of at most `width` pixels."""
    narrow = alt.ExprRef(f"width < 400 ? 2 : {columns}")
    return alt.Legend(orient="top", title=None, columns=narrow, labelLimit=width, columnPadding=14, **look)


def tip(field: str, title: str, form: str | None = None) -> alt.Tooltip:
    """One line of the box that opens over a mark."""
    return alt.Tooltip(field, title=title, format=form) if form else alt.Tooltip(field, title=title)


TICK = ".4~g"
"""0.25 as it is: without a precision of its own, an axis rounds its ticks to the width of a step."""


def place_axis(places: Iterable[float], title: str, field: str = "x") -> alt.X:
    """The axis of layers, blocks, shares: a tick at every place that was measured."""
    ticks = sorted({float(place) for place in places})
    whole = all(place.is_integer() for place in ticks)
    return alt.X(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, padding=14),
        axis=alt.Axis(values=ticks, format="d" if whole else TICK, grid=False, labelOverlap=True),
    )


def finish(
    chart: alt.LayerChart, height: int | dict[str, int], description: str, title: str = "", width: int | None = None
) -> Figure:
    """A figure that fills the width of its place (`width`: but is no narrower)."""
    chart = chart.properties(width="container", height=height, description=description)
    if title:
        chart = chart.properties(title=alt.TitleParams(title, anchor="start", fontSize=13, fontWeight=500, offset=8))
    return Figure(chart, description, width)
