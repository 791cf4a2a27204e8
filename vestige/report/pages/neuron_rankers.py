"""Rankings of neurons compared: how far they choose the same neurons, and which choose the better ones."""

import pandas as pd

from vestige.report.drawing.parts import FURTHER
from vestige.report.pages.neuron_parts import figures, tables
from vestige.report.pages.neuron_parts.curves import curve_block
from vestige.report.pages.neuron_parts.rows import NeuronTask
from vestige.report.pages.neuron_parts.stability import limits, stability_block, stable
from vestige.report.reading import Reading
from vestige.report.types import Block, Page, Section, Table
from vestige.report.wording import DASH, GLUE, number

TITLE = "Neurons: rankings compared"


def page(reading: Reading, analysis: str) -> Page:
    """Per task and setting: the rankers side by side, and how sure the probe's ranking is."""
    tasks = [NeuronTask.of(reading, part, TITLE) for part in reading.parts(analysis)]
    lede = "Several methods rank the neurons of all layers, the best first."
    found = Page(TITLE, lede, limits=limits(tasks))
    for task in tasks:
        made = (agreement_block(task), stability_block(task), curve_block(task.part))
        blocks = [block for block in made if block]
        found.sections.append(Section(task.part.title, task.part.name, stable(task), blocks))
    return found


def agreement_block(task: NeuronTask) -> Block:
    """Neurons in common, accuracy of the first of them, rank correlations; and what fine-tuning changes."""
    pairs = task.rows[task.rows["subset2"].notna()]
    names = list(dict.fromkeys([*task.select("accuracy")["subset"], *pairs["subset"], *pairs["subset2"]]))
    colours = {name: FURTHER[i % len(FURTHER)] for i, name in enumerate(names[1:])}
    block = Block(
        "Do rankings choose the same neurons, and which choose better ones?",
        f"Accuracy of probes trained on the first neurons alone, in percent on {task.scored}.",
    )
    if len(pairs):
        block.lede = (
            f"What the first neurons of a ranking have in common with those of the {names[0]} (dotted: by chance); "
            f"accuracy of probes trained on the first neurons alone, in percent on {task.scored}; rank correlations "
            "over all neurons."
        )
    for model in task.models:
        frame = _overlaps(task, model, names[0])
        if len(frame):
            described = f"{task.part.title}: neurons in common with {names[0]}, {model}"
            block.figures.append(figures.agreement_chart(frame, colours, described, model))
        caption = model if len(task.with_twins) > 1 else ""
        made = (_accuracies(task, model, caption), _correlations(task, model, names, caption))
        block.tables += [table for table in made if table.rows]
    block.tables += tables.compared_tables(task)
    return block


def _overlaps(task: NeuronTask, model: str, first: str) -> pd.DataFrame:
    """ranker, share, value: what the first neurons of a ranking have in common with the first ranker's."""
    rows = task.select("agreement_overlap", model, subset=first)
    rows = rows.rename(columns={"subset2": "ranker", "x": "share"})
    return rows.groupby(["ranker", "share"], sort=False, as_index=False)["value"].mean()


def _accuracies(task: NeuronTask, model: str, caption: str) -> Table:
    """Accuracy of probes trained on the tops of every ranking."""
    means = task.select("accuracy", model).groupby(["subset", "x"], sort=False)["value"].mean().unstack("x")
    cells = [[_spoken(name), *(number(100 * value, 1) for value in row)] for name, row in means.iterrows()]
    return Table(caption, ["ranker", *(f"top {100 * x:g}{GLUE}%" for x in means.columns)], cells)


def _correlations(task: NeuronTask, model: str, names: list[str], caption: str) -> Table:
    """Rank correlations of all rankers with each other."""
    means = task.select("agreement_spearman", model).groupby(["subset", "subset2"])["value"].mean()

    def cell(one: str, other: str) -> str:
        pair = sorted((one, other), key=names.index)
        return DASH if one == other else number(means[tuple(pair)], 2)

    rows = [[_spoken(one), *(cell(one, other) for other in names)] for one in names] if len(means) else []
    return Table(caption, ["Spearman", *map(_spoken, names)], rows)


def _spoken(name: str) -> str:
    return name.replace("_", " ")
