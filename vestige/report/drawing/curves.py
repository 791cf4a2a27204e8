"""Charts of curves along any axis, of changes with their intervals, and maps of two axes."""

import textwrap
from collections.abc import Collection, Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from vestige.analyses.metric import Axis, Metric
from vestige.report.drawing.parts import FURTHER, QUIET, VERDICTS, finish, legend, place_axis, tip
from vestige.report.numbers import axis_title, change_title, scale, text
from vestige.report.types import Figure

_VISIBLE = 0.3
"""A level line is drawn only where the curves still fill this share of the axis."""
_WORD = 72
"""Pixels of a column whose head is a word."""
_LINE = 42
"""Letters along a vertical axis."""
_ROOM = 0.02
"""Curves flatter than this share of their level are not stretched over the whole height."""


def curves_chart(
    frame: pd.DataFrame,
    metric: Metric,
    axis: Axis,
    description: str,
    levels: Mapping[str, float] | None = None,
    quiet: Collection[str] = (),
    what: str = "model",
) -> Figure:
    """Curves with bands (columns series, x, value, low, high), those of `quiet` in grey, and level lines by name."""
    frame, levels, sides = frame.copy(), levels or {}, ["value", "low", "high"]
    frame[sides] = frame[sides].astype(float) * scale(metric)
    names = list(frame["series"].drop_duplicates())
    own = iter([FURTHER[i % len(FURTHER)] for i in range(len(names))])
    order = [*names, *levels]
    colours = [QUIET if name in quiet or name in levels else next(own) for name in order]
    dashes = [[5, 3] if name in quiet else [2, 3] if name in levels else [1, 0] for name in order]
    above = legend(order, 4, 200, symbolType="stroke", symbolSize=180, symbolOpacity=1)
    colour = alt.Color("series:N", scale=alt.Scale(domain=order, range=colours), legend=above)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=order, range=dashes), legend=above)
    x, title, form = place_axis(frame["x"], axis.title), axis_title(metric), f".{metric.decimals}f"
    y = alt.Y("value:Q", title=wrapped(title), scale=alt.Scale(zero=False, nice=True, padding=8))
    base = alt.Chart(frame).encode(x=x, color=colour)
    seen = [tip("series:N", what), tip("x:Q", axis.title, "~g"), tip("value:Q", title, form)]
    parts = []
    if frame["low"].notna().any():
        parts.append(base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", title=wrapped(title)), y2="high:Q"))
        seen += [tip("low:Q", "from", form), tip("high:Q", "to", form)]
    parts.append(base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash))
    parts.append(base.mark_point(filled=True, size=42, opacity=1).encode(y=y, tooltip=seen))
    if levels:
        lines = pd.DataFrame({"series": list(levels), "value": [scale(metric) * one for one in levels.values()]})
        rule = alt.Chart(lines).mark_rule(strokeWidth=2)
        told = [tip("series:N", what), tip("value:Q", title, form)]
        parts.append(rule.encode(y=y, color=colour, strokeDash=dash, tooltip=told))
    return finish(alt.layer(*parts), 270, description)


def wrapped(title: str) -> list[str]:
    """The title of a vertical axis in lines that are no longer than the axis."""
    return textwrap.wrap(title, _LINE)


def fitting(frame: pd.DataFrame, levels: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Level lines that can share the axis without pressing the curves flat, and the rest."""
    values = frame[["value", "low", "high"]].to_numpy(dtype=float)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    extent = max(high - low, _ROOM * abs(high), 1e-9)
    shown: dict[str, float] = {}
    hidden: dict[str, float] = {}
    for name, value in levels.items():
        fits = extent / max(max(high, value) - min(low, value), 1e-9) >= _VISIBLE
        (shown if fits else hidden)[name] = value
    return shown, hidden


def change_chart(rows: pd.DataFrame, metric: Metric, axis: Axis, description: str, title: str = "") -> Figure:
    """Changes with intervals in the metric's unit, coloured by verdict; the margin of equivalence is shaded.

    Columns of `rows`: x, difference, low, high, q, verdict, margin.
    """
    frame = rows[["x", "difference", "low", "high", "q", "verdict"]].copy()
    sides = ["difference", "low", "high"]
    frame[sides] = frame[sides].astype(float) * scale(metric)
    margin = scale(metric) * float(rows["margin"].max())
    names = [name for name in VERDICTS if name in list(VERDICTS)[:4] or (frame["verdict"] == name).any()]
    above, named = legend(names, len(names)), change_title(metric)
    colours, shapes = ([VERDICTS[name][index] for name in names] for index in (0, 1))
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=names, range=colours), legend=above)
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=names, range=shapes), legend=above)
    band = alt.Chart(pd.DataFrame({"from": [-margin], "to": [margin]})).mark_rect(color=QUIET, opacity=0.18)
    zero = alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=QUIET, strokeWidth=1)
    base = alt.Chart(frame).encode(x=place_axis(frame["x"], axis.title), color=colour)
    reached = frame[sides].to_numpy(dtype=float)
    lowest, highest = min(np.nanmin(reached), -margin), max(np.nanmax(reached), margin)
    room, form = 0.06 * (highest - lowest), f"+.{metric.decimals + 1}f"
    fit = alt.Scale(domain=[lowest - room, highest + room], nice=False)
    seen = [tip("x:Q", axis.title, "~g"), tip("verdict:N", "verdict"), tip("difference:Q", "change", form)]
    seen += [tip("low:Q", "from", form), tip("high:Q", "to", form), tip("q:Q", "q", ".4f")]
    whiskers = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=named, scale=fit), y2="high:Q")
    marks = base.mark_point(filled=True, size=120, opacity=1).encode(
        y=alt.Y("difference:Q", title=named), shape=shape, tooltip=seen
    )
    shading = band.encode(y=alt.Y("from:Q", title=named), y2="to:Q")
    return finish(alt.layer(shading, zero.encode(y="zero:Q"), whiskers, marks), 270, description, title)


def map_chart(
    values: pd.DataFrame,
    metric: Metric,
    titles: tuple[str, str],
    description: str,
    title: str = "",
    across: Sequence[str] | None = None,
    down: Sequence[str] | None = None,
) -> Figure:
    """A square for every pair of places (columns x, y, value), its value written in it; `titles` of x and y.

    Places that are words are given in their order, from the left (`across`) and from the top (`down`).
    """
    frame = values.copy()
    frame["text"] = [text(metric, value) for value in frame["value"]]
    low, high = float(frame["value"].min()), float(frame["value"].max())
    frame["dark"] = frame["value"] > low + 0.55 * (high - low)
    plain = alt.Axis(labelAngle=0, ticks=False, domain=False)
    x = alt.X("x:O", title=titles[0] or None, axis=plain, **({} if across is None else {"sort": list(across)}))
    y = alt.Y("y:O", title=titles[1] or None, sort="descending" if down is None else list(down), axis=plain)
    colour = alt.Color(
        "value:Q", scale=alt.Scale(range=["#eef2f6", "#2c5078"], interpolate="lab", zero=False), legend=None
    )
    base = alt.Chart(frame).encode(x=x, y=y)
    seen = [tip("y:O", titles[1]), tip("x:O", titles[0]), tip("text:N", metric.title)]
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=colour, tooltip=seen)
    written = base.mark_text(fontSize=11).encode(
        text="text:N", color=alt.condition("datum.dark", alt.value("white"), alt.value("#30363d")), tooltip=seen
    )
    width = 120 + (40 if across is None else _WORD) * frame["x"].nunique()
    return finish(alt.layer(cells, written), {"step": 34}, description, title, width)
