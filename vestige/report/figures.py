"""The charts of layers and labels as Vega-Lite specifications: plain dictionaries, drawn by the page."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from vestige.report.chart_parts import BASE, FURTHER, QUIET, TUNED, Spec, finish, legend, tip
from vestige.report.wording import VERDICTS, points

VERDICT_COLOURS = dict(zip(VERDICTS, ("#c2307f", "#1f8a55", "#7f8994", "#b58a1b", "#4f7296", "#4f7296"), strict=True))
VERDICT_SHAPES = dict(
    zip(VERDICTS, ("triangle-down", "triangle-up", "circle", "diamond", "square", "cross"), strict=True)
)
DASHES = {"model": [1, 0], "random twin": [5, 3], "word-type majority": [2, 3], "majority label": [1, 4]}
_VISIBLE = 0.3
"""A reference line is drawn only where the curves still fill this share of the axis."""


def curve_chart(
    curves: pd.DataFrame, references: Mapping[str, pd.DataFrame], title: str, description: str
) -> tuple[Spec, list[str]]:
    """Layer curves with bands, and quiet reference lines; with it the references too far off to draw.

    `curves`: layer, series, value, low, high (shares; low and high may be missing). `references`:
    by name, a frame of layer and value.
    """
    shown, hidden = _fitting(curves, references)
    models = list(dict.fromkeys(curves["series"]))
    colours = [*(FURTHER[i % len(FURTHER)] for i in range(len(models))), *[QUIET] * len(shown)]
    dashes = [*[DASHES["model"]] * len(models), *(DASHES.get(name, DASHES["random twin"]) for name in shown)]
    order = [*models, *shown]
    above = legend(5, symbolType="stroke", symbolSize=180, symbolOpacity=1)
    colour = alt.Color("series:N", scale=alt.Scale(domain=order, range=colours), legend=above)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=order, range=dashes), legend=above)
    frame = _in_points(pd.concat([curves, *(f.assign(series=name) for name, f in shown.items())], ignore_index=True))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, nice=True, padding=8))
    everything = alt.Chart(frame).encode(x=_layer_axis(frame), color=colour)
    own = frame[frame["series"].isin(models)]
    of_models = alt.Chart(own).encode(x=_layer_axis(frame), color=colour)
    parts = [everything.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash)]
    if own["low"].notna().any():
        parts.insert(0, of_models.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title=title), y2="high:Q"))
    told = [tip("series:N", "model"), tip("layer:Q", "layer", "d"), tip("value:Q", title, ".1f")]
    if own["low"].notna().any():
        told += [tip("low:Q", "from", ".1f"), tip("high:Q", "to", ".1f")]
    parts.append(of_models.mark_point(filled=True, size=42, opacity=1).encode(y=y, tooltip=told))
    return finish(alt.layer(*parts), 270, description), hidden


def change_chart(rows: pd.DataFrame, margin: float, description: str) -> Spec:
    """Change per layer in points, with intervals, coloured by verdict; the margin is shaded."""
    frame = rows[["layer", "difference", "low", "high", "q", "verdict"]].copy()
    frame[["difference", "low", "high"]] *= 100
    names = [name for name in VERDICTS if name in VERDICTS[:4] or (frame["verdict"] == name).any()]
    above = legend(len(names))
    colours, shapes = ([marks[name] for name in names] for marks in (VERDICT_COLOURS, VERDICT_SHAPES))
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=names, range=colours), legend=above)
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=names, range=shapes), legend=above)
    band = alt.Chart(pd.DataFrame({"from": [-100 * margin], "to": [100 * margin]})).mark_rect(color=QUIET, opacity=0.18)
    zero = alt.Chart(pd.DataFrame({"zero": [0]})).mark_rule(color=QUIET, strokeWidth=1)
    base = alt.Chart(frame).encode(x=_layer_axis(frame), color=colour)
    title = "change (points)"
    reached = frame[["low", "high", "difference"]].to_numpy(dtype=float)
    lowest, highest = min(np.nanmin(reached), -100 * margin), max(np.nanmax(reached), 100 * margin)
    room = 0.06 * (highest - lowest)
    scale = alt.Scale(domain=[lowest - room, highest + room], nice=False)
    told = [tip("layer:Q", "layer", "d"), tip("verdict:N", "verdict"), tip("difference:Q", "change", "+.2f")]
    told += [tip("low:Q", "from", "+.2f"), tip("high:Q", "to", "+.2f"), tip("q:Q", "q", ".4f")]
    whiskers = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title, scale=scale), y2="high:Q")
    marks = base.mark_point(filled=True, size=120, opacity=1).encode(
        y=alt.Y("difference:Q", title=title), shape=shape, tooltip=told
    )
    shading = band.encode(y=alt.Y("from:Q", title=title), y2="to:Q")
    return finish(alt.layer(shading, zero.encode(y="zero:Q"), whiskers, marks), 270, description)


def heat_map(rows: pd.DataFrame, description: str) -> Spec:
    """Change in points: rows of the study (column `row`) by layer. Changes that are found stand out in bold."""
    frame = rows[["row", "layer", "difference", "verdict"]].copy()
    frame["text"] = [points(value) for value in frame["difference"]]
    frame["difference"] *= 100
    frame["found"] = frame["verdict"].isin(["lower", "higher"])
    reach = max(1.0, float(frame["difference"].abs().max()))
    order = list(dict.fromkeys(frame["row"]))
    x = alt.X("layer:O", title="layer (0 = embeddings)", axis=alt.Axis(labelAngle=0, ticks=False, domain=False))
    y = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=190, ticks=False, domain=False))
    colour = alt.Color(
        "difference:Q",
        scale=alt.Scale(domain=[-reach, 0, reach], range=["#c2307f", "#f4f2f3", "#1f8a55"], interpolate="lab"),
        legend=alt.Legend(title="points", orient="right", gradientLength=90),
    )
    base = alt.Chart(frame).encode(x=x, y=y)
    told = [tip("row:N", "what"), tip("layer:O", "layer"), tip("difference:Q", "change", "+.2f")]
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=colour, tooltip=[*told, tip("verdict:N", "verdict")]
    )
    dark = f"abs(datum.difference) > {0.62 * reach}"
    text = base.encode(
        text=alt.Text("text:N"),
        color=alt.condition(dark, alt.value("white"), alt.value("#30363d")),
    )
    found = text.transform_filter("datum.found").mark_text(fontSize=12, fontWeight="bold")
    other = text.transform_filter("!datum.found").mark_text(fontSize=11, opacity=0.75)
    return finish(alt.layer(cells, found, other), {"step": 34}, description)


def label_chart(table: pd.DataFrame, names: Sequence[str], description: str) -> Spec:
    """F1 of labels before and after: two dots and the way between them."""
    frame = table.assign(label=[f"{label}  ({int(n)})" for label, n in zip(table["label"], table["n"], strict=True)])
    frame[["base", "tuned", "difference"]] *= 100
    order = list(frame["label"])
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=170, grid=True, ticks=False))
    long = frame.melt(["label", "n", "difference"], ["base", "tuned"], "side", "f1")
    long["series"] = long["side"].map({"base": names[0], "tuned": names[1]})
    colour = alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(names), range=[BASE, TUNED]),
        legend=legend(2),
    )
    x = alt.X("f1:Q", title="F1 (%)", scale=alt.Scale(zero=False, nice=False, padding=12))
    way = alt.Chart(frame).mark_rule(strokeWidth=3, opacity=0.45, color=QUIET)
    way = way.encode(y=y, x=alt.X("base:Q", title="F1 (%)"), x2="tuned:Q")
    told = [tip("label:N", "label (n)"), tip("series:N", "model"), tip("f1:Q", "F1", ".1f")]
    told.append(tip("difference:Q", "change", "+.1f"))
    dots = alt.Chart(long).mark_point(filled=True, size=80, opacity=1).encode(y=y, x=x, color=colour, tooltip=told)
    return finish(alt.layer(way, dots), {"step": 24}, description)


def training_chart(curve: pd.DataFrame, title: str, description: str) -> Spec:
    """One measure of the fine-tuning by epoch; columns epoch, value, run."""
    runs = list(dict.fromkeys(curve["run"]))
    x = alt.X(
        "epoch:Q",
        title="epoch",
        axis=alt.Axis(values=sorted(set(curve["epoch"])), format="d", grid=False, labelOverlap=True),
    )
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, nice=True))
    told = [tip("run:N", "run"), tip("epoch:Q", "epoch", "d"), tip("value:Q", title, ".3f")]
    base = alt.Chart(curve).encode(x=x, y=y, detail="run:N", tooltip=told)
    dots = base.mark_point(filled=True, size=50, opacity=1, color=TUNED)
    line = base.mark_line(strokeWidth=2, color=TUNED, opacity=1 if len(runs) == 1 else 0.6)
    return finish(alt.layer(line, dots), 200, description)


def _fitting(curves: pd.DataFrame, references: Mapping[str, pd.DataFrame]) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """References that can share the axis without pressing the curves flat, and the names of the rest."""
    values = pd.concat([curves["value"], curves["low"].dropna(), curves["high"].dropna()])
    low, high = float(values.min()), float(values.max())
    extent = max(high - low, 0.02)
    shown, hidden = {}, []
    for name, frame in references.items():
        total = max(high, frame["value"].max()) - min(low, frame["value"].min())
        if extent / max(total, 1e-9) >= _VISIBLE:
            shown[name] = frame
        else:
            hidden.append(name)
    return shown, hidden


def _in_points(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.copy()
    frame[["value", "low", "high"]] = frame[["value", "low", "high"]].astype(float) * 100
    return frame


def _layer_axis(frame: pd.DataFrame) -> alt.X:
    last = int(frame["layer"].max())
    return alt.X(
        "layer:Q",
        title="layer (0 = embeddings)",
        scale=alt.Scale(domain=[0, last], nice=False, padding=14),
        axis=alt.Axis(values=list(range(last + 1)), format="d", grid=False, labelOverlap=True),
    )
