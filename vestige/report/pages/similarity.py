"""Similarity to the reference: how far representations moved, and how the domain of the tuning bears on it.

A fall of CKA that is that of a few words or units is named, and so is a CKA that stays high because of them: where
intervals are apart, by more than the margin, and most of the distance from 1 goes or comes with them.
"""

from collections.abc import Iterator

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.report import curves, default, notes, numbers
from vestige.report.pages.domains import add_domains
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Page


def page(reading: Reading, analysis: str) -> Page:
    """The default page; in words, the least similar layers of every model, and the corpora it is compared on."""
    found = default.page(
        reading,
        analysis,
        _sentences,
        "How far representations moved",
        "How alike the same inputs are in the tuned model and its reference, layer by layer: 1 says that they are "
        "the same up to what the measure leaves open (scale, rotation, or any linear map).",
    )
    found.answers = [answer for part in reading.parts(analysis) for answer in _answers(reading, part)]
    for section, part in zip(found.sections, reading.parts(analysis), strict=True):
        if len(part.domains):
            add_domains(reading, part, section, default.lead_of(part, found.title))
    return found


def _answers(reading: Reading, part: Part) -> Iterator[Answer]:
    """How alike every model is to its reference by the first measure: the least similar layer, where one is shown."""
    metric, several = curves.of_metric(part)[0], len(reading.parts(part.declared.analysis)) > 1
    for model in (name for name in part.models if name not in reading.twins):
        points = notes.points(curves.curve_frame(part.rows, metric, LAYER), model)
        if points.empty:
            continue
        least = points.loc[points["value"].idxmin()]
        others = points.drop(index=least.name)
        title = f"{metric.title} with the base{f' on {part.title}' if several else ''}"
        if len(others) and all(notes.below(least, other) for _, other in others.iterrows()):
            where = numbers.places(LAYER, [least.name])
            text = f"Hidden states are least like the base's at {where} ({title}: {notes.level(metric, least)})."
        else:
            text = f"{title} is {notes.span(metric, LAYER, points)}."
        yield Answer("representations", model, text)


_FEW = {
    "cka_without_extremes": ("a few words", "without extreme words"),
    "cka_without_outliers": ("a few units", "without outlier dimensions"),
}
"""Of a measure that leaves something out: what that is, and how its value is introduced."""
_MOST = 0.5
"""Share of the distance from 1 that has to go before it is said to be due to something."""


def _sentences(part: Part, model: str) -> Iterator[tuple[float, str]]:
    """The least similar layers by the first measure; then what is due to a few words or units."""
    yield from _least_alike(part, model)
    found = {metric.name: metric for metric in curves.of_metric(part)}
    for name, (few, without) in _FEW.items():
        if "cka" in found and name in found:
            plain, rest = (_points(part, found[one], model) for one in ("cka", name))
            yield from _due(found["cka"], plain, rest, model, few, without)


def _due(
    metric: Metric, plain: pd.DataFrame, rest: pd.DataFrame, model: str, few: str, without: str
) -> Iterator[tuple[float, str]]:
    layers = plain.index.intersection(rest.index)
    falls = [at for at in layers if _mostly_below(metric, plain.loc[at], rest.loc[at])]
    hides = [at for at in layers if _mostly_below(metric, rest.loc[at], plain.loc[at])]
    if falls:
        top = max(falls, key=lambda at: rest.loc[at, "value"] - plain.loc[at, "value"])
        values = _values(metric, plain.loc[top], rest.loc[top], without)
        where = numbers.places(LAYER, falls)
        text = f"Most of the fall of CKA of {model} at {where} is due to {few}: {values}"
        yield -float(rest.loc[top, "value"]), f"{text}{_at(top, falls)}."
    if hides:
        top = max(hides, key=lambda at: plain.loc[at, "value"] - rest.loc[at, "value"])
        values = _values(metric, plain.loc[top], rest.loc[top], without)
        text = f"CKA of {model} at {numbers.places(LAYER, hides)} stays high because of {few}: {values}"
        yield -float(plain.loc[top, "value"]), f"{text}{_at(top, hides)}."


def _mostly_below(metric: Metric, low: pd.Series, high: pd.Series) -> bool:
    """Whether one is below the other by more than the margin, and most of its distance from 1 is gone there."""
    if not notes.below(low, high) or metric.margin is None:
        return False
    return bool(high["low"] - low["high"] > metric.margin and 1 - high["low"] < _MOST * (1 - low["high"]))


def _values(metric: Metric, plain: pd.Series, rest: pd.Series, without: str) -> str:
    return f"{notes.level(metric, plain)} with all, {notes.level(metric, rest)} {without}"


def _at(top: float, layers: list[float]) -> str:
    return f", at {numbers.places(LAYER, [top])}" if len(layers) > 1 else ""


def _points(part: Part, metric: Metric, model: str) -> pd.DataFrame:
    return notes.points(curves.curve_frame(part.rows, metric, LAYER), model)


def _least_alike(part: Part, model: str) -> Iterator[tuple[float, str]]:
    for metric in curves.of_metric(part):
        points = notes.points(curves.curve_frame(part.rows, metric, LAYER), model)
        if len(points) > 1:
            where = notes.span(metric, LAYER, points)
            yield -float(points["value"].min()), f"{metric.title} of {model} and its reference is {where}."
            return
