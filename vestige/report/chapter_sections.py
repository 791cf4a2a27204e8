"""The chapters on the page: per task the curves with their tables, what comparisons say, and drawn trees."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from vestige.analyses import find_analysis
from vestige.report.blocks import Block, Section
from vestige.report.change_findings import Change, change_findings, share_curve, task_changes
from vestige.report.chapter_findings import chapter_findings
from vestige.report.chapters import CHAPTERS, Chapter
from vestige.report.chart_parts import FURTHER
from vestige.report.charts import Charts
from vestige.report.curve_figures import curves_chart, pairs_map
from vestige.report.curves import Curve, curve_frame, named_series
from vestige.report.default_chapter import default_chapters
from vestige.report.domains import domain_blocks, domain_findings
from vestige.report.findings import Finding
from vestige.report.reading import Reading
from vestige.report.tables import Table, layer_cell
from vestige.report.trees import drawn_trees
from vestige.report.wording import bare_chance, capital, number


def chapter_sections(reading: Reading, charts: Charts) -> list[tuple[Chapter, list[Section]]]:
    """Per analysis that the run has, but for layer probes and neurons: a section a task."""
    found, opening = [], set(chapter_headlines(reading))
    for chapter in _chapters(reading):
        sections = _sections(reading, chapter, charts, opening)
        if sections:
            found.append((chapter, sections))
    return found


def _chapters(reading: Reading) -> list[Chapter]:
    return [*CHAPTERS, *default_chapters(reading)]


def _sections(reading: Reading, chapter: Chapter, charts: Charts, opening: set[Finding]) -> list[Section]:
    """`opening`: findings that stand at the top of the page."""
    sections = []
    for name, part, title in _tasks(reading, chapter):
        blocks = _blocks(chapter, part, title, charts)
        blocks += domain_blocks(reading, part, chapter.curves, title, charts)
        blocks += _changes(reading, chapter, part)
        drawings = drawn_trees(reading, part)
        if drawings:
            blocks.append(
                Block("Trees", "Annotated edges above, those of the probe below; dashed: wrong.", drawings=drawings)
            )
        if blocks:
            told = _findings(reading, chapter, part, title)
            findings = [*(change.finding for change in told.changes), *told.curves, *told.domains]
            sections.append(Section(title, name, [one for one in findings if one not in opening], blocks))
    return sections


def _blocks(chapter: Chapter, rows: pd.DataFrame, title: str, charts: Charts) -> list[Block]:
    models = list(rows["model"].drop_duplicates())
    blocks = []
    for curve in chapter.curves:
        frame = curve_frame(rows, curve, models)
        if frame.empty:
            continue
        along = curve.along or "layer"
        for whose, part in _apart(_from_whole(frame)):
            mine = named_series(part)
            heading = f"{capital(curve.title)} by {along}{whose}"
            block = Block(heading, _lede(mine), tables=[_table(mine, curve, along)])
            if mine["x"].nunique() > 1:
                block.charts = [charts.add(curves_chart(mine, curve, _levels(rows, curve), f"{title}: {heading}"))]
            blocks.append(block)
        blocks[-1].charts += _maps(rows, curve, title, charts)
    further = (_numbers(rows) if chapter.plain else _whole(rows), _by_input(rows, chapter.curves), _by_label(rows))
    return [*blocks, *(block for block in further if block)]


def _apart(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The curves of one picture: all of them or, where colours would not do and models have several, a model's."""
    several = frame["subset"].nunique() > 1 and frame["model"].nunique() > 1
    if not several or len(frame[["model", "subset"]].drop_duplicates()) <= len(FURTHER):
        yield "", frame
        return
    for model, part in frame.groupby("model", sort=False):
        yield f": {model}", part


def _changes(reading: Reading, chapter: Chapter, rows: pd.DataFrame) -> list[Block]:
    """What the comparisons say of the same task under the same setting."""
    mine = task_changes(reading, rows)
    if mine.empty:
        return []
    known_as = {curve.metric: curve for curve in chapter.curves}
    tables = []
    for (model, metric), part in mine.groupby(["model", "metric"], sort=False):
        curve = known_as.get(metric) or share_curve(metric)
        tables.append(_change_table(curve, f"{model} minus {part['reference'].iloc[0]}", part))
    lede = "On the same sentences; where levels are in percent, changes are in points."
    return [Block("Change by fine-tuning", lede, tables=tables)] if tables else []


