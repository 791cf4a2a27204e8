"""Comparisons of probes that failed: numbers stay in the table, and nothing is claimed of them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

FAILED = "failed probe"
"""The verdict where the probe of the base or of the tuned model failed; see vestige.analyses.failed_probe."""

Failed = tuple[str, str, str, str, int]
"""Model, corpus, task, params and layer of a probe that failed."""


def is_failed(table: pd.DataFrame, failed: Iterable[Failed]) -> pd.Series:
    """Which rows of comparisons rest on a failed probe, of the tuned model or its reference."""
    known = set(failed)
    on = [
        [
            (row[side], row["corpus"], row["task"], row["params"], row["layer"]) in known
            for side in ("model", "reference")
        ]
        for row in table.to_dict("records")
    ]
    return pd.Series([any(sides) for sides in on], index=table.index, dtype=bool)


def without_tests(table: pd.DataFrame, failed: pd.Series) -> pd.DataFrame:
    """Failed probes have no p, so that they play no part in the correction for many tests."""
    return table.assign(**{name: table[name].where(~failed, np.nan) for name in ("p", "p_equivalence")})
