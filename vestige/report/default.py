"""The page of any analysis, made from what it declares: curves, changes, tables and sentences for every metric.

Pages of analyses that have more to say start from this one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from vestige.analyses.metric import WHOLE, Axis, Metric
from vestige.report import changes, curves, notes, numbers
from vestige.report.drawing.curves import change_chart, curves_chart, fitting, map_chart
from vestige.report.drawing.parts import FURTHER
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Figure, Finding, Folded, Page, Section, Table
from vestige.report.wording import GLUE, capital, listing, number

Compared = tuple[str, pd.DataFrame]
"""A tuned model and its reference in words, and their comparison along an axis."""
Rule = Callable[[Part, str], Iterable[tuple[float, str]]]
"""From a part and one of its models to sentences, each with the size of what it reports."""
NOTE = 0.3
"""Weight of a sentence on a curve, which claims no change."""


def page(reading: Reading, analysis: str, rule: Rule | None = None, title: str = "", lede: str = "") -> Page:
    """A section for every task and setting; title and lede are those of the declaration, unless they are given.

    With a `rule`, the sentences on curves are those that it makes, the largest first.
    """
    parts = reading.parts(analysis)
    title = title or parts[0].declared.title
    found = Page(title, lede or parts[0].declared.about)
    for part in parts:
        made = section(reading, part, title, notes_too=rule is None)
        said = [
            (size, Finding(lead_of(part, title), text, "note", NOTE, (*part.key, model)))
            for model in part.models
            if rule and model not in reading.twins
            for size, text in rule(part, model)
        ]
        made.findings += [finding for _, finding in sorted(said, key=lambda one: -one[0])]
        found.sections.append(made)
    return found


def section(reading: Reading, part: Part, title: str, notes_too: bool = True) -> Section:
    """All that is shown of a part under a page's title; `notes_too`: with sentences on curves."""
    found, lead = Section(part.title, part.name), lead_of(part, title)
    for place, metric in enumerate(curves.of_metric(part)):
        found.findings += changes.change_findings(part, metric, reading.judging, lead)
        made = [block for axis in metric.along if axis.name for block in curve_blocks(reading, part, metric, axis)]
        maps = map_figures(part, metric)
        if maps and not made:
            made = [Block(f"{capital(metric.title)} of pairs")]
        if maps:
            made[-1].folded += [Folded(capital(f"{metric.title} by {what}"), drawn) for what, drawn in maps.items()]
        said = list(_notes(reading, part, metric, lead)) if notes_too and not all(metric.sides) else []
        if place == 0:
            found.findings += said
        elif made:
            made[-1].findings += [replace(one, weight=0.0) for one in said]
        found.blocks += made
    found.blocks += [block for block in (whole_block(reading, part), label_block(part)) if block]
    return found


def lead_of(part: Part, title: str) -> str:
    """What a finding of this part is about."""
    between = " \N{EN DASH} " if ":" in title else ": "
    return f"{title.rstrip('?')}{between}{part.title}" if part.title else title


def curve_blocks(reading: Reading, part: Part, metric: Metric, axis: Axis) -> Iterator[Block]:
    """The curves of a metric along an axis with their table, and beside them what is compared along it."""
    frame = curves.part_frame(part, metric, axis)
    if frame.empty:
        return
    levels = curves.baselines(part, metric)
    compared = list(_changes(part, metric, axis))
    for whose, some in _apart(frame):
        mine = curves.named_series(some)
        heading = capital(f"{metric.title} by {numbers.axis_name(axis)}{whose}")
        block = Block(heading, _lede(reading, mine, metric, compared), tables=[value_table(mine, metric, axis)])
        if mine["x"].nunique() > 1 and not (all(metric.sides) and compared):  # a contrast is its own curve
            shown, hidden = fitting(mine, levels)
            quiet = {
                series for series, model in zip(mine["series"], mine["model"], strict=True) if model in reading.twins
            }
            block.figures = [curves_chart(mine, metric, axis, f"{part.title}: {heading}", shown, quiet)]
            block.note = _off_axis(metric, hidden)
        models = set(some["model"])
        own = [(named, rows) for named, rows in compared if rows["model"].iloc[0] in models]
        block.figures += list(_change_figures(own, metric, axis, part.title))
        block.tables += [changes.change_table(part, metric, axis, rows) for rows in _by_model(own)]
        yield block


