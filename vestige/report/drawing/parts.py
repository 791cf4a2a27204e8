"""What all charts share: colours, legends, the lines of a tooltip, the axis of layers, the frame of a figure.

Colours are safe for colour-blind readers (a test simulates three kinds of colour blindness): base grey-blue, tuned
orange; verdicts purple / green with a shape of their own, so that no meaning hangs on hue alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from vestige.report.types import Figure

BASE, TUNED, QUIET = "#4f7296", "#dd7a1e", "#8b939c"
FURTHER = (BASE, TUNED, "#774422", "#aa44ff", "#55bbff", "#ccaa77")
"""Where several models share a chart."""

PLACE_WIDTH = "containerSize()[0]"
"""Pixels of a chart's place, in an expression of Vega; outside of a page there is no such place."""
_LETTER, _MARK, _BESIDE = 6.6, 38, 70
"""Pixels of a letter of a legend, of its mark with what is left free, and of the axis and the menu beside a legend."""

VERDICTS = {
    "lower": ("#8e2d90", "triangle-down"),
    "higher": ("#00864a", "triangle-up"),
    "unchanged": ("#7f8994", "circle"),
    "undecided": ("#b58a1b", "diamond"),
    "described": ("#4f7296", "square"),
    "failed probe": ("#4f7296", "cross"),
}
"""Colour and shape of a change by its verdict."""


def legend(names: Sequence[str], columns: int = 4, width: int = 140, **look: Any) -> alt.Legend:
    """A legend above the chart, in as many of `columns` as have room; names of at most `width` pixels.

    It goes by the width of the chart's place, which is known before anything is laid out: `width` alone is that of the
    plot, which shrinks once the axis has its room, and a line that breaks then is cut off at the top. That `width` is
    named at all makes the legend follow when the page gets another width.
    """
    sizes = [_MARK + min(width, _LETTER * len(name)) for name in names] or [_MARK]
    columns = min(columns, len(sizes))
    line = sum(sizes) if len(sizes) == columns else columns * max(sizes)
    room = f"(width > 0 && isFinite({PLACE_WIDTH}) ? {PLACE_WIDTH} - {_BESIDE} : {line:.0f})"
    fitting = alt.ExprRef(
        f"{room} >= {line:.0f} ? {columns} : max(1, min({columns}, floor({room} / {max(sizes):.0f})))"
    )
    limit = alt.ExprRef(f"min({width}, {room} - {_MARK})")
    return alt.Legend(orient="top", title=None, columns=fitting, labelLimit=limit, columnPadding=14, **look)


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
