"""The figures of the page and their tables."""

import altair as alt
import pandas as pd

from vestige.papers.merchant2020_depth.claims import TASKS, measure_of, scores
from vestige.papers.observed import Observed
from vestige.papers.page import Page
from vestige.papers.paper import Paper, Sides


def freezing(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 3."""
    page.text("\u22121: nothing is frozen; 0: the embeddings; the largest number: the head alone learns.")
    page.each(sides, lambda page, side: _shown(page, side, "freezing", "frozen blocks"))


def truncation(page: Page, paper: Paper, sides: Sides) -> None:
    """Figure 4."""
    page.each(sides, lambda page, side: _shown(page, side, "truncation", "blocks kept"))


def _shown(page: Page, side: Observed, analysis: str, axis: str) -> None:
    found = scores(side, analysis)
    page.figure(_chart(found, axis), analysis, f"Score by the number of {axis}")
    tasks = {title: rows.set_index("x").sort_index() for title, rows in found.groupby("task", sort=False)}
    lines = [
        [str(x), *(_told(rows.loc[x]) if x in rows.index else "" for rows in tasks.values())]
        for x in sorted(found["x"].unique())
    ]
    majority = [f"{100 * rows['majority'].iloc[0]:.1f}" for rows in tasks.values()]
    head = ["blocks", *(f"{title}, {measure_of(side, analysis, title)}" for title in tasks)]
    page.table(head, [*lines, ["majority", *majority]])


def _told(row: pd.Series) -> str:
    return f"{100 * row['value']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"


def _chart(found: pd.DataFrame, title: str) -> alt.FacetChart:
    frame = found.copy()
    frame[["value", "low", "high"]] *= 100
    base = alt.Chart(frame).encode(alt.X("x:Q").title(title).axis(tickMinStep=1, format="d"))
    band = base.mark_area(opacity=0.2, color="#4477aa").encode(alt.Y("low:Q").title("score (%)"), alt.Y2("high:Q"))
    line = base.mark_line(point=True, color="#4477aa").encode(alt.Y("value:Q").scale(zero=False))
    order = [title for title in TASKS if title in set(frame["task"])]
    return (
        alt.layer(band, line)
        .properties(width=230, height=190)
        .facet(facet=alt.Facet("task:N", sort=order, title=None), columns=3)
        .resolve_scale(y="independent")
    )