def _change_table(curve: Curve, what: str, rows: pd.DataFrame) -> Table:
    named = rows["subset"] if "subset" in rows else pd.Series(None, index=rows.index, dtype=object)
    places = [
        str(subset) if pd.notna(subset) else layer_cell(int(layer))
        for subset, layer in zip(named, rows["layer"], strict=True)
    ]
    lines = [
        [
            place,
            curve.text(row.base),
            curve.text(row.tuned),
            curve.change(row.difference),
            curve.span(row.low, row.high),
            bare_chance(row.q),
            row.verdict,
        ]
        for place, row in zip(places, rows.itertuples(), strict=True)
    ]
    head = ["layer" if named.isna().all() else "input", "base", "tuned", "change", "interval", "q", "verdict"]
    return Table(capital(f"{curve.title}, {what}"), head, lines, tuple(rows["verdict"]))


def _from_whole(frame: pd.DataFrame) -> pd.DataFrame:
    """The whole model as the start of every way to take something from it."""
    whole, rest = frame[frame["subset"] == "all"], frame[frame["subset"] != "all"]
    if whole.empty or rest.empty:
        return frame
    ways = list(rest["subset"].drop_duplicates())
    return pd.concat([*(whole.assign(subset=way) for way in ways), rest], ignore_index=True)


def _lede(frame: pd.DataFrame) -> str:
    runs = int(frame["runs"].max())
    if runs > 1:
        own = (frame["intervals"] == frame["runs"]).all()
        reach = (
            "from the lowest to the highest end of the 95\u00a0% intervals of the runs"
            if own
            else "the range of the runs"
        )
        return f"Means over {runs} runs of fine-tuning; bands and brackets: {reach}."
    return "Bands and brackets: 95\u00a0% intervals." if frame["low"].notna().any() else ""


def _levels(rows: pd.DataFrame, curve: Curve) -> dict[str, float]:
    """Level lines: what the reference scores, or the majority label."""
    wanted = {"perplexity": ("reference_perplexity", "the reference")}.get(curve.metric)
    if wanted is None:
        return {}
    values = rows.loc[rows["metric"] == wanted[0], "value"].astype(float)
    return {wanted[1]: float(values.mean())} if len(values) else {}


def _table(frame: pd.DataFrame, curve: Curve, along: str) -> Table:
    """A row a place on the axis, a column a curve."""
    names = list(frame["series"].drop_duplicates())
    cells = {
        (row.series, row.x): curve.text(row.value)
        + (f" ({curve.text(row.low)} to {curve.text(row.high)})" if pd.notna(row.low) else "")
        for row in frame.itertuples()
    }
    places = sorted(frame["x"].unique())
    lines = [[curve.at(x), *(cells.get((name, x), "\u2013") for name in names)] for x in places]
    return Table("", [along, *names], lines)


def _maps(rows: pd.DataFrame, curve: Curve, title: str, charts: Charts) -> list[str]:
    """Every layer of one model against every layer of the other, where that was measured."""
    pairs = rows[rows["metric"] == f"{curve.metric}_all_pairs"]
    drawn = []
    for model, part in pairs.groupby("model", sort=False):
        means = part.groupby(["layer", "layer2"], as_index=False)["value"].mean().astype(float)
        named = f"{curve.title}: layers of {model} against layers of its reference"
        drawn.append(charts.add(pairs_map(means, named, f"{title}: {named}")))
    return drawn


def _whole(rows: pd.DataFrame) -> Block | None:
    """Perplexity of every model as it is."""
    part = rows[rows["axis"].isna() & rows["layer"].isna() & rows["label"].isna()]
    values = part.groupby(["metric", "model"], sort=False)["value"].mean()
    if "perplexity" not in values:
        return None
    lines = []
    for model, value in values["perplexity"].items():
        sides = [values.get((f"perplexity{side}", model), float("nan")) for side in ("_low", "_high")]
        lines.append([str(model), number(float(value), 1), f"{number(sides[0], 1)} to {number(sides[1], 1)}"])
    return Block(
        "Perplexity of the models as they are", "", tables=[Table("", ["model", "perplexity", "interval"], lines)]
    )


