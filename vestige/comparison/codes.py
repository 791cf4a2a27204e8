"""Differences between the code lengths of a tuned model and of its reference."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from vestige.comparison.differences import Settings, judge
from vestige.comparison.pairing import pair


def compare_codes(base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None) -> pd.DataFrame:
    """Metric saved, the share of the uniform code that vectors save, per layer or mix (`subset`).

    From the tables `codes` that online codes leave; columns as those of `compare_items`. Only sentences of which
    all tables have as many labels are compared (another limit of tokens may cost some). Sentences are drawn anew
    and change sides whole, with the bits that they took. With several seeds (orders of sending), their variance is
    in intervals and tests; where the training of probes depends on the seed, one of them supports a description
    only. A higher share is a property more easily read out.
    """
    settings = settings or Settings()
    parts = []
    for subset in base["subset"].drop_duplicates():
        tables = [table[table["subset"] == subset] for table in (base, *tuned)]
        if any(table.empty for table in tables):
            continue
        sizes = [table.drop_duplicates("sentence").set_index("sentence") for table in tables]
        labels = pd.concat([size["labels"] for size in sizes], axis=1, join="inner")
        alike = labels.index[labels.nunique(axis=1) == 1]
        tables = [table[table["sentence"].isin(alike)] for table in tables]
        first, *others = (table.assign(word=0, correct=table["uniform_bits"] - table["bits"]) for table in tables)
        paired = pair(first, others)
        mine = sizes[0].loc[paired.sentences]
        paired = replace(paired, words=mine["uniform_bits"].to_numpy(dtype=float))
        words = int(mine["labels"].sum())
        dropped = max(int(size["labels"].sum()) for size in sizes) - words
        rows = judge("saved", paired, paired.base, paired.tuned, settings, bool(tables[0]["stochastic"].any()))
        rows = rows.assign(words=words, dropped_items=dropped)
        parts.append(rows.assign(subset=subset, layer=pd.NA) if subset else rows)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
