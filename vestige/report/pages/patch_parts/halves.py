"""Sentences on where half of a change is made, as far as intervals allow to say."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from vestige.analyses.metric import LAYER, Axis, Metric
from vestige.report import curves, notes, numbers
from vestige.report.reading import Part
from vestige.report.wording import GLUE, capital

_KEPT, _RECOVERED = "_kept", "_recovered"
_HALF = 0.5


def halves(part: Part, model: str) -> Iterator[tuple[float, str]]:
    """Sentences of every score: where its change passes half, or that there is none to be found."""
    for metric in part.declared.metrics.values():
        measure = metric.name.removesuffix(_KEPT)
        if not metric.name.endswith(_KEPT):
            continue
        what = metric.title.partition("change of ")[2]
        yield from _nothing(part, model, measure, what)
        yield from _by_block(part, model, metric, what, "the base's output of a block in the tuned model leaves", False)
        back = part.declared.metrics[f"{measure}{_RECOVERED}"]
        yield from _by_block(part, model, back, what, "the tuned model's output of a block in the base brings", True)
        yield from _by_weights(part, model, back, what)


def _nothing(part: Part, model: str, measure: str, what: str) -> Iterator[tuple[float, str]]:
    rows = part.rows[part.rows["model"] == model]
    levels = [rows.loc[rows["metric"] == f"{measure}_{name}", "value"] for name in ("base", "tuned")]
    if (rows["metric"] == f"{measure}{_KEPT}").any() or not all(len(values) for values in levels):
        return
    shown = part.declared.metrics[f"{measure}_tuned"]
    base, tuned = (numbers.text(shown, float(values.mean())) for values in levels)
    yield 0.0, f"{capital(what)} is {base} in the base and {tuned} in {model}, not shown to differ: nothing to recover."


def _by_block(
    part: Part, model: str, metric: Metric, what: str, doing: str, rising: bool
) -> Iterator[tuple[float, str]]:
    points = _points(part, model, metric, LAYER, "block")
    passed = _passed(points if rising else points[::-1])
    if passed is None:
        return
    low, high = (points.loc[at] for at in passed)
    below, above = (numbers.places(LAYER, [at]) for at in passed)
    until, since = ("up to", "from") if rising else ("from", "up to")
    text = f"Of the change of {what}, {doing} less than half {until} {below} ({notes.level(metric, low)}"
    text += f"{GLUE}%) and more than half {since} {above} ({notes.level(metric, high)}{GLUE}%)"
    yield 2.0 - rising, f"{text}{_between(passed)}."


def _by_weights(part: Part, model: str, metric: Metric, what: str) -> Iterator[tuple[float, str]]:
    axis = next(axis for axis in metric.along if axis.name == "g")
    points = _points(part, model, metric, axis, "")
    passed = _passed(points)
    if passed is not None:
        low, high = (points.loc[at] for at in passed)
        text = f"On the straight line between the weights, g = {passed[0]:g} has {notes.level(metric, low)}{GLUE}% of "
        yield 0.5, f"{text}the change of {what}, and g = {passed[1]:g} has {notes.level(metric, high)}{GLUE}%."


def _points(part: Part, model: str, metric: Metric, axis: Axis, variant: str) -> pd.DataFrame:
    rows = part.rows[part.rows["subset"].fillna("") == variant]
    return notes.points(curves.curve_frame(rows, metric, axis), model)


def _passed(points: pd.DataFrame) -> tuple[float, float] | None:
    """The last place up to which all are shown to be below half, and the first from which all are above it."""
    if len(points) < 2 or not all(notes.has_interval(point) for _, point in points.iterrows()):
        return None
    below, above = (points["high"] < _HALF).to_numpy(), (points["low"] > _HALF).to_numpy()
    under, over = (
        points.index[np.logical_and.accumulate(below)],
        points.index[np.logical_and.accumulate(above[::-1])[::-1]],
    )
    return (float(under[-1]), float(over[0])) if len(under) and len(over) else None


def _between(passed: tuple[float, float]) -> str:
    """Which layers are not shown to lie on either side."""
    between = range(int(min(passed)) + 1, int(max(passed)))
    return f"; {numbers.places(LAYER, between)} may be on either side" if len(between) else ""
