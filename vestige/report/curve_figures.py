"""Charts of curves over any axis, and maps of all pairs of layers."""

from collections.abc import Mapping

import altair as alt
import pandas as pd

from vestige.report.chart_parts import FURTHER, QUIET, Spec, finish, legend, tip
from vestige.report.curves import Curve
from vestige.report.wording import number


def curves_chart(
    frame: pd.DataFrame, curve: Curve, levels: Mapping[str, float], description: str, what: str = "model"
) -> Spec:
    """Curves with bands (columns series, x, value, low, high) and level lines by name; `what` a curve stands for."""
    frame = frame.copy()
    sides = ["value", "low", "high"]
    frame[sides] = frame[sides].astype(float) * (100 if curve.unit == "percent" else 1)
    names = list(frame["series"].drop_duplicates())
    colours = [FURTHER[i % len(FURTHER)] for i in range(len(names))]
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=[*names, *levels], range=[*colours, *[QUIET] * len(levels)]),
        legend=legend(4, 200, symbolType="stroke", symbolSize=180, symbolOpacity=1),
    )
    places = sorted(frame["x"].unique())
    x = alt.X(
        "x:Q",
        title=curve.along or "layer (0 = embeddings)",
        scale=alt.Scale(domain=[places[0], places[-1]], nice=False, padding=14),
        axis=alt.Axis(values=places, format="d", grid=False, labelOverlap=True),
    )
    y = alt.Y("value:Q", title=curve.title, scale=alt.Scale(zero=False, nice=True, padding=8))
    base = alt.Chart(frame).encode(x=x, color=colour)
    told = [tip("series:N", what), tip("x:Q", curve.along or "layer", "d")]
    told.append(tip("value:Q", curve.title, f".{curve.decimals}f"))
    parts = []
    if frame["low"].notna().any():
        parts.append(base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", title=curve.title), y2="high:Q"))
        told += [tip("low:Q", "from", f".{curve.decimals}f"), tip("high:Q", "to", f".{curve.decimals}f")]
    parts.append(base.mark_line(strokeWidth=2).encode(y=y))
    parts.append(base.mark_point(filled=True, size=42, opacity=1).encode(y=y, tooltip=told))
    if levels:
        lines = pd.DataFrame({"series": list(levels), "value": list(levels.values())})
        rule = alt.Chart(lines).mark_rule(strokeDash=[5, 4], strokeWidth=2)
        parts.append(rule.encode(y=y, color=colour, tooltip=[tip("series:N", what), tip("value:Q", curve.title)]))
    return finish(alt.layer(*parts), 270, description)


def pairs_map(pairs: pd.DataFrame, title: str, description: str) -> Spec:
    """A square a pair of layers (columns layer, layer2, value), its value written in it."""
    frame = pairs.astype({"layer": int, "layer2": int})
    frame["text"] = [number(value, 2) for value in frame["value"]]
    low, high = float(frame["value"].min()), float(frame["value"].max())
    frame["dark"] = frame["value"] > low + 0.55 * (high - low)
    plain = alt.Axis(labelAngle=0, ticks=False, domain=False)
    x = alt.X("layer2:O", title="layer of the reference", axis=plain)
    y = alt.Y("layer:O", title="layer", sort="descending", axis=plain)
    colour = alt.Color(
        "value:Q", scale=alt.Scale(range=["#eef2f6", "#2c5078"], interpolate="lab", zero=False), legend=None
    )
    base = alt.Chart(frame).encode(x=x, y=y)
    told = [tip("layer:O", "layer"), tip("layer2:O", "layer of the reference"), tip("value:Q", "value", ".3f")]
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=colour, tooltip=told)
    text = base.mark_text(fontSize=11).encode(
        text="text:N", color=alt.condition("datum.dark", alt.value("white"), alt.value("#30363d")), tooltip=told
    )
    return finish(alt.layer(cells, text), {"step": 34}, description, title)
