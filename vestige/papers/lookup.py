"""Finding numbers in the tables of a run: the few ways in which every page of a paper reads them."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from vestige.papers.verdicts import Estimate

ENDS = ("value", "low", "high")
"""Columns of a number and its interval."""
SEEDS = ["params", "probe_seed", "tune_seed"]
"""What tells independent runs of an analysis apart: a seed is a parameter of some and a column of others."""


def pick(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows whose columns have these values; None: missing."""
    for name, value in where.items():
        table = table[table[name].isna()] if value is None else table[table[name] == value]
    return table


def one(results: pd.DataFrame, metric: str, column: str = "value", **where: Any) -> float:
    """The one number a metric has there, or the mean over runs; `column` low or high: that end of its interval."""
    rows = pick(results, metric=metric, **where)
    if rows.empty:
        raise LookupError(f"no {metric} where {where}")
    return float(rows[column].mean())


def over_seeds(rows: pd.DataFrame, measure: Callable[[pd.DataFrame], float]) -> Estimate:
    """A measure over independent runs of an analysis; of one run it is a number without an interval."""
    return Estimate.of_runs([measure(run) for _, run in rows.groupby(SEEDS, dropna=False)])


def percent(share: float) -> str:
    """A share in percent, with two digits as the papers have it."""
    return f"{100 * share:.2f}"


ALPHA = 0.05
"""Up to this q a change is significant."""


def stands_out(row: Any) -> str:
    """A star for a change that is significant after correction, be it within the margin."""
    return "*" if row.q <= ALPHA else ""
