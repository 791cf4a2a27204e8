"""What a curve shows, in sentences: its best place, its lowest and highest value.

Every number in a sentence is a number of the table, with its interval where the analysis gives one. One value is
called lower than another only where their intervals are apart; without intervals, numbers are given and no more.
"""

import pandas as pd

from vestige.analyses.metric import LAYER, Axis, Metric
from vestige.report import numbers
from vestige.report.wording import be, capital


def points(frame: pd.DataFrame, model: str, variant: str | None = None) -> pd.DataFrame:
    """The points of a model's curve by place (value, low, high, intervals, runs), from a frame of all curves."""
    mine = frame[frame["model"] == model]
    mine = mine if variant is None else mine[mine["variant"] == variant]
    return mine.drop_duplicates("x").set_index("x").sort_index()


def level(metric: Metric, point: pd.Series) -> str:
    """'82.1 (80.0 to 84.2)'."""
    return numbers.level(metric, point["value"], point["low"], point["high"])


def has_interval(point: pd.Series) -> bool:
    """Whether there is an interval of every run: the range of a few runs is none."""
    return bool(point["intervals"] == point["runs"] and not pd.isna(point["low"]))


def below(one: pd.Series, other: pd.Series) -> bool:
    """Whether one value is shown to be below another: their intervals are apart. Without intervals nothing is."""
    return has_interval(one) and has_interval(other) and bool(one["high"] < other["low"])


def curve_note(metric: Metric, axis: Axis, curve: pd.DataFrame, whose: str) -> str:
    """A sentence on one curve; empty where there is none. What is better high or low has a best place."""
    if len(curve) < 2:
        return ""
    if metric.better == "neither":
        return f"{capital(metric.title)} of {whose} is {span(metric, axis, curve)}."
    return best(metric, axis, curve, whose)


def span(metric: Metric, axis: Axis, curve: pd.DataFrame) -> str:
    """'lowest at layer 3, 0.90 (0.88 to 0.92), and highest at layer 1, 0.99'; whether the two are shown to differ.

    Of places with one and the same number all are named.
    """
    low, high = curve.loc[curve["value"].idxmin()], curve.loc[curve["value"].idxmax()]
    if level(metric, low) == level(metric, high):
        return f"{level(metric, low)} at all {'layers' if axis.name == LAYER.name else 'places'}"
    text = f"lowest at {numbers.places(axis, _alike(metric, curve, low))}, {level(metric, low)}, "
    text += f"and highest at {numbers.places(axis, _alike(metric, curve, high))}, {level(metric, high)}"
    if below(low, high) or not (has_interval(low) and has_interval(high)):
        return text
    points = [point for _, point in curve.iterrows()]
    if any(below(one, other) for one in points for other in points):
        return f"{text}: these two are not shown to differ"
    return f"{text}: no {'layer' if axis.name == LAYER.name else 'place'} is shown to differ from another"


def _alike(metric: Metric, curve: pd.DataFrame, point: pd.Series) -> list[float]:
    """The places whose number is written as that of a point."""
    return [x for x, other in curve.iterrows() if level(metric, other) == level(metric, point)]


def best(metric: Metric, axis: Axis, curve: pd.DataFrame, whose: str) -> str:
    """The place at which a metric is best, and the places that are not shown to be worse."""
    lowest = metric.better == "lower"
    at = curve["value"].idxmin() if lowest else curve["value"].idxmax()
    top, worse = curve.loc[at], "higher" if lowest else "lower"
    where = [at] if has_interval(top) else _alike(metric, curve, top)
    text = f"{capital(metric.title)} of {whose} is {'lowest' if lowest else 'highest'} at {numbers.places(axis, where)}"
    text += f", {level(metric, top)}"
    if not has_interval(top):
        return f"{text}."
    apart = [below(top, other) if lowest else below(other, top) for _, other in curve.iterrows()]
    alike = [x for x, far in zip(curve.index, apart, strict=True) if not far and x != at]
    if not alike:
        return f"{text}."
    verb = be([int(x) for x in alike]) if axis.name == LAYER.name else "is" if len(alike) == 1 else "are"
    return f"{text}; {numbers.places(axis, alike)} {verb} not shown to be {worse}."


def blocks(count: float) -> str:
    """'1 block', '3 blocks'."""
    return f"{int(count)} block{'s' * (int(count) != 1)}"
