"""Measures that are told by a curve: a value by layer, or by how much of the model was held, cut or replaced."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from vestige.report.wording import DASH, number, points, signed

SCORE = "score"
"""Stands for the measure that the task is scored by, whatever its name."""
OWN_SCORE = "own score"
"""Stands for the measure that a model's own task is judged by."""
BESIDE = ("_low", "_high", "_majority")
"""Endings of what belongs to another measure: its interval, and what always the same answer would score."""


@dataclass(frozen=True)
class Curve:
    """One measure of an analysis, as it is drawn."""

    metric: str
    title: str
    """Of the axis it is drawn on."""
    axis: str = ""
    """Name of the axis that it runs along, as the results have it; empty: layers."""
    along: str = ""
    """The same for a reader."""
    unit: Literal["percent", "plain"] = "plain"
    decimals: int = 2

    def text(self, value: float) -> str:
        """A value as a reader would write it."""
        return number(100 * value if self.unit == "percent" else value, self.decimals)

    def change(self, difference: float) -> str:
        """A difference of two values; of percent in points, with a decimal more."""
        if self.unit == "percent":
            return points(difference, self.decimals + 1)
        return signed(difference, self.decimals)

    def span(self, low: float, high: float) -> str:
        """The interval of a difference; a dash where there is none."""
        return DASH if pd.isna(low) else f"{self.change(low)} to {self.change(high)}"

    def at(self, x: float) -> str:
        """A place on the axis."""
        if self.axis:
            return f"{number(x, 0)}"
        return "embeddings" if x == 0 else number(x, 0)


def score_metric(rows: pd.DataFrame) -> str | None:
    """The first measure of a tuned model's rows, which is the one its task is scored by."""
    named = [name for name in rows["metric"].drop_duplicates() if not name.endswith(BESIDE)]
    return next((name for name in named if name != "trained_parameters"), None)


def own_measure(rows: pd.DataFrame) -> str | None:
    """The measure that the own task of a model, of which rows are, is judged by: the first one."""
    named = rows.loc[rows["metric"].str.startswith("task_"), "metric"].drop_duplicates()
    return next((name for name in named if not name.endswith(BESIDE)), None)


def curve_frame(rows: pd.DataFrame, curve: Curve, models: Sequence[str]) -> pd.DataFrame:
    """One row a point: model, subset, x, value, low, high, runs.

    Values are means over runs of fine-tuning and probe seeds. An interval reaches from the lowest end to the
    highest of the intervals that the analysis gives of the runs; where it gives none, it is the range of the runs.
    """
    if curve.metric == OWN_SCORE:
        rows = _own_scores(rows)
    metric = score_metric(rows) if curve.metric == SCORE else curve.metric
    place = "x" if curve.axis else "layer"
    plain = rows[rows["label"].isna() & rows["head"].isna() & rows["layer2"].isna() & rows[place].notna()]
    plain = plain[plain["axis"] == curve.axis] if curve.axis else plain[plain["axis"].isna()]
    frames = []
    for name in ("", "_low", "_high"):
        part = plain[plain["metric"] == f"{metric}{name}"]
        keys = {"model": part["model"], "subset": part["subset"].fillna(""), "run": part["tune_seed"].fillna(0)}
        frame = pd.DataFrame({**keys, "x": part[place].astype(float), "value": part["value"].astype(float)})
        frames.append(frame.groupby(["model", "subset", "x", "run"], sort=False)["value"].mean())
    runs = pd.DataFrame(dict(zip(("value", "own_low", "own_high"), frames, strict=True))).reset_index()
    runs = runs.dropna(subset="value")
    grouped = runs.groupby(["model", "subset", "x"], sort=False)
    found = grouped.agg(
        value=("value", "mean"), low=("own_low", "min"), high=("own_high", "max"), least=("value", "min"),
        most=("value", "max"), intervals=("own_low", "count"), runs=("value", "size"),
    ).reset_index()  # fmt: skip
    only_range = (found["intervals"] < found["runs"]) & (found["runs"] > 1)
    found["low"] = found["low"].mask(only_range, found["least"])
    found["high"] = found["high"].mask(only_range, found["most"])
    order = {name: place for place, name in enumerate(models)}
    found = found[found["model"].isin(order)].drop(columns=["least", "most"])
    return found.sort_values(["x"], kind="stable").sort_values("model", key=lambda m: m.map(order), kind="stable")


def _own_scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Every model's own measure, under one name."""
    parts = [rows[:0]]
    for _, part in rows.groupby("model", sort=False):
        name = own_measure(part)
        names = {f"{name}{side}": f"{OWN_SCORE}{side}" for side in ("", "_low", "_high")}
        mine = part[part["metric"].isin(names)]
        parts.append(mine.assign(metric=mine["metric"].map(names).astype(rows["metric"].dtype)))
    return pd.concat(parts)


def named_series(frame: pd.DataFrame) -> pd.DataFrame:
    """With a column `series`: the model, the subset, or both, whatever tells curves apart."""
    several_models, several_subsets = frame["model"].nunique() > 1, frame["subset"].nunique() > 1
    if several_subsets and not several_models:
        series = frame["subset"].where(frame["subset"] != "", frame["model"])
    elif several_subsets:
        series = (frame["model"] + ", " + frame["subset"]).str.removesuffix(", ")
    else:
        series = frame["model"]
    return frame.assign(series=series)
