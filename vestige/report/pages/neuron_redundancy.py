"""Redundancy: how many clusters of correlated neurons there are, and what one neuron of each can do."""

from typing import Any

import pandas as pd

from vestige.report.pages.neuron_parts import tables
from vestige.report.pages.neuron_parts.curves import curve_figures
from vestige.report.pages.neuron_parts.findings import neuron_findings
from vestige.report.pages.neuron_parts.rows import ALL, NeuronTask, counted, percent
from vestige.report.pages.neuron_parts.stability import limits, stability_block, stable
from vestige.report.reading import Reading
from vestige.report.types import Block, Folded, Page, Section, Table
from vestige.report.wording import DASH, count

TITLE = "Neurons: redundancy"


def page(reading: Reading, analysis: str) -> Page:
    """Per task and setting: clusters, their representatives, and how sure the ranking is that chose these."""
    tasks = [NeuronTask.of(reading, part, TITLE) for part in reading.parts(analysis)]
    lede = "Neurons that repeat each other are joined into clusters; one neuron stands for each."
    found = Page(TITLE, lede, limits=limits(tasks))
    for task in tasks:
        said = [*neuron_findings(task, reading.judging), *stable(task)]
        made = (cluster_block(task), stability_block(task))
        found.sections.append(Section(task.part.title, task.part.name, said, [block for block in made if block]))
    return found


def cluster_block(task: NeuronTask) -> Block:
    """Clusters over all layers and within each, and the accuracy of their representatives."""
    made = [(model, _representatives(task, model)) for model in task.with_twins]
    within = [(model, _within_layers(task, model)) for model in task.with_twins]
    return Block(
        "Neurons that repeat each other",
        "Neurons whose activations correlate at least so strongly, with either sign, are joined into one cluster: "
        "the fewer clusters, the more neurons repeat others. The best-ranked neuron of each cluster represents it; "
        f"accuracy in percent on {task.scored}.",
        figures=curve_figures(task.part),
        tables=[
            *(Table(model if len(made) > 1 else "", _HEAD, rows) for model, rows in made),
            *tables.compared_tables(task),
        ],
        folded=[Folded(f"Within each layer of {model}", tables=[table]) for model, table in within if table.rows],
    )


_HEAD = ["joined from", "clusters", "of several layers", "accuracy of representatives", "minimal set"]


def _representatives(task: NeuronTask, model: str) -> list[list[str]]:
    """What probes reach on one neuron of every cluster, and the minimal set among these."""
    whole = task.measure("accuracy", model, ALL)
    rows = [["all neurons", DASH, DASH, percent(whole), _minimal(task, model, None)]]
    for x in sorted(task.select("accuracy", model, subset="representatives")["x"].unique(), reverse=True):
        names = ("clusters", "clusters_over_layers")
        sizes = [task.measure(name, model, axis="correlation", x=x, layer=None) for name in names]
        reached = percent(task.measure("accuracy", model, subset="representatives", x=x))
        rows.append([f"correlation {x:g}", *map(counted, sizes), reached, _minimal(task, model, x)])
    return rows


def _minimal(task: NeuronTask, model: str, correlation: float | None) -> str:
    """The size of the minimal set among representatives (None: among all neurons), if it is within the delta."""
    oracle, total = task.measure("dev_accuracy", model, ALL), task.measure("neurons", model)
    where: dict[str, Any] = {"subset": "all" if correlation is None else "representatives", "x2": correlation}
    rows = task.select("minimal_neurons", model, **where)
    size, reached = (task.measure(name, model, **where) for name in ("minimal_neurons", "minimal_dev_accuracy"))
    if oracle is None or size is None or reached is None:
        return DASH
    if total is not None and size.mean >= total.mean:
        return "none smaller"
    return size.count() if reached.mean >= oracle.mean - float(rows["x"].iloc[0]) else "not reached"


def _within_layers(task: NeuronTask, model: str) -> Table:
    """How many clusters of neurons remain within each layer, by the correlation that joins them."""
    rows = task.select("clusters", model)
    means = rows[rows["layer"].notna()].groupby(["layer", "x"])["value"].mean().unstack("x")
    cells = [
        ["embeddings" if layer == 0 else f"{layer:.0f}", *(DASH if pd.isna(n) else count(round(n)) for n in row)]
        for layer, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    return Table("", ["layer", *(f"\u2265 {x:g}" for x in means.columns)], cells)
