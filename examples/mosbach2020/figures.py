"""The figures of the page."""

from math import ceil

import altair as alt
import pandas as pd

from examples.mosbach2020.changes import CORPORA, PROBED, TUNED, Changes
from examples.page import pick
from vestige.study.finished import StudyRun

COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44"]
LAYER = alt.X("layer:Q").title("layer").axis(tickMinStep=1, format="d")
TITLES = [f"{name}, {title}" for title in CORPORA.values() for name in PROBED.values()]


def base_accuracy(changes: Changes) -> alt.FacetChart:
    """Figure 1: the base model's accuracy by layer, with both poolings."""
    records = [
        {"task": f"{name}, {title}", "pooling": told, "layer": layer, "value": 100 * value}
        for source, title in CORPORA.items()
        for probed, name in PROBED.items()
        for pooling, told in (("sentence_mean", "mean"), ("cls", "[CLS]"))
        for layer, value in enumerate(changes.accuracy(source, probed, "base", pooling))
    ]
    chart = (
        alt.Chart(pd.DataFrame(records))
        .mark_line(point=True, color=COLOURS[0])
        .encode(
            LAYER,
            alt.Y("value:Q").title("accuracy (%)").scale(zero=False),
            alt.StrokeDash("pooling:N", sort=["mean", "[CLS]"]),
        )
    )
    return _facets(chart)


def by_layer(changes: Changes, pooling: str) -> alt.FacetChart:
    """Figures 4 and 5: differences by layer, dots where shown; with [CLS] also those from the base model's mean."""
    records = []
    for source, title in CORPORA.items():
        for probed, name in PROBED.items():
            for tuned, told in TUNED.items():
                compared = [("line", changes.layers(source, probed, tuned, pooling))]
                compared += [("mean", changes.beyond_mean(source, probed, tuned))] if pooling == "cls" else []
                records += [
                    {"task": f"{name}, {title}", "tuned": told, "kind": kind, "layer": int(row.layer),
                     "value": 100 * row.difference, "shown": row.low > 0 or row.high < 0}
                    for kind, table in compared
                    for row in table.itertuples()
                ]  # fmt: skip
    colour = alt.Color("tuned:N", sort=list(TUNED.values()), title="tuned on").scale(range=COLOURS)
    value = alt.Y("value:Q").title("change (points)")
    both = alt.Chart(pd.DataFrame(records))
    line = both.transform_filter("datum.kind == 'line'").mark_line(strokeWidth=1.5).encode(LAYER, value, colour)
    dots = both.transform_filter("datum.kind == 'line' && datum.shown").mark_circle(size=60, opacity=1)
    stars = (
        both.transform_filter("datum.kind == 'mean'")
        .mark_point(shape="diamond", filled=True, opacity=0.6)
        .encode(LAYER, value, colour)
    )
    return _facets(alt.layer(line, dots.encode(LAYER, value, colour), stars))


def attention(run: StudyRun) -> alt.HConcatChart:
    """Figure 2: entropy, and distance from the base model's attention, by layer."""
    names = {"base": "base", "cola": "tuned by [CLS]", "cola_mean": "tuned by the mean"}
    found = pick(run.results, analysis="attention", head=None)
    charts = []
    for metric, title in (("entropy", "entropy (nats)"), ("emd", "earth mover's distance (tokens)")):
        rows = pick(found, metric=metric).astype({"layer": int, "value": float})
        frame = rows.groupby(["model", "layer"], as_index=False)["value"].mean()
        frame["model"] = frame["model"].map(names)
        charts.append(
            alt.Chart(frame)
            .mark_bar()
            .encode(
                alt.X("layer:O").axis(labelAngle=0),
                alt.Y("value:Q").title(title),
                alt.XOffset("model:N", sort=list(names.values())),
                alt.Color("model:N", sort=list(names.values()), title=None).scale(
                    domain=list(names.values()), range=["#888888", *COLOURS]
                ),
            )
            .properties(width=330, height=220)
        )
    return alt.hconcat(*charts)


def perplexities(run: StudyRun) -> pd.DataFrame:
    """Columns part (during, replaced), model, x (step, or layers replaced), value; a row per run."""
    found = pick(run.results, analysis="perplexity")
    records = []
    for name in ("cola", "sst2"):
        mine = pick(found, model=name)
        base = float(pick(mine, metric="reference_perplexity")["value"].iloc[0])
        records.append({"part": "during", "model": TUNED[name], "x": 0, "value": base})
        for during in sorted({model for model in found["model"] if model.startswith(f"{name}_during@")}):
            rows = pick(found, model=during, metric="perplexity", x=None)
            records += [_record("during", name, int(during.split("@")[1]), value) for value in rows["value"]]
        whole = pick(mine, metric="perplexity", x=None)
        records += [_record("during", name, _steps(run, name), value) for value in whole["value"]]
        for row in pick(mine, metric="perplexity", axis="last_replaced", subset="layers").itertuples():
            records.append(_record("replaced", name, int(row.x), row.value))
    return pd.DataFrame(records)


def _steps(run: StudyRun, name: str) -> int:
    """How many steps a model was tuned."""
    lock = run.tables.lock
    recipe, examples = lock["models"][name][0]["recipe"], lock["corpora"][name]["splits"]["train"]["sentences"]
    return ceil(examples / recipe["batch"]) * recipe["epochs"]


def _record(part: str, name: str, x: int, value: float) -> dict[str, object]:
    return {"part": part, "model": TUNED[name], "x": x, "value": float(value)}


def perplexity(run: StudyRun) -> alt.HConcatChart:
    """Figure 3: during tuning, and with layers replaced."""
    table = perplexities(run)
    parts = []
    for part, title in (("during", "training steps"), ("replaced", "last layers replaced")):
        base = alt.Chart(table[table["part"] == part]).encode(
            alt.X("x:Q").title(title).axis(tickMinStep=1, format="d"),
            alt.Color("model:N", title="tuned on").scale(domain=["CoLA", "SST-2"], range=COLOURS),
        )
        value = alt.Y("value:Q").title("perplexity").scale(type="log")
        band = base.mark_errorbar(extent="stdev").encode(value)
        line = base.mark_line(point=True).encode(alt.Y("mean(value):Q").title("perplexity").scale(type="log"))
        parts.append(alt.layer(line, band).properties(width=330, height=220))
    return alt.hconcat(*parts)


def _facets(chart: alt.Chart | alt.LayerChart) -> alt.FacetChart:
    return (
        chart.properties(width=220, height=160)
        .facet(facet=alt.Facet("task:N", sort=TITLES, title=None), columns=len(PROBED))
        .resolve_scale(y="independent")
    )
