"""Weights: where the parameters moved, and how."""

from collections.abc import Iterator

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.models.files.kinds import KINDS
from vestige.report import curves, default, numbers
from vestige.report.drawing.curves import map_chart
from vestige.report.pages.weight_parts.cosines import cosine_block
from vestige.report.pages.weight_parts.levels import cell, half_of, in_order, level, levels, place_name, where
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Block, Finding, Folded, Page, Section, Table
from vestige.report.wording import GLUE, capital, count, listing, number, percent

TITLE = "What moved in the weights?"
_LEDE = (
    "The weights of every tuned model beside those of its reference. Numbers describe the checkpoints: nothing is "
    "sampled, so that nothing is tested, and how much a change of weights matters for what the model does is another "
    "question."
)
_LIMIT = (
    "Numbers on weights are exact for these checkpoints and say nothing of other runs of the same tuning; a small "
    "change of weights may matter, a large one may not. Poolers and heads are no part of their sums."
)
_WEIGHT = 0.3
"""Of a sentence that describes: it may open the report and claims nothing."""
_MOST_ROWS = 40
"""Matrices that are listed, those with the largest shares."""


def page(reading: Reading, analysis: str) -> Page:
    """A heat map of layers and kinds for every model, curves by layer, kinds, matrices and cosines of changes."""
    found = Page(TITLE, _LEDE, limits=[_LIMIT])
    for part in reading.parts(analysis):
        lead = default.lead_of(part, TITLE)
        section = Section(part.title, part.name)
        for model in part.models:
            said = list(_sentences(part, model))
            section.findings += [Finding(lead, text, "described", _WEIGHT, (*part.key, model)) for text in said]
            found.answers += [Answer("parameters", model, text, "described") for text in _answer(part, model)]
        section.blocks += _blocks(reading, part, lead)
        found.sections.append(section)
    return found


def _blocks(reading: Reading, part: Part, lead: str) -> Iterator[Block]:
    metrics = {metric.name: metric for metric in curves.of_metric(part)}
    if "relative_change" in metrics:
        yield from _heat_maps(part, metrics["relative_change"])
    for metric in metrics.values():
        for axis in metric.along:
            if axis.name:
                yield from default.curve_blocks(reading, part, metric, axis)
    yield from _kind_blocks(part)
    cosines = cosine_block(reading, part, lead)
    if cosines is not None:
        yield cosines
    yield from _matrices(reading, part)


def _heat_maps(part: Part, metric: Metric) -> Iterator[Block]:
    """Relative change by layer and kind, a map for every model."""
    heading = f"{capital(metric.title)} by layer and kind"
    for model in part.models:
        rows = levels(part, metric.name, model, layers=True, kinds=True)
        if rows.empty:
            continue
        names = [place_name(row.layer, row.subset) for row in rows.itertuples()]
        frame = pd.DataFrame({"x": rows["label"], "y": names, "value": rows["value"]})
        across, down = in_order(list(rows["label"]), KINDS), list(dict.fromkeys(names))[::-1]
        drawn = map_chart(frame, metric, ("", LAYER.title), f"{heading}: {model}", "", across, down)
        named = f"{heading}: {model}" if len(part.models) > 1 else heading
        yield Block(named, f"{metric.about} In percent.", figures=[drawn])


def _kind_blocks(part: Part) -> Iterator[Block]:
    """What changed in every kind of weight, a table for every model."""
    shown = [name for name in _KIND_COLUMNS if (part.rows["metric"] == name).any()]
    block = Block("By kind of weight")
    for model in part.models:
        columns = {name: levels(part, name, model, layers=False, kinds=True) for name in shown}
        sizes = columns["relative_change"] if "relative_change" in columns else pd.DataFrame()
        if sizes.empty:
            continue
        lines = []
        for kind in in_order(list(sizes["label"]), KINDS):
            own = {name: rows[rows["label"] == kind] for name, rows in columns.items()}
            values = [cell(part.declared.metrics[name], own[name]) for name in shown]
            lines.append([kind, count(own["relative_change"]["n"].iloc[0]), *values])
        heads = [numbers.axis_title(part.declared.metrics[name]) for name in shown]
        block.tables.append(Table(model if len(part.models) > 1 else "", ["kind", "weights", *heads], lines))
    if block.tables:
        yield block


_KIND_COLUMNS = ("relative_change", "share", "stable_rank", "intruders")


def _matrices(reading: Reading, part: Part) -> Iterator[Block]:
    """The matrices with the largest shares of the change, folded, of every run of every model."""
    kept, block = reading.kept("matrices"), Block("Matrices")
    cells = part.rows[["cell", "model", "tune_seed"]].drop_duplicates()
    for row in cells.itertuples(index=False):
        table = kept.get(row.cell, pd.DataFrame())
        if table.empty or not table["change"].any():
            continue
        largest = table.sort_values("share", ascending=False, kind="stable").head(_MOST_ROWS)
        run = f", run {row.tune_seed}" if (cells["model"] == row.model).sum() > 1 else ""
        relative = largest["change"] / largest["norm"].where(largest["norm"] > 0)
        lines = [
            [
                str(one.name), f"{one.rows} \u00d7 {one.columns}", percent(change, 2), percent(one.share, 2),
                number(one.spectral_norm, 3), number(one.stable_rank, 1), number(one.intruders, 0),
            ]
            for one, change in zip(largest.itertuples(index=False), relative, strict=True)
        ]  # fmt: skip
        head = ["weight", "shape", "relative (%)", "share (%)", "spectral norm", "stable rank", "intruders"]
        title = f"{row.model}{run}: the {len(lines)} of {len(table)} weights that changed most"
        block.folded.append(Folded(title, tables=[Table("", head, lines)]))
    if block.folded:
        yield block


