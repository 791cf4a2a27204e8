"""The figures of the page."""

import altair as alt
import pandas as pd

from vestige.papers.durrani2020.claims import TIGHT, by_property, shares_of
from vestige.papers.lookup import one, pick
from vestige.papers.observed import Observed
from vestige.papers.page import Page
from vestige.papers.paper import Paper, Sides


def spread(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 1."""
    page.text("Figure 1: how the neurons of the minimal sets (within 0.5 points) spread over layers.")
    page.each(sides, _spread)


def _spread(page: Page, side: Observed) -> None:
    results = by_property(side)
    frames = []
    for name, rows in results.items():
        neurons = shares_of(rows) * pick(rows, metric="minimal_neurons", **TIGHT)["value"].astype(float).mean()
        frames.append(pd.DataFrame({"task": name, "layer": range(len(neurons)), "neurons": neurons}))
    chart = (
        alt.Chart(pd.concat(frames))
        .mark_bar(color="#4477aa")
        .encode(alt.X("layer:O").title("layer (0: embeddings)").axis(labelAngle=0), alt.Y("neurons:Q").title("neurons"))
        .properties(width=190, height=150)
        .facet(facet=alt.Facet("task:N", sort=list(results), title=None), columns=4)
        .resolve_scale(y="independent")
    )  # fmt: skip
    page.figure(chart, "spread", "Neurons of the minimal sets by layer, one panel a task")


def labels(page: Page, paper: Paper, sides: Sides) -> None:
    """Figures 2 to 5."""
    page.text(
        "Figures 2 to 5: neurons per label at the size of the minimal set (within 0.5 points), coloured by the layer "
        "that most of them are in. How many neurons serve one label alone and how many several (Figure 3):"
    )
    lines = []
    for side in sides:
        for name, found in by_property(side).items():
            exclusive, shared = (one(found, metric, **TIGHT) for metric in ("exclusive_neurons", "shared_neurons"))
            share = f"{100 * exclusive / (exclusive + shared):.0f} %"
            lines.append([side.title, name, f"{exclusive:.0f}", f"{shared:.0f}", share])
    page.table(["model", "", "of one label", "of several", "share of one label"], lines, words=2)
    page.each(sides, _label_charts)


def _label_charts(page: Page, side: Observed) -> None:
    for name, found in by_property(side).items():
        page.figure(_label_chart(found), f"labels_{name.lower()}", f"{name}: neurons per label")


def _label_chart(rows: pd.DataFrame) -> alt.Chart:
    """The forty labels with most neurons and the twenty with fewest, where there are more."""
    sizes, homes = (
        pick(rows, metric=metric, **TIGHT).groupby("label", sort=False)["value"].mean().astype(float)
        for metric in ("label_neurons", "dominant_layer")
    )
    sizes = sizes.sort_values(ascending=False, kind="stable")
    if len(sizes) > 60:
        sizes = pd.concat([sizes.head(40), sizes.tail(20)])
    frame = pd.DataFrame(
        {"label": sizes.index, "neurons": sizes.to_numpy(), "layer": homes.reindex(sizes.index).round().to_numpy()}
    )
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            alt.X("label:N", sort=None, title=None).axis(labelAngle=-60, labelLimit=90),
            alt.Y("neurons:Q").title("neurons"),
            alt.Color("layer:O").title("dominant layer").scale(scheme="viridis"),
        )
        .properties(width=900, height=160)
    )  # fmt: skip
