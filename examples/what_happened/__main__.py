"""The page of this example: `python -m examples.what_happened RUN` keeps the tables of a run and writes it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd

from vestige.papers.keep import keep, open_run
from vestige.papers.lookup import pick, stands_out
from vestige.papers.observed import observe
from vestige.papers.page import Page, unlearnt
from vestige.papers.verdicts import Claim, Estimate, Part
from vestige.report.front import paragraphs, read_pages
from vestige.report.wording import listing
from vestige.study.finished import StudyRun

HERE = Path(__file__).parent
NOTE = "Written by `python -m examples.what_happened` from the tables in [results](results). Do not edit."

TUNED = {"sst2": "SST-2", "cola": "CoLA", "mrpc": "MRPC"}
MODELS = {**TUNED, "sre": "somebody else's fine-tune"}
PROPERTIES = {"part of speech": "xpos", "dependency relation": "deprel"}
PARTS = {"lost": "lost", "re_encoded": "re-encoded", "moved": "moved"}
COLOURS = {"lost": "#c2307f", "re-encoded": "#b58a1b", "moved": "#4f7296"}
UPPER = 4
"""The upper half of six blocks begins here."""


def build(page: Page, run: StudyRun) -> None:
    """The whole page."""
    _head(page, run)
    page.claims([{"MiniLM": claim} for claim in _claims(run)])
    page.text("## What became of what the base's probes no longer read")
    page.text(
        "A probe trained on the base is put on the tuned model and reads less. *Lost*: the tuned model's own probe "
        "does not read it either. *Re-encoded*: it does, but the base's probe does not even after a rotation, shift "
        "and scale. *Moved*: after that map the base's probe reads it again. The three add up to the drop. Means "
        "over runs, in points of accuracy on EWT; below 0, lost is a gain."
    )
    for name, task in PROPERTIES.items():
        page.figure(_bars(run, task), f"parts_{task}", f"Lost, re-encoded and moved by layer: {name}")
        _table(page, run, name, task)
    page.text(
        "\\* significant after correction (q at most 0.05 over layers, tasks and models), by a test over sentences and "
        "runs; *somebody else's fine-tune* is one checkpoint.",
        "## The answer for every model",
        "As the report of the run opens; a verdict or an interval of the analysis in brackets backs every clause.",
    )
    for model, said in paragraphs(read_pages(run.reading)):
        sentences = " ".join(f"{answer.text} ({name.replace('_', ' ')})" for answer, name in said)
        page.text(f"**{MODELS.get(model, model)}.** {sentences}")


def _head(page: Page, run: StudyRun) -> None:
    lock = run.tables.lock
    sizes = {title: lock["corpora"][name]["splits"]["train"]["sentences"] for name, title in TUNED.items()}
    words = lock["corpora"]["ewt"]["splits"]
    page.text(
        "# Lost, moved or re-encoded? What fine-tuning does to what probes read from MiniLM",
        "Durrani et al. 2021 report that fine-tuning loses linguistic knowledge in the upper layers. A probe that "
        "reads less can mean three things: the property is gone, it lies elsewhere in the layer, or it is written "
        "differently. Here MiniLM is tuned on SST-2, CoLA and MRPC, three runs each, beside sre-embedding-model, a "
        "fine-tune of it that somebody else made, and every drop is taken apart. The study file is "
        "[study.yaml](study.yaml).",
        "all-MiniLM-L6-v2 has six blocks and is itself tuned for sentence similarity; training sets are "
        + listing([f"{size:,} ({title})" for title, size in sizes.items()])
        + f" examples; probes read {words['train']['sentences']:,} sentences of EWT and are scored on "
        f"{words['test']['sentences']:,}. Nothing below is about BERT, RoBERTa or XLNet, which the paper studies.",
    )
    lines = []
    for name, title in TUNED.items():
        runs = lock["models"][name]
        measures = [key for key in runs[0]["curve"][-1] if key.startswith("dev_")]
        told = [f"{key.removeprefix('dev_')} {_spread([one['curve'][-1][key] for one in runs])}" for key in measures]
        lines.append([title, "; ".join(told)])
    page.table(["tuned on", "on dev: mean of three runs (their range)"], lines, "The tuned models")
    page.text(*unlearnt(observe(run)[0], TUNED))


def _spread(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def _parts(run: StudyRun, task: str, metric: str) -> pd.DataFrame:
    rows = pick(run.comparisons, analysis="probe_transfer", task=task, metric=metric)
    return rows.astype({"layer": int}).sort_values(["model", "layer"])


def _claims(run: StudyRun) -> Iterator[Claim]:
    """Durrani et al. 2021, section 4.1, under each of the three readings of 'lost'."""
    readings = {
        "lost": "linguistic knowledge is lost in the upper layers (the tuned model's own probe does not read it)",
        "re_encoded": "linguistic knowledge in the upper layers is re-encoded (its own probe reads it, the base's does "
        "not after a rotation)",
        "moved": "linguistic knowledge in the upper layers is moved (the base's probe reads it after a rotation)",
    }
    for metric, reading in readings.items():
        parts = [
            Part(f"{title}, {name}, layer {row.layer}", Estimate.of_row(pd.Series(row._asdict())), above=0.0)
            for name, task in PROPERTIES.items()
            for model, title in TUNED.items()
            for row in pick(_parts(run, task, metric), model=model).itertuples()
            if row.layer >= UPPER
        ]
        yield Claim(
            f"After fine-tuning, {reading}.", parts, lead="Points above 0 at layers 4 to 6", share=0.5,
            note="It agrees where at least half of the layers, properties and tasks do.",
        )  # fmt: skip


def _bars(run: StudyRun, task: str) -> alt.FacetChart:
    frame = pd.concat(_parts(run, task, metric).assign(part=title) for metric, title in PARTS.items())
    frame = frame.assign(points=100 * frame["difference"].astype(float), title=frame["model"].map(MODELS))
    frame = frame[["layer", "points", "part", "title"]]
    chart = alt.Chart(frame).mark_bar().encode(
        alt.X("layer:O").title("layer (0: embeddings)").axis(labelAngle=0),
        alt.Y("sum(points):Q").title("points"),
        alt.Color("part:N", sort=list(COLOURS)).scale(domain=list(COLOURS), range=list(COLOURS.values())).title(None),
        alt.Order("part:N"),
    )  # fmt: skip
    facets = alt.Facet("title:N", sort=list(MODELS.values()), title=None)
    return chart.properties(width=190, height=200).facet(facet=facets, columns=4)


def _table(page: Page, run: StudyRun, name: str, task: str) -> None:
    lines = []
    for model, title in MODELS.items():
        for metric, part in PARTS.items():
            rows = pick(_parts(run, task, metric), model=model)
            cells = [f"{100 * row.difference:+.1f}{stands_out(row)}" for row in rows.itertuples()]
            lines.append([title, part, *cells])
    layers = len(lines[0]) - 2
    page.table(["tuned on", "", *map(str, range(layers))], lines, f"{name.capitalize()}, by layer")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        keep(StudyRun.open(sys.argv[1]), HERE)
    page = Page(HERE)
    build(page, open_run(HERE))
    page.write("README.md", NOTE)
