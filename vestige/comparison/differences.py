"""The table of differences: one row per layer, with everything a reader would ask of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from vestige.comparison.pairing import Paired, pair
from vestige.comparison.statistics import bootstrap, sign_flip_p
from vestige.comparison.uncertainty import Scores, judge_differences, level_interval
from vestige.errors import AnalysisError

STANDARDISED = "standardised"
"""Items of probes that read vectors around their mean, at unit scale and on their principal axes. A rotated, shifted
or rescaled copy of a model has the same ones: what raw vectors alone show may be no more than that."""


LEAST_SENTENCES = 30
"""With fewer scored sentences, resampled intervals are too narrow to be trusted, and two sentences are 'unchanged'
whatever was done to the model: differences are described only."""

_TESTED = ["low", "high", "p", "p_equivalence"]


ROUNDING = 1e-4
"""Of a sentence, what differs by a smaller share than this is rounding: probes are not trained more exactly."""


@dataclass(frozen=True)
class Settings:
    """How differences are judged."""

    resamples: int = 4999
    confidence: float = 0.95
    margin: float = 0.005
    """'Unchanged' means within this: 0.5 points of accuracy."""
    alpha: float = 0.05
    seed: int = 0


def compare_items(
    base: pd.DataFrame,
    tuned: Sequence[pd.DataFrame],
    settings: Settings | None = None,
    metric: str = "accuracy",
    *,
    stochastic: bool = False,
) -> pd.DataFrame:
    """Differences tuned - base per layer, from item tables of a probe (one base, one or more tuned runs).

    `metric` is what the share of right items is called; where control items are there, control_accuracy
    and selectivity come beside it. `stochastic` says that another seed trains another probe: the variance over
    seeds of both sides is then part of every interval and test. Where items of standardised vectors are there,
    a change (or the lack of one) is claimed only if they show it too; control tasks, which are not trained on
    such vectors, are then described.
    """
    settings = settings or Settings()
    frames = [base, *tuned]
    task = _paired(frames, "task")
    tables = [judge(metric, task, task.base, task.tuned, settings, stochastic)]
    unfinished = _have(frames, STANDARDISED)
    if unfinished:
        same = _paired(frames, STANDARDISED)
        standard = judge(f"{metric}_{STANDARDISED}", same, same.base, same.tuned, settings, stochastic)
        tables = [_in_both(tables[0], standard), standard]
    if _have(frames, "control"):
        control = _paired(frames, "control")
        left = task.base.mean(-1, keepdims=True) - control.base
        right = task.tuned.mean(-1, keepdims=True) - control.tuned
        both = [
            judge("control_accuracy", control, control.base, control.tuned, settings, stochastic),
            judge("selectivity", task, left, right, settings, stochastic),
        ]
        tables += [table.assign(**_UNTESTED) for table in both] if unfinished else both
    return pd.concat(tables, ignore_index=True)


_UNTESTED = dict.fromkeys(("low", "high", "p", "p_equivalence"), np.nan)


def _in_both(table: pd.DataFrame, standard: pd.DataFrame) -> pd.DataFrame:
    """The table with p-values of the claim that raw and standardised vectors show the same."""
    other = standard.set_index("layer").reindex(table["layer"])
    opposed = np.sign(other["difference"].to_numpy()) != np.sign(table["difference"].to_numpy())
    p = np.where(opposed, 1.0, np.maximum(table["p"], other["p"].to_numpy()))
    equivalent = np.maximum(table["p_equivalence"], other["p_equivalence"].to_numpy())
    return table.assign(p=np.where(table["p"].isna(), np.nan, p), p_equivalence=equivalent)


def compare_subsets(
    base: pd.DataFrame,
    tuned: Sequence[pd.DataFrame],
    settings: Settings | None = None,
    *,
    stochastic: bool = False,
) -> pd.DataFrame:
    """Differences of accuracy per `subset`, from item tables that have no layers (probes on some neurons)."""
    frames = [frame if "probe_seed" in frame else frame.assign(probe_seed=0) for frame in (base, *tuned)]
    known = [set(frame["subset"].unique()) for frame in frames]
    tables = []
    for name in base["subset"].unique():
        if all(name in others for others in known):
            first, *others = (frame[frame["subset"] == name].assign(layer=0) for frame in frames)
            paired = pair(first, others)
            table = judge("accuracy", paired, paired.base, paired.tuned, settings or Settings(), stochastic)
            tables.append(table.assign(subset=name, layer=pd.NA))
    if not tables:
        raise AnalysisError(
            "base and tuned have no selection of neurons in common", fix="run both with the same parameters"
        )
    return pd.concat(tables, ignore_index=True)


def control_false_discoveries(table: pd.DataFrame, settings: Settings | None = None) -> pd.DataFrame:
    """Add `q` and `q_equivalence` (Benjamini-Hochberg over layers x tasks x models, per metric and setting), `verdict`.

    What is shown to lie within the margin is unchanged, even where a difference is significant.

    Differences without a test are `described`: one seed of a probe whose training depends on it, or fewer than
    `LEAST_SENTENCES` sentences.
    """
    settings = settings or Settings()
    few = table[[name for name in ("sentences", "other_sentences") if name in table]].min(axis=1) < LEAST_SENTENCES
    table = table.assign(**{name: table[name].astype(float).mask(few) for name in _TESTED if name in table})
    family = [name for name in ("analysis", "params", "metric") if name in table]
    table = table.assign(
        q=table.groupby(family)["p"].transform(_adjusted),
        q_equivalence=table.groupby(family)["p_equivalence"].transform(_adjusted),
    )
    changed = table["q"] <= settings.alpha
    unchanged = table["q_equivalence"] <= settings.alpha
    table["verdict"] = np.select(
        [table["p"].isna(), unchanged, changed & (table["difference"] < 0), changed & (table["difference"] > 0)],
        ["described", "unchanged", "lower", "higher"],
        default="undecided",
    )
    return table


def _adjusted(p: pd.Series) -> pd.Series:
    known = p.dropna()
    return pd.Series(false_discovery_control(known), index=known.index).reindex(p.index) if len(known) else p


def _have(frames: Sequence[pd.DataFrame], subset: str) -> bool:
    return all((frame["subset"] == subset).any() for frame in frames)


def _paired(frames: Sequence[pd.DataFrame], subset: str) -> Paired:
    base, *tuned = (frame[frame["subset"] == subset] for frame in frames)
    return pair(base, tuned)


def judge(
    metric: str,
    paired: Paired,
    base: np.ndarray,
    tuned: np.ndarray,
    settings: Settings,
    stochastic: bool = False,
) -> pd.DataFrame:
    """One row a layer, from `base` (sentences, layers, seeds) and `tuned` (runs, sentences, layers, seeds) in words.

    With one run, intervals and tests are about this checkpoint. With several, they are about the next run, too.
    """
    runs, sentences, _, seeds = tuned.shape
    before, after = base.mean(-1), tuned.mean((0, -1))
    differences = after - before
    differences[np.abs(differences) <= ROUNDING * np.maximum(np.abs(before), np.abs(after))] = 0.0
    columns = np.concatenate([differences, before, after], axis=-1)
    drawn = bootstrap(columns, paired.words, settings.resamples, settings.seed, paired.strata)
    distribution, base_spread, tuned_spread = np.split(drawn, 3, axis=1)
    scores = Scores(paired.mean(base), np.stack([paired.mean(run) for run in tuned]), stochastic)

    def exchange_p() -> np.ndarray:
        return sign_flip_p(paired.weights[:, None] * differences, settings.resamples, settings.seed)

    limits = {"confidence": settings.confidence, "margin": settings.margin}
    judged = judge_differences(scores, distribution, sentences, exchange_p, **limits)
    by_run = np.moveaxis(scores.tuned.mean(2), 0, -1) if runs > 1 else scores.tuned[0]
    base_low, base_high = level_interval(scores.base, base_spread, sentences, settings.confidence)
    tuned_low, tuned_high = level_interval(by_run, tuned_spread, sentences, settings.confidence)
    return pd.DataFrame(
        {
            "metric": metric,
            "layer": list(paired.layers),
            "base": paired.mean(before),
            "tuned": paired.mean(after),
            "difference": paired.mean(differences),
            "low": judged.low,
            "high": judged.high,
            "p": judged.p,
            "p_equivalence": judged.p_equivalence,
            "sd_items": distribution.std(0, ddof=1),
            "sd_probe_seed": scores.sd_probe_seed,
            "sd_tuning_run": scores.sd_tuning_run,
            "sentences": sentences,
            "words": int(paired.words.sum()),
            "runs": runs,
            "seeds": seeds,
            "dropped_items": paired.dropped,
            "base_low": base_low,
            "base_high": base_high,
            "tuned_low": tuned_low,
            "tuned_high": tuned_high,
        }
    )
