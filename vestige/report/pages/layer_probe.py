"""The page of the layer probes: what fine-tuning did to what a probe reads from every layer.

Curves and changes of every task and model, the change at a glance, controls, the labels that differ most, and the
tables in full. The names of the metrics that this page is about are typed here; all else is read from their
declarations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pandas as pd

from vestige.report import numbers
from vestige.report.pages.layer_parts import figures
from vestige.report.pages.layer_parts.answers import answers
from vestige.report.pages.layer_parts.contrasts import contrast_findings
from vestige.report.pages.layer_parts.findings import group_findings, overview
from vestige.report.pages.layer_parts.group import Group, Measure
from vestige.report.pages.layer_parts.tables import FEWEST, difference_table, label_changes, level_table
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Page, Section
from vestige.report.wording import layer

ACCURACY, CONTROL, SELECTIVITY, BY_LABEL = "accuracy", "control_accuracy", "selectivity", "f1"
CONTROL_BASELINE = "control_majority"
"""The baseline of the control task; all others are of the task itself."""

MANY = 4
"""With more groups than this, controls are folded."""
MOST_DRAWN = 24
"""With more groups than this, all curves are folded: hundreds of charts drawn at once would keep a reader waiting."""


def page(reading: Reading, analysis: str) -> Page:
    """A section for every task and model, then views over all of them."""
    groups = probe_groups(reading, analysis)
    made = Page("Layer by layer", sections=[*_sections(reading, groups)])
    first = [group for group in groups if group.primary]
    compared = [group for group in first if group.compared]
    if compared:
        made.overview, accuracy = overview(compared), compared[0].accuracy
        made.answers = answers(compared)
        made.lede = (
            f"Curves: {accuracy.metric.title} with {100 * reading.judging.confidence:g} % bands. Points: the change, "
            "tuned minus base on the same sentences, with its interval; within the grey band "
            f"(\u00b1{numbers.margin(accuracy.metric, accuracy.margin)}) a change counts as none."
        )
    views = (_glance(groups), _controls(first), _labels(compared, len(groups) > MOST_DRAWN), _tables(groups))
    made.sections += [section for section in views if section.blocks]
    return made


def probe_groups(reading: Reading, analysis: str) -> list[Group]:
    """All groups: tasks and models as in the table, preferred settings first."""
    found = [
        (own, pooling, models)
        for part in reading.parts(analysis)
        for pooling, own in _poolings(part)
        for models in _pairs(own)
    ]
    compared = {part.name for part, _, models in found if models}
    found = [one for one in found if one[2] or one[0].name not in compared]
    several = len({models[1:] for _, _, models in found if models}) > 1
    groups: list[Group] = []
    for part, pooling, models in found:
        group = _group(reading, part, pooling, models, several)
        groups.append(replace(group, primary=all(group.place != other.place for other in groups)))
    places = list(dict.fromkeys(group.place for group in groups))
    return sorted(groups, key=lambda group: places.index(group.place))


def _poolings(part: Part) -> Iterator[tuple[str, Part]]:
    """The part, or every pooling of it by itself."""
    if not (part.rows["metric"] == ACCURACY).any():
        return
    names = part.rows["pooling"].dropna().unique()
    if len(names) < 2:
        yield "", part
        return
    for name in names:
        rows = part.rows[(part.rows["pooling"] == name) | part.rows["pooling"].isna()]
        changes = part.changes[part.changes["pooling"] == name] if len(part.changes) else part.changes
        yield str(name), replace(part, rows=rows, changes=changes)


def _pairs(part: Part) -> list[tuple[str, ...]]:
    """(reference, tuned model) of every comparison; nothing at all where there is none."""
    if part.changes.empty:
        return [()]
    rows = part.changes[(part.changes["metric"] == ACCURACY) & part.changes["layer"].notna()]
    return [*rows[["reference", "model"]].drop_duplicates().itertuples(index=False, name=None)] or [()]


def _group(reading: Reading, part: Part, pooling: str, models: tuple[str, ...], several: bool) -> Group:
    """`several`: whether the page has several tuned models. A group holds the rows of its own models and twins."""
    twins = [twin for twin, other in reading.twins.items() if twin not in models and models[:1] in ((), (other,))]
    if models:
        own = part.rows["model"].isin([*models, *twins])
        part = replace(part, rows=part.rows[own], changes=part.changes[part.changes["model"] == models[1]])
    of_task = [name for name, metric in part.declared.metrics.items() if metric.role == "baseline"]
    accuracy = Measure.of(part, ACCURACY, [name for name in of_task if name != CONTROL_BASELINE])
    assert accuracy is not None, "a part without accuracy is no group"
    title, setting = reading.task_title(part.corpus, part.task), part.setting.name
    shown = models or [name for name in part.models if name not in reading.twins] or part.models
    return Group(
        part,
        ", ".join([title, *models[1:] * several, *[pooling] * bool(pooling)]),
        ", ".join([": ".join([*models[1:] * several, setting]), *[pooling] * bool(pooling)]),
        shown,
        [twin for twin in twins if twin not in shown],
        pooling,
        accuracy,
        Measure.of(part, CONTROL, [CONTROL_BASELINE]),
        Measure.of(part, SELECTIVITY, []),
        primary=False,
    )


def _sections(reading: Reading, groups: Sequence[Group]) -> Iterator[Section]:
    """Per task, model and pooling: curves and changes under every setting, the preferred one unfolded.

    Findings under the others stand with their curves and never open the report. Of very many models all are folded: a
    chart is drawn when it is unfolded.
    """
    folded = len(groups) > MOST_DRAWN
    for _, several in groupby(groups, lambda group: group.place):
        section = Section("", "")
        for group in several:
            figure, note = figures.curves(group, group.accuracy)
            block = Block(group.heading, figures=[figure], note=note, closed=folded or not group.primary)
            found = group_findings(group, reading.judging) if group.compared else []
            block.figures += [figures.changes(group)] if group.compared else []
            if group.primary:
                section.title, section.name, section.findings = group.title, group.part.name, found
            else:
                block.findings = [replace(finding, weight=0.0) for finding in found]
            section.blocks.append(block)
        yield section


def _glance(groups: Sequence[Group]) -> Section:
    """Change by layer and task (model, setting), where there is more than one row to it; contrasts of settings."""
    compared = [group for group in groups if group.compared]
    section = Section("Change at a glance", "")
    if len(compared) < 2:
        return section
    section.findings = contrast_findings(compared)
    rows = pd.concat([group.accuracy.changes.assign(line=name) for group, name in _named(compared)], ignore_index=True)
    metric = compared[0].accuracy.metric
    lede = f"Points of {metric.title}, tuned minus base. Bold: shown to differ (q at most the level of the study)."
    figure = figures.heat_map(rows, metric, f"Change of {metric.title} in points, by layer and task")
    section.blocks.append(Block("", lede, [figure]))
    return section


def _controls(groups: Sequence[Group]) -> Section:
    """Control task, selectivity and random twin, per task and model."""
    section = Section("Controls", "")
    for group in groups:
        block = Block(group.title, tables=[level_table(group)], closed=len(groups) > MANY)
        for measure in group.measures[1:]:
            figure, off_axis = figures.curves(group, measure)
            block.figures.append(figure)
            block.note += off_axis
        section.blocks.append(block)
    if groups:
        lede = (
            "A control task gives every word type a random label: a probe can only memorise it. Selectivity is "
            "accuracy minus control-task accuracy. A random twin has the same architecture and no training."
        )
        section.blocks.insert(0, Block("", lede))
    return section


def _labels(groups: Sequence[Group], folded: bool) -> Section:
    """The labels that differ most: at the layer that changes most, or differs most if none does."""
    section = Section("Labels that differ most", "")
    for group in groups:
        changed = group.accuracy.verdict("lower", "higher")
        where = int((changed if len(changed) else group.accuracy.changes)["difference"].abs().idxmax())
        metric = group.part.declared.metrics[BY_LABEL]
        table = label_changes(group, metric, where)
        if table.empty:
            continue
        most = table.loc[table["difference"].abs().idxmax()]
        lede = (
            f"At {layer(where)}, {'which is' if len(changed) else 'though no layer is'} shown to change. Largest "
            f"difference: {most['label']}, {numbers.change(metric, most['difference'])} points of {metric.title} "
            f"({numbers.moved(metric, most['base'], most['tuned'])}, {int(most['n'])} occurrences)."
        )
        drawn = figures.label_chart(table, metric, group.models, f"{group.title}: {metric.title} at layer {where}")
        section.blocks.append(Block(group.title, lede, [drawn], closed=folded))
    if section.blocks:
        lede = (
            f"{metric.title} by label (occurrences in the scored split in brackets; at least {FEWEST}). These have no "
            "intervals: they show where to look, not what is found."
        )
        section.blocks.insert(0, Block("", lede))
    return section


def _tables(groups: Sequence[Group]) -> Section:
    """The full tables of differences, a table for every metric."""
    compared = [group for group in groups if group.compared]
    blocks = [
        Block(name, tables=[difference_table(group, one) for one in group.measures if len(one.changes)], closed=True)
        for group, name in _named(compared)
    ]
    lede = (
        "Levels in percent, changes and standard deviations in points. The last three columns split the variance of "
        "a change: test sentences, probe seeds, fine-tuning runs."
    )
    return Section("Tables", "", blocks=[Block("", lede), *blocks] if blocks else [])


def _named(groups: Sequence[Group]) -> list[tuple[Group, str]]:
    """Groups by title, with the setting where there are several."""
    several = len({group.part.params for group in groups}) > 1
    return [(group, f"{group.title} ({group.part.setting.name})" if several else group.title) for group in groups]
