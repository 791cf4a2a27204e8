"""What a watched model measured at one step, as flat names and numbers for a log of the training."""

from collections.abc import Sequence

import pandas as pd

from vestige.study.differences import analysis_of
from vestige.study.steps.analyse import Cell

_FURTHER = ("label", "head", "layer2", "axis", "axis2")
"""Rows that have one of these are parts of a table, not a curve over time."""
_APART = ("pooling", "split", "input", "side", "subset")


def log_numbers(cells: Sequence[Cell], rows: pd.DataFrame, model: str) -> dict[str, float]:
    """By name, every result of a model that is of one layer or of the whole model; means over seeds of the probes."""
    roles = {(cell.analysis, metric.name): metric.role for cell in cells for metric in analysis_of(cell).given}
    role = [roles.get((row.analysis, row.metric)) for row in rows.itertuples()]
    plain = rows[[*_FURTHER]].isna().all(axis=1) & (rows["model"] == model) & (pd.Series(role, rows.index) == "result")
    found = rows[plain]
    apart = [name for name in _APART if found[name].nunique(dropna=False) > 1]
    places = ["analysis", "task", "metric", *apart, "layer"]
    means = found.groupby(places, sort=False, dropna=False)["value"].mean()
    return {_name(place): float(value) for place, value in means.items()}


def _name(place: tuple) -> str:
    *words, layer = place
    parts = [str(word) for word in words if pd.notna(word) and word != ""]
    return "/".join(["vestige", *parts, *([f"layer_{int(layer):02d}"] if pd.notna(layer) else [])])
