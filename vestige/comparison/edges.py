"""Differences of F1 between the edge probes of a tuned model and of its reference."""

from collections.abc import Sequence

import pandas as pd

from vestige.comparison.differences import Settings
from vestige.comparison.f1 import F1Differences, f1_differences
from vestige.measures.edge_scores import Scorer

SCORERS: tuple[Scorer, ...] = ("micro", "tenney")


def compare_edges(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None, *, stochastic: bool = True
) -> pd.DataFrame:
    """Metrics f1_micro and f1_tenney per input of the probes (`subset`), with the columns of `compare_subsets`.

    From the tables `sentences` that edge probes leave. A mix of all layers that stands there under two
    names is compared once.
    """
    settings = settings or Settings()
    tables = [base, *tuned]
    again = set.intersection(*map(_whole_mixes, tables))
    tables = [table[~table["subset"].isin(again)] for table in tables]
    parts = []
    for scorer in SCORERS:
        found = f1_differences(tables[0], tables[1:], scorer, settings, stochastic=stochastic)
        parts.append(_rows(scorer, found, tables[0]))
    return pd.concat(parts, ignore_index=True)


def _whole_mixes(table: pd.DataFrame) -> set[str]:
    """Mixes of the layers up to some layer that did what the mix of all layers did."""
    counts = ["sentence", "probe_seed", *(name for name in table if name.endswith(("hits", "predicted", "gold")))]
    whole = table.loc[table["subset"] == "mix", counts].reset_index(drop=True)
    named = table[table["subset"].str.startswith("mix 0-")].groupby("subset")
    return {str(name) for name, part in named if part[counts].reset_index(drop=True).equals(whole)}


def _rows(scorer: Scorer, found: F1Differences, base: pd.DataFrame) -> pd.DataFrame:
    first = base[(base["subset"] == found.inputs[0]) & (base["probe_seed"] == base["probe_seed"].min())]
    gold = first.loc[first["sentence"].isin(found.compared), "gold" if scorer == "micro" else "tenney_gold"]
    return pd.DataFrame(
        {
            "metric": f"f1_{scorer}",
            "subset": list(found.inputs),
            "layer": pd.NA,
            "base": found.base,
            "tuned": found.tuned,
            "difference": found.scores.difference,
            "low": found.judged.low,
            "high": found.judged.high,
            "p": found.judged.p,
            "p_equivalence": found.judged.p_equivalence,
            "sd_items": found.sd_items,
            "sd_probe_seed": found.scores.sd_probe_seed,
            "sd_tuning_run": found.scores.sd_tuning_run,
            "sentences": len(found.compared),
            "words": int(gold.sum()),
            "runs": found.scores.runs,
            "seeds": base["probe_seed"].nunique(),
            "dropped_items": found.dropped,
        }
    )
