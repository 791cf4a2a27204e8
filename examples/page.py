"""What the pages of the examples share: the tables they are written from, markdown tables, figures, claims."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import vl_convert

from examples.verdicts import Claim
from vestige.report.table_text import markdown_table
from vestige.report.types import Table
from vestige.report.wording import listing
from vestige.study.finished import StudyRun

RULE = (
    "*Agrees* needs a 95 % interval (or several) on the side that the paper names, *Differs* one on the other side, "
    "corrected for the number of tests that the claim takes; anything else, and any number without an interval, "
    "*Cannot be decided here*. A probe whose training depends on its seed and that was trained once gives a number "
    "and no interval."
)
"""How verdicts come about (`examples.verdicts`), for the reader of a page."""


@dataclass
class Page:
    """A README under construction, in the folder of its example."""

    folder: Path
    run: StudyRun
    parts: list[str] = field(default_factory=list)

    def text(self, *paragraphs: str) -> None:
        """Paragraphs of markdown."""
        self.parts += paragraphs

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
        """A pipe table under its caption."""
        self.parts += [f"**{caption}**"] if caption else []
        self.parts.append(markdown_table(Table("", head, rows)))

    def figure(self, chart: alt.Chart, name: str, caption: str) -> None:
        """A chart as a PNG beside the page."""
        image = self.folder / "images" / f"{name}.png"
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=1.5))
        self.parts.append(f"![{caption}](images/{name}.png)")

    def claims(self, claims: Sequence[Claim]) -> None:
        """What the paper says and what is seen here."""
        self.parts += ["## What the paper says, and what is seen here", RULE]
        self.parts.append("\n".join(f"- {claim.text()}" for claim in claims))

    def write(self, name: str) -> Path:
        """Put the page into place."""
        note = f"*Written by `python -m examples.{name}` from the tables in [results](results). Do not edit.*"
        target = self.folder / "README.md"
        target.write_text("\n\n".join([self.parts[0], note, *self.parts[1:]]) + "\n")
        return target


def command(place: str, build: Callable[[Page], None], items_of: Sequence[str] = ()) -> None:
    """`python -m examples.NAME [RUN]`: keep the tables of RUN beside the example; write its page from those kept."""
    folder = Path(place).parent
    if len(sys.argv) > 2:
        sys.exit(f"usage: python -m examples.{folder.name} [RUN]")
    if len(sys.argv) == 2:
        keep(StudyRun.open(sys.argv[1]), folder / "results", items_of)
    page = Page(folder, StudyRun.open(folder / "results"))
    build(page)
    page.write(folder.name)


def keep(run: StudyRun, target: Path, items_of: Sequence[str] = ()) -> None:
    """Copy the tables that a page is written from: those of the whole run, and the items of some analyses."""
    cells = run.tables.cells
    names = ["results", "comparisons", "cells", "neuron_changes"]
    names += [f"items/{cell}" for cell in cells[cells["analysis"].isin(items_of)]["cell"].unique()]
    for name in names:
        place = target / f"{name}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(run.tables.folder / place.relative_to(target)), place, compression="zstd")
    lock = (run.tables.folder / "study.lock.json").read_text()
    for name in ("VESTIGE_DATA", "VESTIGE_CACHE", "VESTIGE_SRE"):
        lock = lock.replace(os.environ.get(name) or f"${{{name}}}", f"${{{name}}}")
    (target / "study.lock.json").write_text(lock)


def pick(results: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows whose columns have these values; None: missing."""
    for name, value in where.items():
        results = results[results[name].isna()] if value is None else results[results[name] == value]
    return results


def one(results: pd.DataFrame, metric: str, column: str = "value", **where: Any) -> float:
    """The one number a metric has there, or the mean over runs; `column` low or high: that end of its interval."""
    rows = pick(results, metric=metric, **where)
    if rows.empty:
        raise LookupError(f"no {metric} where {where}")
    return float(rows[column].mean())


ENDS = ("value", "low", "high")
"""Columns of a number and its interval."""


def stands_out(row: Any) -> str:
    """A star for a change that is significant after correction."""
    return "*" if row.verdict in ("lower", "higher") else ""


LEARNT = 0.1
"""Matthews correlation on dev, where a constant answer has 0; or the share of questions answered exactly."""


def unlearnt(run: StudyRun, titles: Mapping[str, str]) -> list[str]:
    """Which tuned models are below `LEARNT`, in a paragraph; none where all are above."""
    told = {"dev_matthews": "a Matthews correlation of {:.1f} %", "dev_exact_match": "{:.1f} % of the answers exact"}
    found = []
    for name, title in titles.items():
        last = [copy["curve"][-1] for copy in run.tables.lock["models"][name]]
        for measure, words in told.items():
            if all(measure in scores for scores in last):
                mean = float(np.mean([scores[measure] for scores in last]))
                found += [f"{title} ({words.format(100 * mean)})"] if mean < LEARNT else []
    if not found:
        return []
    return [
        f"Tuned on {listing(found)}, a model is hardly better on dev than a constant answer, which has 0. What changes "
        "in such models need not be knowledge of the task."
    ]


def layer_lines(
    frame: pd.DataFrame, value: str, colours: Mapping[str, str], legend: str, *, height: int = 220, shared: bool = True
) -> alt.FacetChart:
    """Curves by layer: columns layer, value, curve (one of `colours`) and panel, in the order in which panels stand."""
    shown = [name for name in colours if name in set(frame["curve"])]
    curves = (
        alt.Chart(frame)
        .mark_line(point=True)
        .encode(
            alt.X("layer:Q").title("layer (0: embeddings)").axis(tickMinStep=1, format="d"),
            alt.Y("value:Q").title(value).scale(zero=False),
            alt.Color("curve:N", sort=shown, title=legend).scale(domain=shown, range=[colours[name] for name in shown]),
        )
        .properties(width=330, height=height)
    )
    panels = alt.Facet("panel:N", sort=list(frame["panel"].unique()), title=None)
    return curves.facet(facet=panels, columns=2).resolve_scale(y="shared" if shared else "independent")


def percent(share: float) -> str:
    """A share in percent, with two digits as the papers have it."""
    return f"{100 * share:.2f}"
