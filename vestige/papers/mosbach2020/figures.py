"""The figures of the page."""

import altair as alt
import pandas as pd

from vestige.papers.lookup import pick
from vestige.papers.mosbach2020.changes import POOLINGS, PROBED, changes_of
from vestige.papers.mosbach2020.mechanisms import perplexities
from vestige.papers.observed import Observed

COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44"]
LAYER = alt.X("layer:Q").title("layer").axis(tickMinStep=1, format="d")


def base_accuracy(side: Observed) -> alt.FacetChart:
    """Figure 1: the base model's accuracy by layer, with both poolings."""
    changes = changes_of(side)
    records = [
        {"task": changes.title(*pair), "pooling": told, "layer": layer, "value": 100 * value}
        for pair in changes.pairs
        for pooling, told in reversed(POOLINGS.items())
        for layer, value in enumerate(changes.accuracy(*pair, "base", pooling))
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
    return _facets(chart, side)


def by_layer(side: Observed, pooling: str) -> alt.FacetChart:
    """Figures 4 and 5: differences by layer, dots where shown; with [CLS] also those from the base model's mean."""
    changes, records = changes_of(side), []
    for pair in changes.pairs:
        for tuned, told in changes.tuned.items():
            compared = [("line", changes.layers(*pair, tuned, pooling))]
            compared += [("mean", changes.beyond_mean(*pair, tuned))] if pooling == "cls" else []
            records += [
                {"task": changes.title(*pair), "tuned": told, "kind": kind, "layer": int(row.layer),
                 "value": 100 * row.difference, "shown": row.low > 0 or row.high < 0}
                for kind, table in compared
                for row in table.itertuples()
            ]  # fmt: skip
    colour = alt.Color("tuned:N", sort=list(changes.tuned.values()), title="tuned on").scale(range=COLOURS)
    value = alt.Y("value:Q").title("change (points)")
    both = alt.Chart(pd.DataFrame(records))
    line = both.transform_filter("datum.kind == 'line'").mark_line(strokeWidth=1.5).encode(LAYER, value, colour)
    dots = both.transform_filter("datum.kind == 'line' && datum.shown").mark_circle(size=60, opacity=1)
    stars = (
        both.transform_filter("datum.kind == 'mean'")
        .mark_point(shape="diamond", filled=True, opacity=0.6)
        .encode(LAYER, value, colour)
    )
    return _facets(alt.layer(line, dots.encode(LAYER, value, colour), stars), side)


def attention(side: Observed) -> alt.HConcatChart:
    """Figure 2: entropy, and distance from the base model's attention, by layer."""
    names = {"base": "base", "cola": "tuned by [CLS]", "cola_mean": "tuned by the mean"}
    found = pick(side.results, analysis="attention", head=None)
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
                    domain=list(names.values()), range=["#888888", *COLOURS[:2]]
                ),
            )
            .properties(width=330, height=220)
        )
    return alt.hconcat(*charts)


def perplexity(side: Observed) -> alt.HConcatChart:
    """Figure 3: during tuning, and with layers replaced."""
    table, parts = perplexities(side), []
    titles = list(table["model"].unique())
    for part, title in (("during", "training steps"), ("replaced", "last layers replaced")):
        base = alt.Chart(table[table["part"] == part]).encode(
            alt.X("x:Q").title(title).axis(tickMinStep=1, format="d"),
            alt.Color("model:N", title="tuned on").scale(domain=titles, range=COLOURS[: len(titles)]),
        )
        value = alt.Y("value:Q").title("perplexity").scale(type="log")
        band = base.mark_errorbar(extent="stdev").encode(value)
        line = base.mark_line(point=True).encode(alt.Y("mean(value):Q").title("perplexity").scale(type="log"))
        parts.append(alt.layer(line, band).properties(width=330, height=220))
    return alt.hconcat(*parts)


def _facets(chart: alt.Chart | alt.LayerChart, side: Observed) -> alt.FacetChart:
    changes = changes_of(side)
    titles = [changes.title(*pair) for pair in changes.pairs]
    return (
        chart.properties(width=220, height=160)
        .facet(facet=alt.Facet("task:N", sort=titles, title=None), columns=len(PROBED))
        .resolve_scale(y="independent")
    )
