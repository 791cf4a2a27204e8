"""What fine-tuning changed, in sentences, of the analyses that are told by curves.

Every number in a sentence is a number of the table; a change is claimed only where the verdict is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from vestige.report.curves import Curve
from vestige.report.findings import Finding
from vestige.report.measures import of_task
from vestige.report.reading import Reading
from vestige.report.wording import ARROW, GLUE, chance, layer, layers, listing

_OTHER = {"lower": "higher", "higher": "lower"}


class Change(NamedTuple):
    """A finding on one tuned model, and the largest difference that it is about."""

    size: float
    finding: Finding


def task_changes(reading: Reading, rows: pd.DataFrame) -> pd.DataFrame:
    """The differences between models of the task and setting that rows are of."""
    known = reading.comparisons
    if known.empty:
        return known
    known = known[known["other_corpus"].isna()] if "other_corpus" in known else known
    first = rows.iloc[0]
    return of_task(known, first["corpus"], first["task"], first["params"])


def change_findings(reading: Reading, rows: pd.DataFrame, curves: Sequence[Curve], lead: str) -> list[Change]:
    """A finding a tuned model, on the first measure that is compared; the largest changes first."""
    found = []
    changes = task_changes(reading, rows)
    if changes.empty:
        return []
    for model, part in changes.dropna(subset=["difference", "q"]).groupby("model", sort=False):
        curve = next((curve for curve in curves if (part["metric"] == curve.metric).any()), None)
        curve = curve or share_curve(str(part["metric"].iloc[0]))
        mine = part[part["metric"] == curve.metric]
        layered = bool((rows["metric"].eq(curve.metric) & rows["layer"].notna()).any())
        text, kind = _sentence(str(model), mine, curve, reading, layered)
        shown = mine[mine["verdict"].isin(_OTHER)]
        found.append(
            Change(float(shown["difference"].abs().max() if len(shown) else 0), Finding(lead, text, kind, 2.0))
        )
    return sorted(found, key=lambda change: -change.size)


def share_curve(metric: str) -> Curve:
    """A measure that no chapter names: comparisons are of shares of right items."""
    return Curve(metric, f"{metric.replace('_', ' ')} (%)", unit="percent", decimals=1)


def _sentence(model: str, rows: pd.DataFrame, curve: Curve, reading: Reading, layered: bool = True) -> tuple[str, str]:
    """What is said of one model and measure, and the verdict it goes by; `layered`: whether layers were measured."""
    reference, what = rows["reference"].iloc[0], curve.title.removesuffix(" (%)")
    shown = rows[rows["verdict"].isin(_OTHER)]
    if (rows["verdict"] == "unchanged").all():
        margin = curve.change(reading.judging.margin).lstrip("+")
        return f"In {model}, {what} is as in {reference} everywhere, within \u00b1{margin}.", "unchanged"
    chosen = shown if len(shown) else rows
    top = chosen.loc[chosen["difference"].abs().idxmax()]
    level = f"{100 * reading.judging.confidence:g}{GLUE}% interval {curve.span(top['low'], top['high'])}"
    moved = GLUE.join([curve.text(top["base"]), ARROW, curve.text(top["tuned"])])
    numbers = f"({moved}, {level}, {chance('q', top['q'])})"
    if shown.empty:
        text = f"In {model}, {what} is nowhere shown to differ from {reference}; the largest difference is"
        return f"{text}{_places(top.to_frame().T, layered)} {numbers}.", "undecided"
    verdict = str(top["verdict"])
    text = f"In {model}, {what} is {verdict} than in {reference}{_places(top.to_frame().T, layered)} {numbers}"
    for name in (verdict, _OTHER[verdict]):
        rest = shown[(shown["verdict"] == name) & (shown.index != top.name)]
        if len(rest):
            text += f"; {'also' if name == verdict else name}{_places(rest, layered)}"
    return f"{text}.", verdict


def _places(rows: pd.DataFrame, layered: bool) -> str:
    """' at layers 2 to 4', ' from mix and top'; empty of a whole model."""
    named = rows["subset"].dropna() if "subset" in rows else []
    if len(named):
        return f" from {listing(list(map(str, named)))}"
    if not layered:
        return ""
    numbers = [int(number) for number in rows["layer"]]
    return f" at {layer(numbers[0]) if len(numbers) == 1 else layers(numbers)}"
