"""Redundancy: how many clusters of correlated neurons there are, and what one neuron of each can do."""

from typing import Any

import pandas as pd

from vestige.report.pages.neuron_parts import tables
from vestige.report.pages.neuron_parts.findings import neuron_findings
from vestige.report.pages.neuron_parts.rows import ALL, NeuronTask
from vestige.report.pages.neuron_parts.stability import limits, stability_block, stable
from vestige.report.pages.neuron_parts.tasks import curve_figures, neuron_task
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Folded, Page, Section, Table
from vestige.report.wording import DASH, count

TITLE = "Neurons: redundancy"


def page(reading: Reading, analysis: str) -> Page:
    """Per task and setting: clusters, their representatives, and how sure the ranking is that chose these."""
    parts = reading.parts(analysis)
    tasks = [neuron_task(reading, part, TITLE) for part in parts]
    lede = "Neurons that repeat each other are joined into clusters; one neuron stands for each."
    found = Page(TITLE, lede, limits=limits(tasks))
    for part, task in zip(parts, tasks, strict=True):
        said = [*neuron_findings(task, reading.judging), *stable(task)]
        made = (cluster_block(part, task), stability_block(task))
        found.sections.append(Section(task.title, task.name, said, [block for block in made if block]))
    return found


def cluster_block(part: Part, task: NeuronTask) -> Block:
    """Clusters over all layers and within each, and the accuracy of their representatives."""
    made = [(model, _representatives(task, model)) for model in task.with_twins]
    within = [(model, _within_layers(task, model)) for model in task.with_twins]
    return Block(
        "Neurons that repeat each other",
        "Neurons whose activations correlate at least so strongly, with either sign, are joined into one cluster: "
        "the fewer clusters, the more neurons repeat others. The best-ranked neuron of each cluster represents it; "
        f"accuracy in percent on {task.scored}.",
        figures=curve_figures(part),
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
    rows = [["all neurons", DASH, DASH, DASH if whole is None else whole.percent(), _minimal(task, model, None)]]
    for x in sorted(task.select("accuracy", model, subset="representatives")["x"].unique(), reverse=True):
        names = ("clusters", "clusters_over_layers")
        sizes = [task.measure(name, model, axis="correlation", x=x, layer=None) for name in names]
        found = task.measure("accuracy", model, subset="representatives", x=x)
        cells = [DASH if size is None else size.count() for size in sizes]
        reached = DASH if found is None else found.percent()
        rows.append([f"correlation {x:g}", *cells, reached, _minimal(task, model, x)])
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
