"""What all charts share: colours, legends, the lines of a tooltip, the frame of a specification.

Colours are safe for colour-blind readers: base grey-blue, tuned orange; verdicts magenta / green
with a shape of their own, so that no meaning hangs on hue alone.
"""

from typing import Any

import altair as alt

BASE, TUNED, QUIET = "#4f7296", "#dd7a1e", "#8b939c"
FURTHER = (BASE, TUNED, "#2a9d8f", "#a05195", "#7a7a2a", "#c2507a")
"""Where several models share a chart."""

Spec = dict[str, Any]


def legend(columns: int, width: int = 140, **look: Any) -> alt.Legend:
    """A legend above the chart that breaks its line where the chart is narrow; names of at most `width` pixels."""
    narrow = alt.ExprRef(f"width < 400 ? 2 : {columns}")
    return alt.Legend(orient="top", title=None, columns=narrow, labelLimit=width, columnPadding=14, **look)


def tip(field: str, title: str, form: str | None = None) -> alt.Tooltip:
    """One line of the box that opens over a mark."""
    return alt.Tooltip(field, title=title, format=form) if form else alt.Tooltip(field, title=title)


def finish(chart: alt.LayerChart, height: int | dict[str, int], description: str, title: str = "") -> Spec:
    """A plain dictionary that fills the width of its place; no address of a schema in it."""
    chart = chart.properties(width="container", height=height, description=description)
    if title:
        chart = chart.properties(title=alt.TitleParams(title, anchor="start", fontSize=13, fontWeight=500, offset=8))
    spec = chart.to_dict(validate=True)
    for name in ("$schema", "config"):
        spec.pop(name, None)
    return {**spec, "autosize": {"type": "fit-x", "contains": "padding"}}