def _sentences(part: Part, model: str) -> Iterator[str]:
    """What is said of a model: how far, where, in which kinds, and whether by intruder dimensions."""
    nothing = _nothing(part, model)
    if nothing:
        yield nothing
        return
    yield from _how_far(part, model)
    yield from _shares(part, model)
    yield from _intruders(part, model)


def _nothing(part: Part, model: str) -> str:
    """That no parameter differs, where none does."""
    differing = levels(part, "changed_tensors", model, layers=False, kinds=False)
    if differing.empty or differing["high"].iloc[0] > 0:
        return ""
    rounding = levels(part, "rounding", model, layers=False, kinds=False)
    but = " but for the rounding of its precision" if len(rounding) and rounding["value"].iloc[0] > 0 else ""
    compared = count(differing["n"].iloc[0])
    return f"No parameter of {model} differs from its reference's{but} ({compared} tensors compared)."


def _how_far(part: Part, model: str) -> Iterator[str]:
    metric = part.declared.metrics["relative_change"]
    whole = levels(part, metric.name, model, layers=False, kinds=False)
    by_kind = levels(part, metric.name, model, layers=True, kinds=True)
    if whole.empty:
        return
    text = f"The weights of {model} differ from its reference's by {_percent(metric, whole.iloc[0])} of their norm"
    if len(by_kind):
        top = by_kind.loc[by_kind["value"].idxmax()]
        text += f"; the largest relative change is in {_at(top)}, {top['label']}: {_percent(metric, top)} of its norm"
    rounding = levels(part, "rounding", model, layers=False, kinds=False)
    if len(rounding) and rounding["value"].iloc[0] > 0:
        floor = _percent(part.declared.metrics["rounding"], rounding.iloc[0])
        text += f"; storing the reference in the precision of {model} alone makes {floor}"
    yield f"{text}."


def _shares(part: Part, model: str) -> Iterator[str]:
    shares = levels(part, "share", model, layers=True, kinds=False)
    kinds = levels(part, "share", model, layers=False, kinds=True)
    if len(shares):
        yield f"{capital(_held(shares, f'the squared change of {model}'))}."
    if len(kinds):
        half = half_of(kinds)
        sizes = half["n"].sum() / kinds["n"].sum()
        weights = f"which {'has' if len(half) == 1 else 'have'} {percent(sizes, 0)}{GLUE}% of its weights"
        yield f"{_share(half)} of the squared change of {model} is in {listing(list(half['label']))}, {weights}."


def _held(shares: pd.DataFrame, what: str) -> str:
    """Which layers hold half of it; that no few of them do, where it takes more than half of them."""
    half = half_of(shares)
    if 2 * len(half) > len(shares) > 2:
        return f"{what} is spread: no {len(half) - 1} of the embeddings and layers hold half of it"
    return f"{_share(half)} of {what} is in {where(half)}"


def _share(rows: pd.DataFrame) -> str:
    return f"{percent(rows['value'].sum(), 0)}{GLUE}%"


def _intruders(part: Part, model: str) -> Iterator[str]:
    whole = levels(part, "intruders", model, layers=False, kinds=False)
    if whole.empty:
        return
    metric, row = part.declared.metrics["intruders"], whole.iloc[0]
    text = f"Of {count(row['n'])} leading singular vectors of matrices of attention and MLP of {model}, "
    if row["high"] == 0:
        yield f"{text}each is like one of its reference's: there are no {metric.title}."
        return
    text += f"{level(metric, row)} {'is' if row['high'] == 1 else 'are'} like none of its reference's ({metric.title})"
    layers = levels(part, "intruders", model, layers=True, kinds=False)
    there = layers[layers["value"] > 0]
    yield f"{text}, in {where(there)}." if len(there) else f"{text}."


def _answer(part: Part, model: str) -> Iterator[str]:
    """One sentence: how far the weights moved, and which layers hold half of it."""
    nothing = _nothing(part, model)
    if nothing:
        yield nothing
        return
    metric = part.declared.metrics["relative_change"]
    whole = levels(part, metric.name, model, layers=False, kinds=False)
    shares = levels(part, "share", model, layers=True, kinds=False)
    if len(whole):
        most = f"; {_held(shares, 'the squared change')}" if len(shares) else ""
        yield f"The weights differ from the base's by {_percent(metric, whole.iloc[0])} of their norm{most}."


def _percent(metric: Metric, row: pd.Series) -> str:
    return f"{level(metric, row)}{GLUE}%"


def _at(row: pd.Series) -> str:
    return where(row.to_frame().T)