def _numbers(rows: pd.DataFrame) -> Block | None:
    """All numbers of every model that have no layer, axis, label or subset: means over runs and seeds."""
    part = rows[rows[["axis", "layer", "label", "subset", "head"]].isna().all(axis=1)]
    if part.empty:
        return None
    means = part.groupby(["metric", "model"], sort=False)["value"].mean().unstack()
    lines = [
        [str(metric).replace("_", " "), *(number(float(value), 3) for value in means.loc[metric])]
        for metric in part["metric"].unique()
    ]
    return Block("Numbers", "", tables=[Table("", ["", *map(str, means.columns)], lines)])


def _by_input(rows: pd.DataFrame, curves: Sequence[Curve]) -> Block | None:
    """What is read from several layers together: mixes, layers side by side."""
    inputs = rows[rows["subset"].notna() & rows["layer"].isna() & rows["axis"].isna() & rows["label"].isna()]
    tables = []
    for curve in curves:
        part = inputs[inputs["metric"] == curve.metric]
        if part.empty or curve.axis:
            continue
        means = part.groupby(["subset", "model"], sort=False)["value"].mean().unstack()[list(part["model"].unique())]
        lines = [[str(name), *map(curve.text, means.loc[name].astype(float))] for name in part["subset"].unique()]
        tables.append(Table(capital(curve.title), ["input", *map(str, means.columns)], lines))
    return Block("By input", "", tables=tables) if tables else None


def _by_label(rows: pd.DataFrame) -> Block | None:
    """F1 of edge labels, accuracy of paradigms: a table by label and model."""
    part = rows[rows["label"].notna() & rows["layer"].isna() & rows["metric"].isin(["accuracy"])]
    if part.empty:
        return None
    means = part.groupby(["label", "model"], sort=False)["value"].mean().unstack()
    counts = part.groupby("label", sort=False)["n"].max()
    lines = [
        [str(label), number(float(counts[label]), 0), *(number(100 * value, 1) for value in means.loc[label])]
        for label in means.index
    ]
    table = Table("Accuracy in percent", ["paradigm", "pairs", *map(str, means.columns)], lines)
    return Block("By paradigm", "", tables=[table])


def chapter_headlines(reading: Reading) -> list[Finding]:
    """What opens the page: of every chapter the largest change, or else what is first said of every task."""
    found = []
    for chapter in _chapters(reading):
        told = [_findings(reading, chapter, part, title) for _, part, title in _tasks(reading, chapter)]
        changes = [change for one in told for change in one.changes]
        if changes:
            found.append(max(changes, key=lambda change: change.size).finding)
        for one in told:
            found += [*(() if changes else one.curves[:1]), *one.domains[:1]]
    return found


class _Told(NamedTuple):
    """What is said of a task: what changed, what its curves show, and how the domain bears on them."""

    changes: list[Change]
    curves: list[Finding]
    domains: list[Finding]


def _findings(reading: Reading, chapter: Chapter, rows: pd.DataFrame, title: str) -> _Told:
    lead = f"{chapter.title.rstrip('?')}: {title}"
    return _Told(
        change_findings(reading, rows, chapter.curves, lead),
        chapter_findings(chapter.name, rows, lead),
        domain_findings(reading, rows, chapter.curves, lead),
    )


def _tasks(reading: Reading, chapter: Chapter) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Name, rows and title of every task under every setting; the title is the corpus' where labels play no role."""
    rows = reading.results[reading.results["analysis"] == chapter.name]
    unlabelled = not chapter.plain and not find_analysis(chapter.name).uses_labels
    several = rows["params"].nunique() > 1
    titles = replace(reading.titles, corpora=max(reading.titles.corpora, rows["corpus"].nunique()))
    for (corpus, task, params), part in rows.groupby(["corpus", "task", "params"], sort=False):
        title = corpus if unlabelled else titles.task(corpus, task)
        if several and params in reading.settings:
            title = f"{title} ({reading.settings[params].name})"
        yield f"{corpus}/{task}", part, title
