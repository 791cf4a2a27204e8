"""What the pages of the examples share: numbers out of a run's tables, markdown tables, figures, claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from vestige.report.markdown import markdown_table
from vestige.report.tables import Table
from vestige.report.wording import listing
from vestige.study.run import StudyRun

VERDICTS = {True: "agrees", False: "differs", None: "cannot be told"}


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, held against the numbers of a run."""

    paper: str
    agrees: bool | None
    here: str


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
        lines = [f"- *{claim.paper}* **{VERDICTS[claim.agrees].capitalize()}.** {claim.here}" for claim in claims]
        self.parts.append("\n".join(lines))

    def write(self, command: str) -> Path:
        """Put the page into place."""
        note = f"*Written by `{command}`; every number comes from the tables of the run. Do not edit: run it again.*"
        target = self.folder / "README.md"
        target.write_text("\n\n".join([self.parts[0], note, *self.parts[1:]]) + "\n")
        return target


def pick(results: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows whose columns have these values; None: missing."""
    for name, value in where.items():
        results = results[results[name].isna()] if value is None else results[results[name] == value]
    return results


def one(results: pd.DataFrame, metric: str, **where: Any) -> float:
    """The one number a metric has there, or the mean over runs."""
    rows = pick(results, metric=metric, **where)
    if rows.empty:
        raise LookupError(f"no {metric} where {where}")
    return float(rows["value"].mean())


def apart(ones: Sequence[float], others: Sequence[float]) -> bool | None:
    """Whether every run of one side is above every run of the other (True), below (False), or neither (None)."""
    return True if min(ones) > max(others) else False if max(ones) < min(others) else None


LEARNT = 0.1
"""Matthews correlation on dev; a constant answer has 0."""


def unlearnt(run: StudyRun, titles: Mapping[str, str]) -> list[str]:
    """Which tuned models hardly learnt their task, in a paragraph; none where all did."""
    found = []
    for name, title in titles.items():
        scores = [copy["curve"][-1].get("dev_matthews") for copy in run.tables.lock["models"][name]]
        if None not in scores and np.mean(scores) < LEARNT:
            found.append(f"{title} ({100 * np.mean(scores):.1f})")
    if not found:
        return []
    return [
        f"Tuning on {listing(found)} led nowhere: in brackets the Matthews correlation on dev, in percent, where "
        "a constant answer has 0. What changes in such models is not knowledge of a task."
    ]


def percent(share: float) -> str:
    """A share in percent, with two digits as the papers have it."""
    return f"{100 * share:.2f}"
