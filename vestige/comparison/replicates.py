"""Differences of numbers that are no ratio of sums: an intrinsic dimension, a correlation, a similarity.

An analysis computes such a number again without each of some twenty groups of sentences (`vestige.measures.jackknife`).
Base and tuned leave out the same sentences, so that what the sentences do to both is not taken for a difference. Seeds
of probes and runs of fine-tuning are further sources of error, as everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vestige.comparison.estimators import Replicates
from vestige.comparison.uncertainty import Scores
from vestige.errors import AnalysisError
from vestige.measures.jackknife import LEAST_GROUPS, jackknife_error
from vestige.measures.student import Student

Places = dict[tuple, np.ndarray]
"""By place: (seeds, 1 + groups), the number of all sentences first, then without each group."""


@dataclass(frozen=True)
class LeftOut:
    """Numbers of base and tuned runs at the places that all have."""

    places: pd.DataFrame
    base: np.ndarray
    """(places, base seeds, 1 + groups)."""
    tuned: np.ndarray
    """(runs, places, tuned seeds, 1 + groups)."""
    sentences: int


def left_out(
    estimator: Replicates, base: pd.DataFrame, tuned: Sequence[pd.DataFrame], places: Sequence[str]
) -> LeftOut:
    """Read the tables of one base and its tuned runs; of an analysis of two models, both sides from the latter."""
    columns = [name for name in places if name in base and name not in estimator.selecting]
    second = [_by_place(estimator, table, columns, estimator.column) for table in tuned]
    if estimator.within:
        first = [_by_place(estimator, table, columns, estimator.before) for table in tuned]
    else:
        first = [_by_place(estimator, base, columns, estimator.column)]
    shared = [place for place in first[0] if _alike([table.get(place) for table in (*first, *second)])]
    if not shared:
        raise AnalysisError(
            "base and tuned were measured at different places, or without other groups of sentences",
            fix="run both on the same corpus and split, with the same parameters",
        )
    before = [np.stack([table[place] for place in shared]) for table in first]
    after = [np.stack([table[place] for place in shared]) for table in second]
    if estimator.within:  # runs and seeds differ in the difference and in nothing else
        level = np.broadcast_to(np.mean(before, axis=0).mean(1, keepdims=True), before[0].shape)
        after = [level + (one - other) for one, other in zip(after, before, strict=True)]
        before = [level]
    return LeftOut(
        pd.DataFrame(shared, columns=columns, dtype=object), before[0], np.stack(after), _sentences(base, *tuned)
    )


def judge_replicates(
    found: LeftOut, margin: float, *, stochastic: bool, confidence: float, rounding: float
) -> pd.DataFrame:
    """One row a place, in the columns of `vestige.comparison.differences.judge`.

    What differs by less than the share `rounding` differs by nothing.
    """
    scores = Scores(found.base[..., 0], found.tuned[..., 0], stochastic)
    before, after = found.base.mean(1), found.tuned.mean((0, 2))
    close = np.abs(after - before) <= rounding * np.maximum(np.abs(before), np.abs(after))
    change = np.where(close, 0.0, after - before)
    groups = change.shape[1] - 1
    error = jackknife_error(change[:, 1:]) if groups >= LEAST_GROUPS else np.full(len(change), np.nan)
    known = groups >= LEAST_GROUPS and not scores.described_only
    unknown = np.full(len(change), np.nan)
    errors, freedom = zip((error, groups - 1), *scores.sources(), strict=True)
    student = Student.of(change[:, 0], errors, freedom) if known else None
    low, high = student.interval(confidence) if student else (unknown, unknown)
    levels = {"base": before, "tuned": after}
    rows: dict[str, Any] = {
        **{name: level[:, 0] for name, level in levels.items()},
        "difference": change[:, 0],
        "low": low,
        "high": high,
        "p": student.p if student else unknown,
        "p_equivalence": student.outside(margin) if student else unknown,
        "margin": margin,
        "sd_items": error,
        "sd_probe_seed": scores.sd_probe_seed,
        "sd_tuning_run": scores.sd_tuning_run,
        "sentences": found.sentences,
        "items": found.sentences,
        "runs": scores.runs,
        "seeds": found.tuned.shape[2],
        "dropped_items": 0,
    }
    for name, level in levels.items():
        if groups >= LEAST_GROUPS:
            own = Student.of(level[:, 0], [jackknife_error(level[:, 1:])], [groups - 1])
            rows[f"{name}_low"], rows[f"{name}_high"] = own.interval(confidence)
        else:
            rows[f"{name}_low"] = rows[f"{name}_high"] = unknown
    return pd.concat([found.places, pd.DataFrame(rows)], axis=1)


def _by_place(estimator: Replicates, table: pd.DataFrame, columns: Sequence[str], value: str) -> Places:
    for name, wanted in estimator.where:
        table = table[table[name] == wanted]
    table = table.assign(probe_seed=table.get("probe_seed", 0)).dropna(subset=value)
    found: dict[tuple, dict[int, np.ndarray]] = {}
    for key, rows in table.groupby([*columns, "probe_seed"], sort=False, dropna=False, observed=True):
        *place, seed = key
        spot = tuple(None if pd.isna(one) else one for one in place)
        rows = rows.sort_values("left_out")
        if rows["left_out"].iloc[0] == -1:
            found.setdefault(spot, {})[int(seed)] = rows[value].to_numpy(dtype=np.float64)
    return {
        place: np.stack([by_seed[seed] for seed in sorted(by_seed)])
        for place, by_seed in found.items()
        if len({len(values) for values in by_seed.values()}) == 1
    }


def _alike(tables: Sequence[np.ndarray | None]) -> bool:
    """Whether all have the place, and left out as many groups."""
    return (
        all(table is not None for table in tables)
        and len({table.shape[1] for table in tables if table is not None}) == 1
    )


def _sentences(*tables: pd.DataFrame) -> int:
    return min(int(table["sentences"].min()) for table in tables)