def value_table(frame: pd.DataFrame, metric: Metric, axis: Axis) -> Table:
    """A row for every place on the axis, a column for every curve (columns series, x, value, low, high)."""
    names = list(frame["series"].drop_duplicates())
    cells = {(row.series, row.x): numbers.level(metric, row.value, row.low, row.high) for row in frame.itertuples()}
    lines = [
        [numbers.place_cell(axis, x), *(cells.get((name, x), "\u2013") for name in names)]
        for x in sorted(frame["x"].unique())
    ]
    return Table(capital(numbers.axis_title(metric)), [numbers.axis_name(axis), *names], lines)


def map_figures(part: Part, metric: Metric) -> dict[str, list[Figure]]:
    """Maps of every grid that was measured, a model each; by what they lie on."""
    found: dict[str, list[Figure]] = {}
    for named, titles, frame in curves.grids(part.rows, metric):
        what = f"{titles[1]} and {titles[0]}"
        description = f"{part.title}: {metric.title} of {named} by {what}"
        found.setdefault(what, []).append(map_chart(frame, metric, titles, description, named))
    return found


def whole_block(reading: Reading, part: Part) -> Block | None:
    """Numbers of whole models: metrics of one variant in one table, others in one of their own; then changes."""
    frames = {
        metric.name: (metric, curves.part_frame(part, metric, WHOLE))
        for metric in [*curves.of_metric(part), *curves.of_metric(part, "baseline")]
    }
    frames = {name: (metric, frame) for name, (metric, frame) in frames.items() if len(frame)}
    plain = [(metric, frame) for metric, frame in frames.values() if frame["variant"].nunique() == 1]
    tables = [_numbers(part.models, [(numbers.axis_title(m), m, frame) for m, frame in plain], "")] if plain else []
    compared = []
    for metric, frame in frames.values():
        if frame["variant"].nunique() > 1:
            lines = [(str(name), metric, mine) for name, mine in frame.groupby("variant", sort=False)]
            tables.append(_numbers(part.models, lines, capital(numbers.axis_title(metric))))
        compared += [
            changes.change_table(part, metric, WHOLE, rows) for rows in _by_model(list(_changes(part, metric, WHOLE)))
        ]
    frame = pd.concat([frame for _, frame in frames.values()]) if frames else pd.DataFrame()
    return Block("Numbers", _lede(reading, frame), tables=[*tables, *compared]) if tables or compared else None


def label_block(part: Part) -> Block | None:
    """Metrics by label and model; those that also lie along an axis folded, a table for every model."""
    block = Block("By label")
    for metric in curves.of_metric(part):
        for axis in metric.along:
            rows = curves.on_axis(part.rows, metric, axis, labelled=True).astype({"value": float})
            for model, mine in rows.groupby("model", sort=False) if axis.name else ():
                table = _by_label(mine, metric, {x: numbers.place_cell(axis, x) for x in sorted(mine["x"].unique())})
                block.folded.append(Folded(f"{table.caption} of {model} by label and {axis.title}", tables=[table]))
            if len(rows) and not axis.name:
                models = {model: model for model in rows["model"].drop_duplicates()}
                block.tables.append(_by_label(rows.assign(x=rows["model"]), metric, models))
            compared = _by_model(list(_changes(part, metric, axis, labelled=True)))
            block.tables += [changes.change_table(part, metric, axis, mine) for mine in compared]
    return block if block.tables or block.folded else None


def _by_label(rows: pd.DataFrame, metric: Metric, columns: dict[Any, str]) -> Table:
    """A line for every label, a column for every value of `x`, with how often the label occurs."""
    means = rows.groupby(["label", "x"], sort=False)["value"].mean().unstack()[list(columns)]
    often = rows.groupby("label", sort=False)["n"].max().astype(float)
    lines = [
        [str(label), number(often[label], 0), *(numbers.text(metric, value) for value in means.loc[label])]
        for label in means.index
    ]
    return Table(capital(numbers.axis_title(metric)), ["label", "n", *columns.values()], lines)


