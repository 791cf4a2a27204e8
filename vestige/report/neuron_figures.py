"""The charts of the neuron analysis as Vega-Lite specifications, in the colours of the other charts."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from vestige.report.chart_parts import QUIET, Spec, finish, legend, tip
from vestige.report.wording import number

_SHAPES = ["circle", "diamond", "square", "triangle-up"]


def search_map(pairs: pd.DataFrame, description: str, title: str) -> Spec:
    """Scores over l1 and l2; the pair that was chosen has a frame.

    Columns: l1, l2, score, accuracy, top, bottom (shares), chosen (how many runs chose it).
    """
    frame = pairs.copy()
    frame["text"] = [number(100 * value, 1) for value in frame["score"]]
    reach = frame["score"].max() - frame["score"].min()
    frame["dark"] = frame["score"] > frame["score"].min() + 0.55 * reach
    columns = ["score", "accuracy", "top", "bottom"]
    frame[columns] *= 100
    for name in ("l1", "l2"):
        frame[f"{name}_name"] = [f"{value:g}" for value in frame[name]]
    across, down = (_steps(frame, name) for name in ("l1", "l2"))
    x = alt.X("l1_name:O", sort=across, title="l1", axis=alt.Axis(labelAngle=0, ticks=False, domain=False))
    y = alt.Y("l2_name:O", sort=down[::-1], title="l2", axis=alt.Axis(ticks=False, domain=False))
    colour = alt.Color(
        "score:Q",
        scale=alt.Scale(range=["#eef2f6", "#2c5078"], interpolate="lab", zero=False),
        legend=alt.Legend(title="score", orient="right", gradientLength=90, tickCount=4),
    )
    base = alt.Chart(frame).encode(x=x, y=y)
    told = [tip("l1_name:N", "l1"), tip("l2_name:N", "l2"), tip("score:Q", "score", ".1f")]
    told += [tip(f"{name}:Q", title, ".1f") for name, title in zip(columns[1:], _TITLES, strict=True)]
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=colour, tooltip=told)
    text = base.encode(
        text="text:N", color=alt.condition("datum.dark", alt.value("white"), alt.value("#30363d")), tooltip=told
    )
    parts = [cells]
    parts.append(base.transform_filter("datum.chosen > 0").mark_rect(filled=False, stroke="#dd7a1e", strokeWidth=4))
    parts.append(text.transform_filter("datum.chosen == 0").mark_text(fontSize=11))
    parts.append(text.transform_filter("datum.chosen > 0").mark_text(fontSize=12, fontWeight="bold"))
    return finish(alt.layer(*parts), {"step": 30}, description, title)


_TITLES = ("dev accuracy", "top neurons only", "bottom neurons only")


def growing_chart(
    curve: pd.DataFrame, reached: pd.DataFrame, levels: pd.DataFrame, colours: Mapping[str, str], description: str
) -> Spec:
    """Dev accuracy of growing sets, the minimal sets marked, and the levels they had to reach.

    `curve`: model, run, neurons, value; `reached`: model, run, neurons, value, set; `levels`: model, set, value.
    """
    curve, reached, levels = (frame.assign(value=100 * frame["value"]) for frame in (curve, reached, levels))
    models = [name for name in colours if name in set(curve["model"])]
    colour = alt.Color(
        "model:N",
        scale=alt.Scale(domain=models, range=[colours[name] for name in models]),
        legend=legend(4, symbolType="stroke", symbolSize=180),
    )
    x = alt.X("neurons:Q", title="neurons, best first", scale=alt.Scale(nice=False, padding=10), axis=_whole())
    y = alt.Y("value:Q", title="dev accuracy (%)", scale=alt.Scale(zero=False, padding=8))
    told = [tip("model:N", "model"), tip("run:N", "run"), tip("neurons:Q", "neurons", "d")]
    told.append(tip("value:Q", "dev accuracy", ".1f"))
    line = alt.Chart(curve).encode(x=x, y=y, color=colour, detail="run:N", tooltip=told)
    parts = [line.mark_line(strokeWidth=2), line.mark_point(filled=True, size=16, opacity=1)]
    if len(levels):
        rules = alt.Chart(levels).mark_rule(strokeDash=[4, 4], opacity=0.7)
        parts.insert(0, rules.encode(y=y, color=colour, tooltip=[tip("set:N", "level"), tip("value:Q", "%", ".1f")]))
    if len(reached):
        names = list(dict.fromkeys(reached["set"]))
        shape = alt.Shape(
            "set:N", scale=alt.Scale(domain=names, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))]),
            legend=legend(3, width=220, symbolFillColor=QUIET, symbolStrokeColor=QUIET),
        )  # fmt: skip
        dots = alt.Chart(reached).mark_point(filled=True, size=130, opacity=1)
        parts.append(dots.encode(x=x, y=y, color=colour, shape=shape, tooltip=[*told, tip("set:N", "set")]))
    return finish(alt.layer(*parts), 270, description)


def spread_chart(frame: pd.DataFrame, colours: Mapping[str, str], description: str) -> Spec:
    """Share of a selection in each layer, bars of models side by side, whiskers for the range of runs.

    Columns: model, layer, share, low, high (shares), neurons.
    """
    frame = frame.copy()
    frame[["share", "low", "high"]] *= 100
    models = list(dict.fromkeys(frame["model"]))
    colour = alt.Color(
        "model:N", scale=alt.Scale(domain=models, range=[colours[name] for name in models]), legend=legend(4)
    )
    base = alt.Chart(frame).encode(
        x=_layers(), xOffset=alt.XOffset("model:N", sort=models, scale=alt.Scale(paddingOuter=0.1))
    )
    title = "share of the set (%)"
    told = [tip("model:N", "model"), tip("layer:O", "layer"), tip("share:Q", "share", ".1f")]
    told += [tip("neurons:Q", "neurons", ".1f")]
    parts = [base.mark_bar().encode(y=alt.Y("share:Q", title=title), color=colour, tooltip=told)]
    if (frame["high"] > frame["low"]).any():
        parts.append(base.mark_rule(strokeWidth=1.5, color=QUIET).encode(y=alt.Y("low:Q", title=title), y2="high:Q"))
    return finish(alt.layer(*parts), 230, description)


def share_change_chart(frame: pd.DataFrame, description: str, title: str) -> Spec:
    """Change of the share in each layer in points, with its interval; columns layer, value, low, high."""
    frame = frame.copy()
    frame[["value", "low", "high"]] *= 100
    base = alt.Chart(frame).encode(x=_layers())
    axis = "change of the share (points)"
    told = [tip("layer:O", "layer"), tip("value:Q", "change", "+.1f")]
    if frame["low"].notna().any():
        told += [tip("low:Q", "from", "+.1f"), tip("high:Q", "to", "+.1f")]
    side = alt.condition("datum.value < 0", alt.value("#c2307f"), alt.value("#1f8a55"))
    parts = [base.mark_bar(size=16).encode(y=alt.Y("value:Q", title=axis), color=side, tooltip=told)]
    if frame["low"].notna().any():
        parts.append(base.mark_rule(strokeWidth=2, color=QUIET).encode(y=alt.Y("low:Q", title=axis), y2="high:Q"))
    return finish(alt.layer(*parts), 230, description, title)


def label_size_chart(frame: pd.DataFrame, colours: Mapping[str, str], order: Sequence[str], description: str) -> Spec:
    """Neurons of every label; columns model, label, value."""
    x = alt.X("value:Q", title="neurons of the label", scale=alt.Scale(zero=True, nice=True), axis=_whole())
    return _by_label(frame, colours, order, x, tip("value:Q", "neurons", ".1f"), description)


def label_layer_chart(
    frame: pd.DataFrame, colours: Mapping[str, str], order: Sequence[str], layers: int, description: str
) -> Spec:
    """The layer that holds most neurons of every label; columns model, label, run, value."""
    axis = alt.Axis(values=list(range(layers)), format="d", grid=True, labelOverlap=True)
    title = "layer with most of them (0 = embeddings)"
    x = alt.X("value:Q", title=title, scale=alt.Scale(domain=[0, layers - 1], nice=False, padding=12), axis=axis)
    return _by_label(frame, colours, order, x, tip("value:Q", "layer", "d"), description)


def agreement_chart(frame: pd.DataFrame, rankers: Mapping[str, str], description: str, title: str) -> Spec:
    """Share of neurons that two rankings have in common among their first; columns ranker, share, value."""
    frame = frame.assign(share=100 * frame["share"], value=100 * frame["value"])
    colour = alt.Color(
        "ranker:N",
        scale=alt.Scale(domain=list(rankers), range=list(rankers.values())),
        legend=legend(4, symbolType="stroke", symbolSize=180),
    )
    x = alt.X("share:Q", title="first neurons of the rankings (%)", scale=alt.Scale(nice=False, padding=12))
    y = alt.Y("value:Q", title="in common (%)", scale=alt.Scale(domain=[0, 100]))
    told = [tip("ranker:N", "ranker"), tip("share:Q", "first (%)", ".3g"), tip("value:Q", "in common", ".1f")]
    base = alt.Chart(frame).encode(x=x, y=y, color=colour, tooltip=told)
    chance = alt.Chart(pd.DataFrame({"share": [0, frame["share"].max()], "value": [0, frame["share"].max()]}))
    parts = [chance.mark_line(strokeDash=[2, 3], color=QUIET).encode(x=x, y=y)]
    parts += [base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=42, opacity=1)]
    return finish(alt.layer(*parts), 230, description, title)


def cluster_chart(frame: pd.DataFrame, colours: Mapping[str, str], description: str) -> Spec:
    """How many clusters of neurons remain, by the correlation that joins them; columns model, x, value."""
    models = [name for name in colours if name in set(frame["model"])]
    colour = alt.Color(
        "model:N",
        scale=alt.Scale(domain=models, range=[colours[name] for name in models]),
        legend=legend(4, symbolType="stroke", symbolSize=180),
    )
    x = alt.X("x:Q", title="joined from a correlation of", scale=alt.Scale(zero=False, nice=False, padding=14))
    y = alt.Y("value:Q", title="clusters", scale=alt.Scale(zero=True), axis=_whole())
    told = [tip("model:N", "model"), tip("x:Q", "correlation", ".2f"), tip("value:Q", "clusters", ".0f")]
    base = alt.Chart(frame).encode(x=x, y=y, color=colour, tooltip=told)
    return finish(
        alt.layer(base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=42, opacity=1)), 230, description
    )


def _by_label(
    frame: pd.DataFrame,
    colours: Mapping[str, str],
    order: Sequence[str],
    x: alt.X,
    value: alt.Tooltip,
    description: str,
) -> Spec:
    """A row per label, a dot per model, one above the other."""
    models = [name for name in colours if name in set(frame["model"])]
    colour = alt.Color(
        "model:N", scale=alt.Scale(domain=models, range=[colours[name] for name in models]), legend=legend(4)
    )
    y = alt.Y("label:N", sort=list(order), title=None, axis=alt.Axis(labelLimit=150, grid=True, ticks=False))
    dots = alt.Chart(frame).mark_point(filled=True, size=60, opacity=1)
    told = [tip("label:N", "label"), tip("model:N", "model"), value]
    offset = alt.YOffset("model:N", sort=models)
    chart = dots.encode(x=x, y=y, yOffset=offset, color=colour, tooltip=told)
    return finish(alt.layer(chart), {"step": 9 if len(models) > 1 else 20}, description)


def _layers() -> alt.X:
    return alt.X("layer:O", title="layer (0 = embeddings)", axis=alt.Axis(labelAngle=0, ticks=False))


def _whole() -> alt.Axis:
    return alt.Axis(format=",d", tickMinStep=1, tickCount=8, labelOverlap=True)


def _steps(frame: pd.DataFrame, name: str) -> list[str]:
    return [f"{value:g}" for value in sorted(set(frame[name]))]
