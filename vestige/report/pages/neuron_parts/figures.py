"""The charts of the neuron analyses, in the colours of the other charts."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from vestige.report.drawing.parts import FURTHER, QUIET, VERDICTS, finish, legend, tip
from vestige.report.pages.neuron_parts.rows import NeuronTask
from vestige.report.types import Figure
from vestige.report.wording import number

_SHAPES = ["circle", "diamond", "square", "triangle-up"]
_STROKE = {"symbolType": "stroke", "symbolSize": 180}


def colours_of(task: NeuronTask) -> dict[str, str]:
    """A colour for every model; random twins are quiet."""
    colours = {name: FURTHER[i % len(FURTHER)] for i, name in enumerate(task.models)}
    return colours | dict.fromkeys(task.twins, QUIET)


def search_map(pairs: pd.DataFrame, description: str, title: str) -> Figure:
    """Scores over l1 and l2; the pair that was chosen has a frame.

    Columns: l1, l2, score, accuracy, top, bottom (shares), chosen (how many runs chose it).
    """
    titles = {"score": "score", "accuracy": "dev accuracy", "top": "top neurons only", "bottom": "bottom neurons only"}
    frame = pairs.copy()
    frame[list(titles)] *= 100
    lowest, highest = frame["score"].min(), frame["score"].max()
    frame["text"] = [number(value, 1) for value in frame["score"]]
    frame["dark"] = frame["score"] > lowest + 0.55 * (highest - lowest)
    for name in ("l1", "l2"):
        frame[f"{name}_name"] = [f"{value:g}" for value in frame[name]]
    across, down = ([f"{value:g}" for value in sorted(set(frame[name]))] for name in ("l1", "l2"))
    x = alt.X("l1_name:O", sort=across, title="l1", axis=alt.Axis(labelAngle=0, ticks=False, domain=False))
    y = alt.Y("l2_name:O", sort=down[::-1], title="l2", axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color(
        "score:Q",
        scale=alt.Scale(range=["#eef2f6", "#2c5078"], interpolate="lab", zero=False),
        legend=alt.Legend(title="score", orient="right", gradientLength=90, tickCount=4),
    )
    tips = [tip("l1_name:N", "l1"), tip("l2_name:N", "l2")]
    tips += [tip(f"{name}:Q", shown, ".1f") for name, shown in titles.items()]
    base = alt.Chart(frame).encode(x=x, y=y)
    text = base.encode(
        text="text:N", color=alt.condition("datum.dark", alt.value("white"), alt.value("#30363d")), tooltip=tips
    )
    parts = [
        base.mark_rect(stroke="white", strokeWidth=2).encode(color=colour, tooltip=tips),
        base.transform_filter("datum.chosen > 0").mark_rect(filled=False, stroke=FURTHER[1], strokeWidth=4),
        text.transform_filter("datum.chosen == 0").mark_text(fontSize=11),
        text.transform_filter("datum.chosen > 0").mark_text(fontSize=12, fontWeight="bold"),
    ]
    return finish(alt.layer(*parts), {"step": 30}, description, title)


def growing_chart(
    curve: pd.DataFrame, reached: pd.DataFrame, levels: pd.DataFrame, colours: Mapping[str, str], description: str
) -> Figure:
    """Dev accuracy of growing sets, the minimal sets marked, and the levels they had to reach.

    `curve`: model, run, neurons, value; `reached`: model, run, neurons, value, set; `levels`: model, set, value.
    """
    curve, reached, levels = (frame.assign(value=100 * frame["value"]) for frame in (curve, reached, levels))
    colour = _colour("model", curve, colours, **_STROKE)
    x = alt.X("neurons:Q", title="neurons, best first", scale=alt.Scale(nice=False, padding=10), axis=_whole())
    y = alt.Y("value:Q", title="dev accuracy (%)", scale=alt.Scale(zero=False, padding=8))
    tips = [tip("model:N", "model"), tip("run:N", "run"), tip("neurons:Q", "neurons", "d")]
    tips.append(tip("value:Q", "dev accuracy", ".1f"))
    line = alt.Chart(curve).encode(x=x, y=y, color=colour, detail="run:N", tooltip=tips)
    parts = [line.mark_line(strokeWidth=2), line.mark_point(filled=True, size=16, opacity=1)]
    if len(levels):
        rules = alt.Chart(levels).mark_rule(strokeDash=[4, 4], opacity=0.7)
        parts.insert(0, rules.encode(y=y, color=colour, tooltip=[tip("set:N", "level"), tip("value:Q", "%", ".1f")]))
    if len(reached):
        names = list(dict.fromkeys(reached["set"]))
        shape = alt.Shape(
            "set:N",
            scale=alt.Scale(domain=names, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))]),
            legend=legend(names, 3, 220, symbolFillColor=QUIET, symbolStrokeColor=QUIET),
        )
        dots = alt.Chart(reached).mark_point(filled=True, size=130, opacity=1)
        parts.append(dots.encode(x=x, y=y, color=colour, shape=shape, tooltip=[*tips, tip("set:N", "set")]))
    return finish(alt.layer(*parts), 270, description)


def spread_chart(frame: pd.DataFrame, colours: Mapping[str, str], description: str) -> Figure:
    """Share of a selection in each layer, bars of models side by side, whiskers for the range of runs.

    Columns: model, layer, share, low, high (shares), neurons.
    """
    frame = frame.assign(**{name: 100 * frame[name] for name in ("share", "low", "high")})
    models = list(dict.fromkeys(frame["model"]))
    offset = alt.XOffset("model:N", sort=models, scale=alt.Scale(paddingOuter=0.1))
    tips = [tip("model:N", "model"), tip("layer:O", "layer"), tip("share:Q", "share", ".1f")]
    bars = {"color": _colour("model", frame, colours), "tooltip": [*tips, tip("neurons:Q", "neurons", ".1f")]}
    whiskers = bool((frame["high"] > frame["low"]).any())
    parts = _bars(alt.Chart(frame).encode(xOffset=offset), "share", "share of the set (%)", bars, {}, whiskers)
    return finish(parts, 230, description)


def share_change_chart(frame: pd.DataFrame, description: str, title: str) -> Figure:
    """Change of the share in each layer in points, with its interval; columns layer, value, low, high."""
    frame = frame.assign(**{name: 100 * frame[name] for name in ("value", "low", "high")})
    tips = [tip("layer:O", "layer"), tip("value:Q", "change", "+.1f")]
    sure = bool(frame["low"].notna().any())
    tips += [tip("low:Q", "from", "+.1f"), tip("high:Q", "to", "+.1f")] * sure
    lower, higher = (alt.value(VERDICTS[verdict][0]) for verdict in ("lower", "higher"))
    bars = {"color": alt.condition("datum.value < 0", lower, higher), "tooltip": tips}
    parts = _bars(alt.Chart(frame), "value", "change of the share (points)", bars, {"size": 16}, sure)
    return finish(parts, 230, description, title)


def label_size_chart(frame: pd.DataFrame, colours: Mapping[str, str], order: Sequence[str], about: str) -> Figure:
    """Neurons of every label; columns model, label, value."""
    x = alt.X("value:Q", title="neurons of the label", scale=alt.Scale(zero=True, nice=True), axis=_whole())
    return _by_label(frame, colours, order, x, tip("value:Q", "neurons", ".1f"), about)


def label_layer_chart(
    frame: pd.DataFrame, colours: Mapping[str, str], order: Sequence[str], layers: int, about: str
) -> Figure:
    """The layer that holds most neurons of every label; columns model, label, run, value."""
    axis = alt.Axis(values=list(range(layers)), format="d", grid=True, labelOverlap=True)
    scale = alt.Scale(domain=[0, layers - 1], nice=False, padding=12)
    x = alt.X("value:Q", title="layer with most of them (0 = embeddings)", scale=scale, axis=axis)
    return _by_label(frame, colours, order, x, tip("value:Q", "layer", "d"), about)


def _by_label(
    frame: pd.DataFrame, colours: Mapping[str, str], order: Sequence[str], x: alt.X, value: alt.Tooltip, about: str
) -> Figure:
    """A row per label, a dot per model, one above the other."""
    models = [name for name in colours if name in set(frame["model"])]
    y = alt.Y("label:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=150, grid=True, ticks=False))
    chart = alt.Chart(frame).mark_point(filled=True, size=60, opacity=1)
    chart = chart.encode(
        x=x,
        y=y,
        yOffset=alt.YOffset("model:N", sort=models),
        color=_colour("model", frame, colours),
        tooltip=[tip("label:N", "label"), tip("model:N", "model"), value],
    )
    return finish(alt.layer(chart), {"step": 9 if len(models) > 1 else 20}, about)


def agreement_chart(frame: pd.DataFrame, colours: Mapping[str, str], description: str, title: str) -> Figure:
    """Share of neurons that two rankings have in common among their first; columns ranker, share, value."""
    frame = frame.assign(share=100 * frame["share"], value=100 * frame["value"])
    x = alt.X("share:Q", title="first neurons of the rankings (%)", scale=alt.Scale(nice=False, padding=12))
    y = alt.Y("value:Q", title="in common (%)", scale=alt.Scale(domain=[0, 100]))
    tips = [tip("ranker:N", "ranker"), tip("share:Q", "first (%)", ".3g"), tip("value:Q", "in common", ".1f")]
    base = alt.Chart(frame).encode(x=x, y=y, color=_colour("ranker", frame, colours, **_STROKE), tooltip=tips)
    chance = alt.Chart(pd.DataFrame({"share": [0, frame["share"].max()], "value": [0, frame["share"].max()]}))
    parts = [chance.mark_line(strokeDash=[2, 3], color=QUIET).encode(x=x, y=y), base.mark_line(strokeWidth=2)]
    return finish(alt.layer(*parts, base.mark_point(filled=True, size=42, opacity=1)), 230, description, title)


def _bars(
    base: alt.Chart, field: str, title: str, encoding: Mapping[str, Any], look: Mapping[str, Any], whiskers: bool
) -> alt.LayerChart:
    """A bar for every layer; whiskers from `low` to `high` where there are any."""
    base = base.encode(x=alt.X("layer:O", title="layer (0 = embeddings)", axis=alt.Axis(labelAngle=0, ticks=False)))
    parts = [base.mark_bar(**look).encode(y=alt.Y(f"{field}:Q", title=title), **encoding)]
    if whiskers:
        rules = base.mark_rule(strokeWidth=2, color=QUIET)
        parts.append(rules.encode(y=alt.Y("low:Q", title=title), y2="high:Q"))
    return alt.layer(*parts)


def _colour(field: str, frame: pd.DataFrame, colours: Mapping[str, str], **look: Any) -> alt.Color:
    """The colours of what the frame has, in their order."""
    names = [name for name in colours if name in set(frame[field])]
    scale = alt.Scale(domain=names, range=[colours[name] for name in names])
    return alt.Color(f"{field}:N", scale=scale, legend=legend(names, **look))


def _whole() -> alt.Axis:
    return alt.Axis(format=",d", tickMinStep=1, tickCount=8, labelOverlap=True)
