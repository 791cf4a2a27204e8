"""What fine-tuning changed, in sentences and tables made from the declaration of a metric.

Every number in a sentence is a number of the table `comparisons`; a change is claimed only where the verdict is.
"""

from collections.abc import Sequence

import pandas as pd

from vestige.analyses.metric import LAYER, WHOLE, Axis, Metric
from vestige.comparison.differences import FAILED, Settings
from vestige.report import numbers
from vestige.report.reading import Part
from vestige.report.types import Evidence, Finding, Table
from vestige.report.wording import GLUE, bare_chance, capital, chance, listing

_OTHER = {"lower": "higher", "higher": "lower"}
WEIGHTS = {"unchanged": 0.8, "undecided": 0.4, "described": 0.2}
"""How much a finding matters that claims no change; one that does weighs its size in margins, at least 1."""
_APART = ("split", "pooling", "label", "input", "side", "subset", "subset2", "head")
"""Columns that tell places on one axis apart."""

_PLAIN = ("subset", "subset2")
"""Of these the value says what it is ('logit lens', 'block'), and the name of the column nothing."""


def of(part: Part, metric: Metric) -> pd.DataFrame:
    """The comparisons of one metric."""
    return part.changes[part.changes["metric"] == metric.name] if len(part.changes) else part.changes


def change_findings(part: Part, metric: Metric, judging: Settings, lead: str) -> list[Finding]:
    """A finding for every tuned model, the largest changes first."""
    found: list[Finding] = []
    if part.changes.empty:
        return found
    for model, rows in of(part, metric).dropna(subset=["difference"]).groupby("model", sort=False):
        text, kind = (_contrast if all(metric.sides) else _sentence)(metric, rows, judging)
        found.append(Finding(lead, text, kind, weight(rows, kind), (*part.key, str(model)), evidence(rows)))
    return sorted(found, key=lambda finding: -finding.weight)


def weight(rows: pd.DataFrame, kind: str) -> float:
    """How much a finding of these comparisons matters; `kind` is the verdict it goes by."""
    if kind not in _OTHER:
        return WEIGHTS.get(kind, WEIGHTS["described"])
    shown = rows[rows["verdict"].isin(_OTHER)]
    return max(1.0, float((shown["difference"].abs() / shown["margin"]).max()))


def evidence(rows: pd.DataFrame) -> Evidence | None:
    """The comparison that a sentence on these rows names first: the largest change, of those claimed if any is."""
    rows = rows[rows["verdict"] != FAILED]
    shown = rows[rows["verdict"].isin(_OTHER)]
    chosen = shown if len(shown) else rows
    return None if chosen.empty else Evidence.of(_largest(chosen))


def beyond(metric: Metric, rows: pd.DataFrame, alpha: float) -> str:
    """' by more than ±0.5 points' where a difference within the margin is significant: it is shown, small as it is."""
    small = (rows["verdict"] == "unchanged") & (rows["q"] <= alpha)
    return f" by more than \u00b1{numbers.margin(metric, rows['margin'].max())}" if small.any() else ""


def _largest(rows: pd.DataFrame) -> pd.Series:
    return rows.loc[rows["difference"].abs().idxmax()]


def interval(judging: Settings) -> str:
    """'95 % interval'."""
    return f"{100 * judging.confidence:g}{GLUE}% interval"


def with_numbers(metric: Metric, row: pd.Series, judging: Settings, tested: bool = True) -> str:
    """'(82.6 -> 79.5, 95 % interval -3.9 to -2.3, q = 0.001)'; interval and, if `tested`, q where there are any."""
    parts = [numbers.moved(metric, row["base"], row["tuned"])]
    if pd.notna(row["low"]):
        parts.append(f"{interval(judging)} {numbers.span(metric, row['low'], row['high'])}")
    if tested and pd.notna(row["q"]):
        parts.append(chance("q", row["q"]))
    return f"({', '.join(parts)})"


def change_table(part: Part, metric: Metric, axis: Axis, rows: pd.DataFrame) -> Table:
    """The changes of one tuned model along an axis: a line a place."""
    first = rows.iloc[0]
    apart = [name for name in _APART if rows[name].nunique(dropna=False) > 1]
    where = [numbers.axis_name(axis)] if axis.name else []
    lines, further = [], 1 if metric.unit == "percent" else 0
    for _, row in rows.iterrows():
        place = [numbers.place_cell(axis, row["x"])] if axis.name else []
        variant = ["" if pd.isna(row[name]) else str(row[name]) for name in apart]
        lines.append([*variant, *place, *cells(metric, row, further)])
    sides = metric.sides if all(metric.sides) else (first["reference"], first["model"])
    variants = ["variant" if name in _PLAIN else name for name in apart]
    head = [*variants, *where, *sides, "difference" if all(metric.sides) else "change", "interval", "q", "verdict"]
    if not apart and not where:
        head, lines = ["metric", *head], [[metric.title, *line] for line in lines]
    whose = first["model"] if all(metric.sides) else f"{first['model']} minus {first['reference']}"
    caption = capital(f"{numbers.axis_title(metric)}, {whose}")
    return Table(caption, head, lines, tuple(rows["verdict"]), max(1, len(apart)))


def cells(
    metric: Metric,
    row: pd.Series,
    further: int,
    sides: Sequence[str] = ("base", "tuned"),
    tests: Sequence[str] = ("q",),
) -> list[str]:
    """A line of a table: both levels, their difference with its interval (`further` decimals more), tests, verdict."""
    return [
        *(numbers.text(metric, row[side]) for side in sides),
        numbers.change(metric, row["difference"], further),
        numbers.span(metric, row["low"], row["high"], further),
        *(bare_chance(row[test]) for test in tests),
        str(row["verdict"]),
    ]


