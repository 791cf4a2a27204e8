"""Differences of rank correlations between the structural probes of a tuned model and of its reference."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from vestige.comparison.differences import Settings, judge
from vestige.comparison.pairing import pair
from vestige.measures.trees import LENGTHS

CORRELATIONS = ("dspr", "nspr")


def compare_trees(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None, *, stochastic: bool = True
) -> pd.DataFrame:
    """Metrics dspr and nspr per layer, with the columns of `compare_items`; those that a table lacks are left out.

    From the tables `sentences` that structural probes leave. Levels are averaged as the papers do, over the
    sentences of a length, then over lengths from 5 to 50; sentences are drawn anew and change sides whole.
    """
    settings = settings or Settings()
    tables = [table[table["words"].isin(LENGTHS)] for table in (base, *tuned)]
    lengths = dict(zip(tables[0]["sentence"], tables[0]["words"], strict=True))
    parts = []
    for metric in CORRELATIONS:
        if all(metric in table and len(table) for table in tables):
            first, *others = (table.assign(word=0, correct=table[metric]) for table in tables)
            paired = pair(first, others)
            strata = pd.Series(paired.sentences).map(lengths).to_numpy()
            paired = replace(paired, strata=strata)
            rows = judge(metric, paired, paired.base, paired.tuned, settings, stochastic)
            parts.append(rows.assign(words=int(strata.sum())))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
