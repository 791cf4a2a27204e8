"""Probe transfer: what became of what the base's probes no longer read."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from vestige.analyses.metric import LAYER
from vestige.report import changes, curves, default, numbers
from vestige.report.drawing.curves import change_chart, curves_chart, map_chart
from vestige.report.drawing.stacked import COLOURS, split_chart
from vestige.report.pages.transfer_parts.sentences import answers, elsewhere, findings
from vestige.report.pages.transfer_parts.split import AFFINE, DROP, ROTATION, Split, parts_named, splits
from vestige.report.reading import Reading
from vestige.report.types import Block, Folded, Page, Section, Table
from vestige.report.wording import capital

_LEDE = (
    "A probe that was trained on the base is put on the tuned model, and reads less. What it reads less, in points of "
    "accuracy, is split without a rest. Lost: the tuned model's own probe does not read it either. Re-encoded: that "
    "probe reads it, but the base's probe does not, even after the hidden states were rotated, shifted and scaled onto "
    "the base's (orthogonal Procrustes, fitted on training words). Moved: after that map the base's probe reads it "
    "again. Points above 0 are points that the base's probe misses for this reason. Below 0, lost is a gain (the "
    "tuned model's own probe reads more than the base's did), re-encoded says that the base's probe after the map "
    "reads more than the tuned model's own, and moved that the map does harm."
)
_LIMIT = (
    "Lost is what a linear probe with a ridge does not read: it may be there in a form that such a probe cannot use. "
    "Re-encoded holds guesses, too: where nothing is left to read, a probe of its own guesses the most frequent label, "
    "and the base's probe does not."
)
_MAPS = {"rotated": "after the Procrustes map", "affine": "after the affine map"}
_LEVELS = ("base_accuracy", "own_accuracy", "affine_accuracy", "rotated_accuracy", "as_is_accuracy")


def page(reading: Reading, analysis: str) -> Page:
    """A section for every task: of every tuned model the drop taken apart, layer by layer, and across layers."""
    found = Page("Lost, moved or re-encoded?", _LEDE, limits=[_LIMIT])
    told: list[Split] = []
    for part in reading.parts(analysis):
        lead, section = default.lead_of(part, found.title), Section(part.title, part.name)
        for split in splits(part, [*reading.twins]):
            told.append(split)
            section.findings += findings(split, reading.judging, lead)
            section.blocks += [_drop(split), _levels(split), *_across(reading, split, lead)]
        section.findings.sort(key=lambda finding: -finding.weight)
        section.blocks = [block for block in section.blocks if block.figures or block.tables or block.findings]
        found.sections.append(section)
    found.answers = answers(told)
    return found


def _drop(split: Split) -> Block:
    """The bars under both maps, the numbers, and every part with its intervals."""
    block = Block(f"What the base's probe misses in {split.model}", _note(split))
    for parts, by in ((ROTATION, "rotation, shift and scale"), (AFFINE, "any affine map")):
        bars = split.bars(parts)
        named = [said for name, said in parts.items() if name in split.frames]
        if len(named) < 2 or bars["layer"].nunique() < 2:
            continue
        colours = {said: colour for said, colour in zip(parts.values(), COLOURS, strict=True) if said in named}
        about = f"{split.part.title}: what the base's probe misses in {split.model} by layer, {parts_named(named)}"
        block.figures.append(split_chart(bars, {DROP: "", **colours}, DROP, f"{about} ({by})", f"Map: {by}"))
    if split.frames.keys() & {DROP, *ROTATION, *AFFINE}:
        block.tables.append(_table(split))
    block.folded += [fold for name in split.frames if name != "elsewhere" for fold in _folded(split, name)]
    return block


def _note(split: Split) -> str:
    runs = _runs(split)
    text = f"Means over {runs} runs of fine-tuning. " if runs > 1 else ""
    text += "The bars of a layer add up to the black tick, the whole drop. Pale: not shown to differ from 0."
    return f"{text} Test words are the same for all readings."


def _runs(split: Split) -> int:
    rows = split.part.rows[split.part.rows["model"] == split.model]
    return int(rows["tune_seed"].nunique())


def _table(split: Split) -> Table:
    """A line for every layer: the parts in points, with their verdicts."""
    names = [name for name in (DROP, *ROTATION, *list(AFFINE)[1:]) if name in split.frames]
    heads = {DROP: "drop", **ROTATION, "re_encoded_affine": "re-encoded (affine)", "moved_affine": "moved (affine)"}
    layers = sorted({at for name in names for at in split.frames[name].index})
    lines = [[numbers.place_cell(LAYER, at), *(_cell(split, name, at) for name in names)] for at in layers]
    caption = f"Points that the base's probe misses in {split.model}; in brackets, the verdict against 0"
    return Table(caption, ["layer", *(heads[name] for name in names)], lines)


def _cell(split: Split, name: str, at: int) -> str:
    row = split.at(name, at)
    if row is None:
        return "\u2013"
    word = {"higher": "above", "lower": "below", "unchanged": "none"}.get(row["verdict"], row["verdict"])
    return f"{numbers.change(split.metric(name), row['value'])} ({word})"


def _folded(split: Split, name: str) -> Iterator[Folded]:
    """A part with its intervals, as a chart and a table."""
    metric = split.metric(name)
    rows = changes.of(split.part, metric)
    rows = rows[rows["model"] == split.model].dropna(subset="difference") if len(rows) else rows
    if rows.empty:
        return
    rows = rows.assign(x=rows["layer"].astype(float)).sort_values("x")
    about = f"{split.part.title}: {metric.title}, {split.model}"
    yield Folded(
        f"{capital(metric.title)}, with intervals",
        [change_chart(rows, metric, LAYER, about)] if len(rows) > 1 else [],
        [changes.change_table(split.part, metric, LAYER, rows)],
    )


def _levels(split: Split) -> Block:
    """The accuracies of all readings."""
    declared, frames = split.part.declared.metrics, []
    for name in _LEVELS:
        if name in declared:
            frame = curves.curve_frame(split.part.rows, declared[name], LAYER)
            frames.append(frame[frame["model"] == split.model].assign(series=declared[name].title))
    frame = pd.concat(frames) if frames else pd.DataFrame()
    block = Block(f"What every reading gets right: {split.model}", closed=True)
    if len(frame):
        metric = replace(declared["base_accuracy"], title="accuracy")
        about = f"{split.part.title}: accuracies on {split.model} by layer"
        levels = curves.baselines(split.part, metric, split.model)
        if frame["x"].nunique() > 1:
            block.figures.append(curves_chart(frame, metric, LAYER, about, levels, what="reading"))
        block.tables.append(default.value_table(frame, metric, LAYER))
    return block


def _across(reading: Reading, split: Split, lead: str) -> Iterator[Block]:
    """Probes of layers that lost something, on every layer of the tuned model."""
    metric = split.part.declared.metrics.get("across_accuracy")
    rows = split.part.rows[split.part.rows["model"] == split.model]
    if metric is None or not (rows["metric"] == metric.name).any():
        return
    block = Block(
        f"Is it in another layer of {split.model}?",
        "The base's probes of layers that read less on dev, each on every layer of the tuned model after a map onto "
        "its own layer; accuracy in percent. On its own layer it is the reading that the split above uses.",
        findings=list(elsewhere(split, reading.judging, lead)),
    )
    titles = "layer of the tuned model", "layer of the base's probe"
    for name, grid in rows[rows["metric"] == metric.name].groupby("subset", sort=False):
        grid = grid.astype({"value": float}).groupby(["layer", "layer2"], as_index=False)["value"].mean()
        grid = grid.rename(columns={"layer": "x", "layer2": "y"})
        about = f"{split.part.title}: {metric.title} of {split.model}, {_MAPS[str(name)]}"
        block.figures.append(map_chart(grid, metric, titles, about, capital(_MAPS[str(name)])))
    yield block
