"""A page of a paper: markdown tables and figures made from the tables of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from vestige.papers.observed import Observed
from vestige.papers.verdicts import Claim
from vestige.report.table_text import markdown_table
from vestige.report.types import Table
from vestige.report.wording import listing

RULE = (
    "*Agrees* needs a 95 % interval (or several) on the side that the paper names, *Differs* one on the other side, "
    "corrected for the number of tests that the claim takes; anything else, and any number without an interval, "
    "*Cannot be told*. A probe whose training depends on its seed and that was trained once gives a number "
    "and no interval."
)
"""How verdicts come about (`vestige.papers.verdicts`), for the reader of a page."""

Columns = Mapping[str, Callable[..., str]]
"""By title, what stands in a column of a table: a function of the base model and of the key of the row."""


@dataclass
class Page:
    """A markdown page under construction, in the folder that it will lie in."""

    folder: Path
    parts: list[str] = field(default_factory=list)
    suffix: str = ""
    """Of the names of figures, while what is written is about one of several base models."""

    def text(self, *paragraphs: str) -> None:
        """Paragraphs of markdown."""
        self.parts += [paragraph for paragraph in paragraphs if paragraph]

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "", words: int = 1) -> None:
        """A pipe table under its caption; so many columns from the left are words."""
        self.parts += [f"**{caption}**"] if caption else []
        self.parts.append(markdown_table(Table("", head, rows, words=words)))

    def figure(self, chart: alt.TopLevelMixin, name: str, caption: str) -> None:
        """A chart as a PNG beside the page."""
        image = self.folder / "images" / f"{name}{self.suffix}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        image.write_bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=1.5))
        self.parts.append(f"![{caption}](images/{image.name})")

    def claims(self, statements: Sequence[Mapping[str, Claim]]) -> None:
        """What the paper says and what is seen here; of every statement the claims by base model."""
        lines = []
        for claims in statements:
            if len(claims) == 1:
                lines += [f"- {claim.text()}" for claim in claims.values()]
            else:
                lines.append(f"- *{next(iter(claims.values())).paper}*")
                lines += [f"  - {model}: {claim.judged()}" for model, claim in claims.items()]
        self.parts += ["## What the paper says, and what is seen here", RULE, "\n".join(lines)]

    def each(self, sides: Sequence[Observed], write: Callable[["Page", Observed], None]) -> None:
        """Something for every base model, under its name where there are several."""
        for side in sides:
            if len(sides) > 1:
                self.text(f"### {side.title}")
                self.suffix = f"_{side.title.lower()}"
            write(self, side)
            self.suffix = ""

    def write(self, name: str, note: str) -> Path:
        """Put the page into place; the note comes after its title."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n\n".join([self.parts[0], f"*{note}*", *self.parts[1:]]) + "\n", encoding="utf-8")
        return target


LEARNT = 0.1
"""Matthews correlation on dev, where a constant answer has 0; or the share of questions answered exactly."""


def tuned_models(page: Page, side: Observed, titles: Mapping[str, str]) -> None:
    """The scores of the tuned models on dev, and which of them have learnt next to nothing."""
    lines = []
    for role, title in titles.items():
        runs = [copy["curve"][-1] for copy in side.lock["models"].get(role, [])]
        measures = [name for name in runs[0] if name.startswith("dev_")] if runs else []
        told = [f"{name.removeprefix('dev_')} {spread([one[name] for one in runs])}" for name in measures]
        lines.append([title, "; ".join(told) or "not tuned"])
    most = max((len(side.lock["models"].get(role, [])) for role in titles), default=1)
    head = "on dev" if most == 1 else f"on dev: mean of {most} runs (their range)"
    page.table(["tuned on", head], lines, f"The tuned models ({side.title})")
    page.text(*unlearnt(side, titles))


def spread(values: Sequence[float]) -> str:
    """'81.2 (80.9 to 81.4)', in percent; of one run the number alone."""
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    return f"{100 * np.mean(values):.1f} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def unlearnt(side: Observed, titles: Mapping[str, str]) -> list[str]:
    """Which tuned models are below `LEARNT`, in a paragraph; none where all are above."""
    told = {"dev_matthews": "a Matthews correlation of {:.1f} %", "dev_exact_match": "{:.1f} % of the answers exact"}
    found = []
    for role, title in titles.items():
        last = [copy["curve"][-1] for copy in side.lock["models"].get(role, [])]
        for measure, words in told.items():
            if last and all(measure in scores for scores in last):
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


PALETTE = ("#ee6677", "#ccbb44", "#aa3377", "#4477aa", "#66ccee", "#228833")


def colours_of(titles: Mapping[str, str]) -> dict[str, str]:
    """By title of a tuned model its colour; the base is black."""
    return {"base": "#222222", **dict(zip(titles.values(), PALETTE, strict=False))}