def _numbers(models: list[str], lines: list[tuple[str, Metric, pd.DataFrame]], caption: str) -> Table:
    """A line for every name, a column for every model that has a number."""
    shown = [model for model in models if any((frame["model"] == model).any() for _, _, frame in lines)]
    rows = []
    for name, metric, frame in lines:
        by_model = frame.drop_duplicates("model").set_index("model")
        cells = [notes.level(metric, by_model.loc[model]) if model in by_model.index else "\u2013" for model in shown]
        rows.append([capital(name), *cells])
    return Table(caption, ["", *shown], rows)


def _notes(reading: Reading, part: Part, metric: Metric, lead: str) -> Iterator[Finding]:
    """A sentence on every curve of models that are no random twins."""
    for axis in metric.along:
        frame = curves.part_frame(part, metric, axis)
        several = frame["variant"].nunique() > 1
        for (model, variant), _ in frame.groupby(["model", "variant"], sort=False):
            whose = f"{model} ({variant})" if several and variant else str(model)
            text = notes.curve_note(metric, axis, notes.points(frame, str(model), str(variant)), whose)
            if axis.name and text and model not in reading.twins:
                yield Finding(lead, text, "note", NOTE, (*part.key, str(model)))


def _changes(part: Part, metric: Metric, axis: Axis, labelled: bool = False) -> Iterator[Compared]:
    """The comparisons along an axis, by tuned model and variant; their name and rows."""
    rows = changes.of(part, metric)
    if rows.empty:
        return
    rows = curves.on_axis(rows, metric, axis, labelled).dropna(subset="difference")
    rows = rows.assign(variant=curves.variants(rows, curves.varying(rows)))
    for (model, variant), mine in rows.groupby(["model", "variant"], sort=False):
        named = str(model) if all(metric.sides) else f"{model} minus {mine['reference'].iloc[0]}"
        yield (f"{named} ({variant})" if variant else named), mine.sort_values("x", kind="stable")


def _change_figures(compared: Sequence[Compared], metric: Metric, axis: Axis, title: str) -> Iterator[Figure]:
    for named, rows in compared:
        if rows["x"].nunique() > 1:
            description = f"{title}: change of {metric.title}, {named}"
            yield change_chart(rows, metric, axis, description, named if len(compared) > 1 else "")


def _by_model(compared: Sequence[Compared]) -> Iterator[pd.DataFrame]:
    """The comparisons of a model together, its variants one after the other."""
    if compared:
        for _, rows in pd.concat([rows for _, rows in compared]).groupby("model", sort=False):
            yield rows


def _apart(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The curves of one picture: all of them or, where colours would not do and models have several, a model's."""
    several = frame["variant"].nunique() > 1 and frame["model"].nunique() > 1
    if not several or len(frame[["model", "variant"]].drop_duplicates()) <= len(FURTHER):
        yield "", frame
        return
    for model, part in frame.groupby("model", sort=False):
        yield f": {model}", part


def _lede(
    reading: Reading, frame: pd.DataFrame, metric: Metric | None = None, compared: Sequence[Compared] | None = None
) -> str:
    """What bands and brackets are; within which margin a change counts as none."""
    text = ""
    own = len(frame) and (frame["intervals"] == frame["runs"]).all()
    if len(frame) and (runs := int(frame["runs"].max())) > 1:
        reach = f"the {_intervals(reading)} of all runs" if own else "the range of the runs"
        text = f"Means over {runs} runs of fine-tuning; {'bands and' if metric else 'in'} brackets: {reach}."
    elif len(frame) and frame["low"].notna().any():
        text = f"{'Bands and brackets' if metric else 'In brackets'}: {_intervals(reading)}."
    text = f"{metric.about} {text}" if metric else text
    if metric and compared:
        within = numbers.margin(metric, float(compared[0][1]["margin"].max()))
        text += f" Changes are on the same sentences; within \u00b1{within} a change counts as none."
    return text.strip()


def _intervals(reading: Reading) -> str:
    """Those of an analysis are of 95 %; those that the comparison adds are as the study asks for."""
    asked = 100 * reading.judging.confidence
    other = "" if asked == 95 else f" ({asked:g}{GLUE}% where they are of the comparison)"
    return f"95{GLUE}% intervals{other}"


def _off_axis(metric: Metric, hidden: dict[str, float]) -> str:
    if not hidden:
        return ""
    return f"Off the axis: {listing([f'{name} {numbers.text(metric, value)}' for name, value in hidden.items()])}."
