"""The table of differences: one row per place, with everything a reader would ask of it.

One path for every estimator: sums per sentence, resampled and exchanged between base and tuned; seeds of probes and
runs of fine-tuning as further sources of error; equivalence within the metric's own margin; false-discovery control.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from vestige.comparison.estimators import Estimator, Replicates
from vestige.comparison.pairing import Paired, pair
from vestige.comparison.replicates import judge_replicates, left_out
from vestige.comparison.statistics import bootstrap, exchange_p
from vestige.comparison.uncertainty import Scores, judge_differences, level_interval

LEAST_SENTENCES = 30
"""With fewer scored sentences, resampled intervals are too narrow to be trusted, and two sentences are 'unchanged'
whatever was done to the model: differences are described only."""

ROUNDING = 1e-4
"""Of a sentence, what differs by a smaller share than this is rounding: probes are not trained more exactly."""

FAILED = "failed probe"
"""The verdict where the probe of the base or of the tuned model failed: numbers stay, and nothing is claimed."""

TESTED = ["low", "high", "p", "p_equivalence"]


@dataclass(frozen=True)
class Settings:
    """How differences are judged."""

    resamples: int = 4999
    confidence: float = 0.95
    alpha: float = 0.05
    seed: int = 0


def compare(
    estimator: Estimator,
    base: pd.DataFrame,
    tuned: Sequence[pd.DataFrame],
    margin: float,
    settings: Settings | None = None,
    *,
    stochastic: bool = False,
    places: Sequence[str] = ("layer",),
) -> pd.DataFrame:
    """Differences tuned - base per place, from the tables an analysis left of one base and one or more tuned runs.

    `stochastic` says that another seed trains another probe: the variance over seeds of both sides is then part of
    every interval and test. A table may say so itself, in a column of that name.
    """
    stochastic = bool(base["stochastic"].any()) if "stochastic" in base else stochastic
    if isinstance(estimator, Replicates):
        found = left_out(estimator, base, tuned, places)
        confidence = (settings or Settings()).confidence
        return judge_replicates(found, margin, stochastic=stochastic, confidence=confidence, rounding=ROUNDING)
    paired = pair(estimator, base, tuned, places)
    return pd.concat([judge(one, margin, settings or Settings(), stochastic) for one in paired], ignore_index=True)


def judge(paired: Paired, margin: float, settings: Settings, stochastic: bool = False) -> pd.DataFrame:
    """One row a place. With one run, intervals and tests are about this checkpoint; with several, about any run."""
    sentences, runs, seeds = len(paired.sentences), len(paired.tuned), paired.tuned.shape[-1]
    base_units, tuned_units = paired.own_units or (None, [None] * runs)
    scores = Scores(
        paired.score(paired.base, base_units),
        np.stack([paired.score(run, units) for run, units in zip(paired.tuned, tuned_units, strict=True)]),
        stochastic,
    )
    base_spread, tuned_spread = _resampled(paired, settings)
    distribution = tuned_spread - base_spread
    limits = {"confidence": settings.confidence, "margin": margin}
    judged = judge_differences(scores, distribution, sentences, lambda: _exchange_p(paired, settings), **limits)
    base_low, base_high = level_interval(scores.base, base_spread, sentences, settings.confidence)
    tuned_low, tuned_high = level_interval(scores.by_run, tuned_spread, sentences, settings.confidence)
    rows = {
        "base": scores.base.mean(1),
        "tuned": scores.tuned.mean((0, 2)),
        "difference": _difference(paired, scores),
        **dict(zip(TESTED, judged, strict=True)),
        "margin": margin,
        "sd_items": distribution.std(0, ddof=1),
        "sd_probe_seed": scores.sd_probe_seed,
        "sd_tuning_run": scores.sd_tuning_run,
        "sentences": sentences,
        "items": paired.items,
        "runs": runs,
        "seeds": seeds,
        "dropped_items": paired.dropped,
        "base_low": base_low,
        "base_high": base_high,
        "tuned_low": tuned_low,
        "tuned_high": tuned_high,
    }
    return pd.concat([paired.places, pd.DataFrame(rows)], axis=1)


def _means(paired: Paired) -> tuple[np.ndarray, np.ndarray]:
    """Sums (sentences, places) of base and tuned, means over seeds and runs; what differs by rounding is made equal."""
    before, after = paired.base.mean(-1), paired.tuned.mean((0, -1))
    close = np.abs(after - before) <= ROUNDING * np.maximum(np.abs(before), np.abs(after))
    return before, np.where(close, before, after)


def _difference(paired: Paired, scores: Scores) -> np.ndarray:
    if paired.own_units is not None:
        return scores.difference
    before, after = _means(paired)
    return paired.score(after) - paired.score(before)


def _resampled(paired: Paired, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """(resamples, places) each: the scores of base and tuned, means over seeds and runs, on sentences drawn anew."""
    drawing = settings.resamples, settings.seed, paired.strata
    places = len(paired.places)
    if paired.own_units is None:
        drawn = bootstrap(np.concatenate(_means(paired), axis=1), paired.units, *drawing)
        return drawn[:, :places], drawn[:, places:]
    sides = [(paired.base, paired.own_units[0]), *zip(paired.tuned, paired.own_units[1], strict=True)]
    flat = [[part.reshape(len(part), -1) for part in side] for side in sides]
    base, *tuned = (
        bootstrap(sums, units, *drawing).reshape(settings.resamples, places, -1).mean(-1) for sums, units in flat
    )
    return base, np.mean(tuned, axis=0)


def _exchange_p(paired: Paired, settings: Settings) -> np.ndarray:
    if paired.own_units is not None:
        before, after = paired.base.mean(-1), paired.tuned[0].mean(-1)
        units = np.stack([paired.own_units[0].mean(-1), paired.own_units[1][0].mean(-1)])
    else:
        weights = paired.weights[:, None]
        before, after = (weights * sums for sums in _means(paired))
        units = np.broadcast_to(weights * paired.units[:, None], (2, *before.shape))
    return exchange_p(before, after, units, settings.resamples, settings.seed)


def confirmed(table: pd.DataFrame, other: pd.DataFrame | None, places: Sequence[str]) -> pd.DataFrame:
    """The table with p-values of the claim that another metric shows the same at the same place.

    Where the other metric was not measured nothing is tested: differences are described.
    """
    if other is None:
        return table.assign(**dict.fromkeys(TESTED, np.nan))
    keys = [name for name in places if name in table]
    beside = table[keys].merge(other[[*keys, "difference", "p", "p_equivalence"]], how="left", on=keys)
    opposed = np.sign(beside["difference"].to_numpy()) != np.sign(table["difference"].to_numpy())
    p = np.where(opposed, 1.0, np.maximum(table["p"], beside["p"].to_numpy()))
    return table.assign(
        p=np.where(table["p"].isna(), np.nan, p),
        p_equivalence=np.maximum(table["p_equivalence"], beside["p_equivalence"].to_numpy()),
    )


def control_false_discoveries(table: pd.DataFrame, settings: Settings | None = None) -> pd.DataFrame:
    """Add `q`, `q_equivalence` (Benjamini-Hochberg over places x tasks x models, per metric and setting), `verdict`.

    What is shown to lie within the margin is unchanged, even where a difference is significant.

    Differences without a test are `described`: one seed of a probe whose training depends on it, or fewer than
    `LEAST_SENTENCES` sentences. Those of failed probes (column `failed`) have no test and play no part in the
    correction.
    """
    settings = settings or Settings()
    few = table[[name for name in ("sentences", "other_sentences") if name in table]].min(axis=1) < LEAST_SENTENCES
    # of tables put together some have no such column: a missing value is no failure
    failed = table["failed"].eq(True) if "failed" in table else pd.Series(False, index=table.index)
    table = table.assign(**{name: table[name].astype(float).mask(few) for name in TESTED if name in table})
    table = table.assign(**{name: table[name].mask(failed) for name in ("p", "p_equivalence")})
    family = [name for name in ("analysis", "params", "metric") if name in table]
    table = table.assign(
        q=table.groupby(family)["p"].transform(_adjusted),
        q_equivalence=table.groupby(family)["p_equivalence"].transform(_adjusted),
    )
    changed = table["q"] <= settings.alpha
    unchanged = table["q_equivalence"] <= settings.alpha
    table["verdict"] = np.select(
        [failed, table["p"].isna(), unchanged, changed & (table["difference"] < 0), changed],
        [FAILED, "described", "unchanged", "lower", "higher"],
        default="undecided",
    )
    return table.drop(columns="failed", errors="ignore")


def _adjusted(p: pd.Series) -> pd.Series:
    known = p.dropna()
    return (
        pd.Series(scipy.stats.false_discovery_control(known), index=known.index).reindex(p.index) if len(known) else p
    )