def _sentence(metric: Metric, rows: pd.DataFrame, judging: Settings) -> tuple[str, str]:
    """What is said of one model and metric, and the verdict it goes by."""
    model, reference = rows["model"].iloc[0], rows["reference"].iloc[0]
    every, rows = _every(rows), rows[rows["verdict"] != FAILED]
    if rows.empty:
        return f"All probes of {model} or {reference} failed: nothing is shown of {metric.title}.", "described"
    shown, within = rows[rows["verdict"].isin(_OTHER)], numbers.margin(metric, rows["margin"].max())
    same, everywhere = rows[rows["verdict"] == "unchanged"], every * (len(rows) > 1)
    if len(same) == len(rows):
        return f"In {model}, {metric.title} is as in {reference}{everywhere}, within \u00b1{within}.", "unchanged"
    chosen = shown if len(shown) else rows
    top = _largest(chosen)
    place = _places(metric, top.to_frame().T)
    where = f"{place} {with_numbers(metric, top, judging)}"
    if rows["q"].isna().all():
        text = f"Differences of {metric.title} between {model} and {reference} are described, not tested"
        return f"{text}{'; the largest is' * bool(everywhere)}{where}.", "described"
    if shown.empty:
        nowhere = "nowhere" if everywhere else "not"
        text = f"In {model}, {metric.title} is {nowhere} shown to differ from {reference}"
        text += f"{beyond(metric, rows, judging.alpha)}; the{' largest' * bool(everywhere)} difference is"
        size = "" if place else f" {numbers.change(metric, top['difference'])}"
        return f"{text}{size}{where}.", "undecided"
    verdict = str(top["verdict"])
    text = f"In {model}, {metric.title} is {verdict} than in {reference}{where}"
    for name in (verdict, _OTHER[verdict]):
        rest = shown[(shown["verdict"] == name) & (shown.index != top.name)]
        if len(rest):
            text += f"; {'also' if name == verdict else name}{_places(metric, rest)}"
    if len(same):
        text += f"; unchanged within \u00b1{within}{_places(metric, same)}"
    return f"{text}.", verdict


def _contrast(metric: Metric, rows: pd.DataFrame, judging: Settings) -> tuple[str, str]:
    """What is said of a metric that is itself a difference of two scores: where it is above or below 0."""
    model = rows["model"].iloc[0]
    every, rows = _every(rows), rows[rows["verdict"] != FAILED]
    if rows.empty:
        return f"All probes of {model} failed: nothing is shown of {metric.title}.", "described"
    shown, same = rows[rows["verdict"].isin(_OTHER)], rows[rows["verdict"] == "unchanged"]
    within, everywhere = numbers.margin(metric, rows["margin"].max()), every * (len(rows) > 1)
    if len(same) == len(rows):
        return f"In {model}, {metric.title} is none{everywhere}, within \u00b1{within}.", "unchanged"
    chosen = shown if len(shown) else rows
    top = _largest(chosen)
    where = f"{numbers.change(metric, top['difference'])}{_places(metric, top.to_frame().T)}"
    where = f"{where} {with_numbers(metric, top, judging)}"
    if rows["q"].isna().all():
        largest = "; the largest is" if everywhere else ":"
        return f"In {model}, {metric.title} is described, not tested{largest} {where}.", "described"
    if shown.empty:
        nowhere = "nowhere" if everywhere else "not"
        text = f"In {model}, {metric.title} is {nowhere} shown to differ from 0{beyond(metric, rows, judging.alpha)}"
        return f"{text}; largest: {where}.", "undecided"
    verdict = str(top["verdict"])
    text = f"In {model}, {metric.title} is {where}"
    for name, word in ((verdict, "also"), (_OTHER[verdict], "below 0" if verdict == "higher" else "above 0")):
        rest = shown[(shown["verdict"] == name) & (shown.index != top.name)]
        text += f"; {word}{_places(metric, rest)}" if len(rest) else ""
    text += f"; none within \u00b1{within}{_places(metric, same)}" if len(same) else ""
    return f"{text}.", verdict


def _every(rows: pd.DataFrame) -> str:
    """How 'at all places' is said."""
    return " wherever no probe failed" if (rows["verdict"] == FAILED).any() else " everywhere"


def _places(metric: Metric, rows: pd.DataFrame) -> str:
    """' at layers 2 to 4', ' for input mix', ' at layer 6 (logit lens)'; empty of a whole model."""
    apart = [name for name in _APART if rows[name].notna().any()]
    axes = {axis.name: axis for axis in metric.along}
    found: dict[tuple[str, str], list[float]] = {}
    for _, row in rows.iterrows():
        own = axes.get(row["axis"]) if pd.notna(row["axis"]) else LAYER if pd.notna(row["layer"]) else WHOLE
        axis = own or Axis(str(row["axis"]), str(row["axis"]))
        variant = row[apart].dropna()
        named = ", ".join(f"{name} {value}" for name, value in variant.items() if name not in _PLAIN)
        plain = ", ".join(str(value) for name, value in variant.items() if name in _PLAIN)
        at = row["layer"] if axis is LAYER else 0.0 if axis is WHOLE else row["x"]
        whose = f" for {named}" * bool(named) + f" ({plain})" * bool(plain)
        found.setdefault((whose, axis.name), []).append(float(at))
    texts = [
        f"{f' at {numbers.places(axes.get(name, LAYER), at)}' if name else ''}{whose}"
        for (whose, name), at in found.items()
    ]
    return f" {listing([text.strip() for text in texts])}" if any(texts) else ""
