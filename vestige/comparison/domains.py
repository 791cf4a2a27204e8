"""In the domain and out of it: is a tuned model less like its base on the corpus it was tuned on?

merchant2020 section 6. Works on the tables that an analysis leaves for every corpus (`Analysis.in_domain`): what was
found, and what without each group of sentences.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings
from vestige.measures.jackknife import LEAST_GROUPS, Estimate, mean_difference


def compare_domains(
    inside: Sequence[pd.DataFrame],
    outside: Sequence[pd.DataFrame],
    margins: Mapping[str, float],
    settings: Settings | None = None,
) -> pd.DataFrame:
    """A metric in the domain minus that out of it, per metric and layer; empty without intervals.

    `inside` and `outside` are the tables of the same runs of a tuned model, with columns metric, layer, left_out
    (-1: nothing) and value; `margins` are those of equivalence, by metric. `in_domain`, `out_of_domain`
    and `difference` are means over runs, `sd_tuning_run` is the deviation of the difference over them.
    """
    settings = settings or Settings()
    sides = [[_estimates(table) for table in tables] for tables in (inside, outside)]
    rows = []
    for key in [key for key in sides[0][0] if all(key in run for side in sides for run in side)]:
        ones, others = ([run[key] for run in side] for side in sides)
        values = [np.array([estimate.value for estimate in side]) for side in (ones, others)]
        found = mean_difference(ones, others)
        low, high = found.interval(settings.confidence)
        rows.append(
            {
                "metric": key[0],
                "layer": key[1],
                "in_domain": values[0].mean(),
                "out_of_domain": values[1].mean(),
                "difference": float(found.value),
                "low": float(low),
                "high": float(high),
                "p": float(found.p),
                "p_equivalence": float(found.outside(margins[key[0]])),
                "margin": margins[key[0]],
                "sd_tuning_run": (values[0] - values[1]).std(ddof=1) if len(ones) > 1 else np.nan,
                "runs": len(ones),
            }
        )
    return pd.DataFrame(rows)


def _estimates(table: pd.DataFrame) -> dict[tuple[str, int], Estimate]:
    """By metric and layer, those that have an interval."""
    found = {}
    for (metric, layer), rows in table.groupby(["metric", "layer"], sort=False, observed=True):
        whole = rows["left_out"] == -1
        without = rows.loc[~whole, "value"].to_numpy()
        if len(without) >= LEAST_GROUPS:
            found[str(metric), int(layer)] = Estimate(float(rows.loc[whole, "value"].iloc[0]), without)
    return found
