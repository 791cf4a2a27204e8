"""The report as a README in GitHub markdown: the same findings, and compact tables per task."""

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vestige.cache import write_file
from vestige.report.blocks import Block
from vestige.report.caveats import caveats
from vestige.report.chapter_sections import chapter_headlines, chapter_sections
from vestige.report.charts import Charts
from vestige.report.findings import overview
from vestige.report.measures import baselines, layer_means, of_task
from vestige.report.neuron_rows import NeuronGroup
from vestige.report.neurons import neuron_blocks
from vestige.report.reading import Reading
from vestige.report.tables import Table, by_layer, layer_cell, layer_table
from vestige.report.warnings import warnings
from vestige.report.wording import DASH, chance, percent, points, span

COMMAND = "vestige report RUN --format markdown"


def write_markdown(
    target: Path,
    results: pd.DataFrame,
    comparisons: pd.DataFrame,
    cells: pd.DataFrame,
    lock: Mapping[str, Any],
    title: str = "",
    intro: str = "",
    *,
    changes: pd.DataFrame | None = None,
) -> None:
    """Write the README of a run; `title` and `intro` (markdown) go in front of what the tables say."""
    reading = Reading(results, comparisons, cells, lock, pd.DataFrame() if changes is None else changes)
    write_file(Path(target), render(reading, title, intro).encode(errors="backslashreplace"))


def render(reading: Reading, title: str = "", intro: str = "") -> str:
    """The whole README."""
    parts = [
        f"# {plain(title or reading.title)}",
        f"*Written by `{COMMAND}`; every number below comes from the tables of the run. Do not edit: run it again.*",
        intro.strip(),
        plain(reading.statement),
        "\n".join(f"- {plain(line)}" for line in warnings(reading.results, reading.lock)),
        *_findings(reading),
        *_limits(reading),
        *(part for corpus, task in reading.tasks for part in _task(reading, corpus, task)),
        *(part for group in reading.neuron_groups for part in _neurons(reading, group)),
        *_chapters(reading),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: str) -> str:
    """Text that markdown and the HTML inside it leave as it is."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(text.replace("\n", " "), quote=False))


def markdown_table(table: Table) -> str:
    """A pipe table: words to the left, numbers to the right."""
    rows = [[plain(cell) for cell in line] for line in (table.head, *table.rows)]
    rows.insert(1, [*[":--"] * table.words, *["--:"] * (len(table.head) - table.words)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _findings(reading: Reading) -> list[str]:
    found = [*reading.headlines, *reading.neuron_headlines, *chapter_headlines(reading)]
    if not found:
        return []
    parts = ["## Findings", plain(overview(reading.groups)) if reading.groups else ""]
    lead = ""
    bullets: list[str] = []
    for finding in found:
        if finding.lead != lead:
            parts.append("\n".join(bullets))
            bullets, lead = [], finding.lead
            parts.append(f"**{plain(lead)}**")
        bullets.append(f"- {plain(finding.text)}")
    return [*parts, "\n".join(bullets)]


def _limits(reading: Reading) -> list[str]:
    lines = caveats(reading.results, reading.comparisons, reading.lock, reading.tuned_runs)
    return ["## What this does not say", "\n".join(f"- {plain(line)}" for line in lines)] if lines else []


def _task(reading: Reading, corpus: str, task: str) -> list[str]:
    """Accuracy, change and selectivity of one task, for every model and setting."""
    parts = [f"## {plain(reading.titles.task(corpus, task))} ({plain(f'{corpus}/{task}')})"]
    settings = reading.settings_of(corpus, task)
    lines = baselines(reading.results, corpus, task, settings[0].params)
    said = ", ".join(f"{name} {percent(value)}" for name, value in lines.items())
    parts.append(f"Accuracy in percent{plain(f' ({said})' if said else '')}:")
    parts.append(_by_model(reading, "accuracy", corpus, task))
    changes = _changes(reading, corpus, task)
    if changes:
        level = f"{100 * reading.judging.confidence:g} %"
        parts += [f"Change of accuracy in points, with its {level} interval, q and verdict:", changes]
    selectivity = _by_model(reading, "selectivity", corpus, task)
    if selectivity:
        parts += ["Selectivity (accuracy minus control-task accuracy) in points:", selectivity]
    return parts


def _neurons(reading: Reading, group: NeuronGroup) -> list[str]:
    """The tables of the neurons of one task; what needs a chart is left to the page."""
    parts = [f"## Neurons: {plain(reading.neuron_title(group))} ({plain(f'{group.corpus}/{group.task}')})"]
    parts += [f"- {plain(finding.text)}" for finding in reading.further_neuron_findings(group)]
    return [*parts, *_tables(neuron_blocks(group, "", Charts()))]


def _chapters(reading: Reading) -> list[str]:
    """The tables of the analyses that are told by curves."""
    parts = []
    for chapter, sections in chapter_sections(reading, Charts()):
        parts += [f"## {plain(chapter.title)}", plain(chapter.lede)]
        for section in sections:
            parts.append(f"### {plain(section.title)} ({plain(section.name)})")
            parts += [f"- {plain(finding.text)}" for finding in section.findings]
            parts += _tables(section.blocks, level=4)
    return parts


def _tables(blocks: Sequence[Block], level: int = 3) -> list[str]:
    parts = []
    for block in blocks:
        if block.tables:
            parts += [f"{'#' * level} {plain(block.heading)}", plain(block.lede)]
            parts += [part for table in block.tables for part in (plain(table.caption), markdown_table(table))]
    return parts


def _by_model(reading: Reading, metric: str, corpus: str, task: str) -> str:
    """Layers as rows, a column for every model and setting; empty where the metric is missing."""
    means = layer_means(reading.probes, metric)
    settings = reading.settings_of(corpus, task)
    columns = {}
    for setting in settings:
        frame = of_task(means, corpus, task, setting.params)
        for model in dict.fromkeys(frame["model"]):
            name = f"{model}, {setting.name}" if len(settings) > 1 else model
            columns[name] = by_layer(frame[frame["model"] == model])
    return markdown_table(layer_table(columns, "")) if columns else ""


def _changes(reading: Reading, corpus: str, task: str) -> str:
    """Layers as rows, a column for every comparison."""
    groups = [group for group in reading.groups if (group.corpus, group.task) == (corpus, task)]
    if not groups:
        return ""
    several = len({group.setting.params for group in groups}) > 1
    head = ["layer", *(f"{g.model}, {g.setting.name}" if several else g.model for g in groups)]
    numbers = sorted({int(number) for group in groups for number in group.accuracy["layer"]})
    rows = [[layer_cell(number), *(_change_cell(group.accuracy, number) for group in groups)] for number in numbers]
    return markdown_table(Table("", head, rows))


def _change_cell(rows: pd.DataFrame, number: int) -> str:
    if number not in rows.index:
        return "\u2013"
    row = rows.loc[number]
    sure = f"{span(row['low'], row['high'])}, {DASH if pd.isna(row['q']) else chance('q', row['q'])}"
    return f"{points(row['difference'])} ({sure}) {row['verdict']}"
