"""The tables of the neuron analysis: ablated and retrained probes, minimal sets, what fine-tuning changed."""

from collections.abc import Sequence

import pandas as pd

from vestige.report.changes import cells
from vestige.report.pages.neuron_parts.rows import ALL, Change, Measure, NeuronTask, Selection, percent
from vestige.report.types import Table
from vestige.report.wording import DASH, bare_chance, count, number, signed

DISTANCES = {
    "mean_layer": "mean layer",
    "earth_mover": "earth mover's distance (layers)",
    "total_variation": "total variation (points)",
}
EXCHANGE = {"stayed": "stay", "left": "leave", "entered": "enter"}


def minimal_table(task: NeuronTask) -> Table:
    """All neurons and every minimal set: size, accuracy, control task, selectivity (durrani2020, Tables 2 and 3)."""
    controlled, refitted = (bool(len(task.select(name))) for name in ("selectivity", "ranking_overlap"))
    metrics = ["accuracy", *["control_accuracy", "selectivity"] * controlled]
    head = ["model", "set", "neurons", "% of all", "accuracy"] + ["control task", "selectivity"] * controlled
    rows = []
    for model in task.with_twins:
        for chosen in (ALL, *task.deltas):
            missed = task.missed(model, chosen)
            size, share = (task.measure(name, model, chosen) for name in ("minimal_neurons", "minimal_share"))
            if chosen == ALL:
                size, share = task.measure("neurons", model), Measure(1.0, 1.0, 1.0, 1)
            if size is None and not missed:
                continue
            line = [model, chosen.title, _with_missed(size, missed), percent(share)]
            line += [percent(task.measure(metric, model, chosen)) for metric in metrics]
            line += [percent(task.stability(model, chosen))] * refitted
            rows.append(line)
    return Table("", head + ["re-fit in common (%)"] * refitted, rows, words=2)


def _with_missed(size: Measure | None, missed: int) -> str:
    """The size of a set; where the search ended at all neurons, that no smaller one is enough."""
    if size is None:
        return "none smaller"
    return f"{size.count()} (none smaller in {missed} of {missed + size.runs} runs)" if missed else size.count()


def probe_table(task: NeuronTask, subset: str) -> Table | None:
    """Accuracy of all neurons and of a kind of probe, on dev too where it was scored (durrani2020, Tables 1 and 6)."""
    chosen = task.probes(subset)
    if not chosen:
        return None
    splits = {task.scored: "accuracy"}
    if len(task.select("dev_accuracy", None, chosen[0])):
        splits["dev"] = "dev_accuracy"
    rows = [
        [model, split, *(percent(task.measure(metric, model, one)) for one in (ALL, *chosen))]
        for model in task.with_twins
        for split, metric in splits.items()
    ]
    return Table("", ["model", "split", "all", *(one.part for one in chosen)], rows, words=2)


def compared_tables(task: NeuronTask) -> list[Table]:
    """What the comparison says of every selection, with its interval; a table for every tuned model."""
    made = []
    for pair in task.pairs:
        rows = task.of_pair(pair)
        if rows:
            caption = (
                f"Change by fine-tuning on the same sentences, {pair[1]} minus {pair[0]}, in points; means over fits"
            )
            head = ["neurons", *pair, "change", "interval", "p", "q", "verdict"]
            metric = task.part.declared.metrics["accuracy"]
            lines = [[chosen.title, *cells(metric, row, 1, tests=("p", "q"))] for chosen, row in rows]
            made.append(Table(caption, head, lines, tuple(str(row["verdict"]) for _, row in rows)))
    return made


def distance_table(task: NeuronTask, pair: tuple[str, str]) -> Table | None:
    """How far every selection moved over the layers, beside chance and re-fits."""
    reference, model = pair
    rows = [
        [chosen.title, title, *_distance_cells(statistic, found)]
        for chosen in task.changed(model)
        for statistic, title in DISTANCES.items()
        if (found := task.change(model, chosen, statistic))
    ]
    refits = [f"re-fit of {name}" for name in pair]
    head = ["selection", "what", "change", "by chance", *refits, "interval", "p of each run"]
    caption = f"Layers of the selected neurons, {model} against {reference}"
    return Table(caption, head, rows, words=2) if rows else None


def _distance_cells(statistic: str, found: Change) -> Sequence[str]:
    """Value, expectation, re-fits, interval and p as strings; layers as they are, shares in points."""
    scale = 100 if statistic == "total_variation" else 1
    write = signed if statistic == "mean_layer" else number
    over = DASH if pd.isna(found.low) else f"{write(scale * found.low, 2)} to {write(scale * found.high, 2)}"
    values = (found.value, found.expected, found.refit_base, found.refit_tuned)
    return *(write(scale * value, 2) for value in values), over, ", ".join(map(bare_chance, found.p)) or DASH


def exchange_table(task: NeuronTask, pair: tuple[str, str]) -> Table | None:
    """How many neurons of every selection stayed, left and entered, and how many re-fits exchange."""
    reference, model = pair
    rows = []
    for chosen in task.changed(model):
        found = {name: task.change(model, chosen, name) for name in (*EXCHANGE, "left_beyond_refit")}
        left, beyond = found["left"], found.pop("left_beyond_refit")
        if any(found.values()):
            counts = [DASH if change is None else _whole(change.value) for change in found.values()]
            refits = [DASH, DASH] if left is None else [_whole(left.refit_base), _whole(left.refit_tuned)]
            more = [DASH, DASH]
            if beyond is not None:
                more = [signed(beyond.value, 1), f"{signed(beyond.low, 1)} to {signed(beyond.high, 1)}"]
            rows.append([chosen.title, *counts, *refits, *more])
    head = ["selection", *EXCHANGE.values(), *(f"leave in a re-fit of {name}" for name in pair)]
    caption = f"Neurons of the selections, {model} against {reference}"
    return Table(caption, [*head, "leave beyond re-fits", "interval"], rows) if rows else None


def shared_table(task: NeuronTask, chosen: Selection) -> Table | None:
    """How many neurons serve several labels and how many a single one."""
    sides = ("shared_neurons", "exclusive_neurons")
    rows = [
        [model, *(found.count() for found in both if found)]
        for model in task.models
        if all(both := [task.measure(metric, model, chosen) for metric in sides])
    ]
    return Table("", ["model", "neurons of several labels", "of one label"], rows) if rows else None


def _whole(value: float) -> str:
    return DASH if pd.isna(value) else count(value) if value == round(value) else number(value, 1)
