"""The charts of layer probes: curves with quiet lines beside them, changes, the map of all changes, labels."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.report import numbers
from vestige.report.curves import part_frame
from vestige.report.drawing.curves import change_chart, curves_chart, fitting
from vestige.report.drawing.parts import BASE, QUIET, TUNED, VERDICTS, finish, legend, tip
from vestige.report.pages.layer_parts.group import Group, Measure
from vestige.report.types import Figure
from vestige.report.wording import listing

_CURVES = ["series", "x", "value", "low", "high"]


def curves(group: Group, measure: Measure) -> tuple[Figure, str]:
    """Curves with bands, random twins and baselines as quiet lines; with it, in words, those too far off to draw."""
    metric = measure.metric
    frame = part_frame(group.part, metric, LAYER).rename(columns={"model": "series"})[_CURVES]
    own = _compared(group, measure) if len(measure.changes) else frame[frame["series"].isin(group.models)]
    parts, off = [own], []
    for name in group.twins:
        twin = frame[frame["series"] == name]
        ends = {"lowest": twin["value"].min(), "highest": twin["value"].max()}
        if len(twin) and fitting(own, ends)[1]:
            low, high = (numbers.text(metric, end) for end in ends.values())
            off.append(f"{name} {low} %" if low == high else f"{name} {low} to {high} %")
        else:
            parts.append(twin)
    shown, hidden = fitting(own, measure.levels)
    off += [f"{name} {numbers.text(metric, value)} %" for name, value in hidden.items()]
    description = f"{group.title}: {metric.title} by layer"
    figure = curves_chart(pd.concat(parts), metric, LAYER, description, shown, group.twins)
    return figure, f"Off the axis: {listing(off)}." if off else ""


def _compared(group: Group, measure: Measure) -> pd.DataFrame:
    """Both sides of a comparison as curves: of the items that both models have."""
    sides = [
        measure.changes[["x", side, f"{side}_low", f"{side}_high"]].set_axis(["x", "value", "low", "high"], axis=1)
        for side in ("base", "tuned")
    ]
    return pd.concat([side.assign(series=name) for side, name in zip(sides, group.models, strict=True)])


def changes(group: Group) -> Figure:
    """Changes of accuracy with their intervals, the margin shaded."""
    metric = group.accuracy.metric
    return change_chart(group.accuracy.changes, metric, LAYER, f"{group.title}: change of {metric.title} by layer")


def heat_map(rows: pd.DataFrame, metric: Metric, description: str) -> Figure:
    """Changes by layer and line of the study (column `line`). Those that are shown stand out in bold."""
    frame = rows[["line", "layer", "difference", "verdict"]].copy()
    frame["text"] = [numbers.change(metric, value) for value in frame["difference"]]
    frame["difference"] *= numbers.scale(metric)
    frame["found"] = frame["verdict"].isin(["lower", "higher"])
    reach = max(1.0, float(frame["difference"].abs().max()))
    x = alt.X("layer:O", title=LAYER.title, axis=alt.Axis(labelAngle=0, ticks=False, domain=False))
    order = list(dict.fromkeys(frame["line"]))
    y = alt.Y("line:N", sort=order, title=None, axis=alt.Axis(labelLimit=190, ticks=False, domain=False))
    ends = [VERDICTS["lower"][0], "#f4f2f3", VERDICTS["higher"][0]]
    colour = alt.Color(
        "difference:Q",
        scale=alt.Scale(domain=[-reach, 0, reach], range=ends, interpolate="lab"),
        legend=alt.Legend(title="points", orient="right", gradientLength=90),
    )
    base = alt.Chart(frame).encode(x=x, y=y)
    seen = [tip("line:N", "what"), tip("layer:O", "layer"), tip("difference:Q", "change", "+.2f")]
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=colour, tooltip=[*seen, tip("verdict:N", "verdict")]
    )
    dark = alt.condition(f"abs(datum.difference) > {0.62 * reach}", alt.value("white"), alt.value("#30363d"))
    text = base.encode(text=alt.Text("text:N"), color=dark)
    found = text.transform_filter("datum.found").mark_text(fontSize=12, fontWeight="bold")
    other = text.transform_filter("!datum.found").mark_text(fontSize=11, opacity=0.75)
    width = 240 + 46 * (int(frame["layer"].max()) + 1)
    return finish(alt.layer(cells, found, other), {"step": 34}, description, width=width)


def label_chart(table: pd.DataFrame, metric: Metric, names: Sequence[str], description: str) -> Figure:
    """A metric of labels before and after: two dots and the way between them."""
    frame = table.assign(label=[f"{label}  ({int(n)})" for label, n in zip(table["label"], table["n"], strict=True)])
    frame[["base", "tuned", "difference"]] *= numbers.scale(metric)
    title, form = numbers.axis_title(metric), f".{metric.decimals}f"
    axis = alt.Axis(labelLimit=170, grid=True, ticks=False)
    y = alt.Y("label:N", sort=list(frame["label"]), title=None, axis=axis)
    long = frame.melt(["label", "n", "difference"], ["base", "tuned"], "side", "value")
    long["series"] = long["side"].map(dict(zip(("base", "tuned"), names, strict=True)))
    colour = alt.Color("series:N", scale=alt.Scale(domain=list(names), range=[BASE, TUNED]), legend=legend(names))
    x = alt.X("value:Q", title=title, scale=alt.Scale(zero=False, nice=False, padding=12))
    way = alt.Chart(frame).mark_rule(strokeWidth=3, opacity=0.45, color=QUIET)
    way = way.encode(y=y, x=alt.X("base:Q", title=title), x2="tuned:Q")
    seen = [tip("label:N", "label (n)"), tip("series:N", "model"), tip("value:Q", metric.title, form)]
    seen.append(tip("difference:Q", "change", f"+{form}"))
    dots = alt.Chart(long).mark_point(filled=True, size=80, opacity=1).encode(y=y, x=x, color=colour, tooltip=seen)
    return finish(alt.layer(way, dots), {"step": 24}, description)
