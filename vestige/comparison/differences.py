"""The table of differences: one row per layer, with everything a reader would ask of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from vestige.comparison.pairing import Paired, pair
from vestige.comparison.statistics import bootstrap, equivalence_p, sign_flip_p
from vestige.measures.resampling import interval
from vestige.measures.student import Student


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
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None, metric: str = "accuracy"
) -> pd.DataFrame:
    """Differences tuned - base per layer, from item tables of a probe (one base, one or more tuned runs).

    `metric` is what the share of right items is called; where control items are there, control_accuracy
    and selectivity come beside it.
    """
    settings = settings or Settings()
    task = pair(_subset(base, "task"), [_subset(frame, "task") for frame in tuned])
    tables = [judge(metric, task, task.base, task.tuned, settings)]
    if all((frame["subset"] == "control").any() for frame in (base, *tuned)):
        control = pair(_subset(base, "control"), [_subset(frame, "control") for frame in tuned])
        tables.append(judge("control_accuracy", control, control.base, control.tuned, settings))
        left = task.base.mean(-1, keepdims=True) - control.base
        right = task.tuned.mean(-1, keepdims=True) - control.tuned
        tables.append(judge("selectivity", task, left, right, settings))
    return pd.concat(tables, ignore_index=True)


def compare_subsets(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None
) -> pd.DataFrame:
    """Differences of accuracy per `subset`, from item tables that have no layers (probes on some neurons)."""
    settings = settings or Settings()
    known = [set(frame["subset"].unique()) for frame in (base, *tuned)]
    names = [name for name in base["subset"].unique() if all(name in others for others in known)]
    number = {name: place for place, name in enumerate(names)}

    def numbered(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame[frame["subset"].isin(names)]
        return frame.assign(layer=frame["subset"].astype(object).map(number).astype(int), probe_seed=0)

    paired = pair(numbered(base), [numbered(frame) for frame in tuned])
    table = judge("accuracy", paired, paired.base, paired.tuned, settings)
    table.insert(1, "subset", [names[place] for place in table["layer"]])
    return table.assign(layer=pd.NA)


def control_false_discoveries(table: pd.DataFrame, settings: Settings | None = None) -> pd.DataFrame:
    """Add `q` (Benjamini-Hochberg over layers x tasks x models, per metric and setting) and the `verdict`."""
    settings = settings or Settings()
    table = table.copy()
    table["q"] = np.nan
    family = [name for name in ("analysis", "params", "metric") if name in table]
    for _, rows in table.groupby(family).groups.items():
        table.loc[rows, "q"] = false_discovery_control(table.loc[rows, "p"].to_numpy())
    changed = table["q"] <= settings.alpha
    unchanged = table["p_equivalence"] <= settings.alpha
    table["verdict"] = np.select(
        [changed & (table["difference"] < 0), changed & (table["difference"] > 0), unchanged],
        ["lower", "higher", "unchanged"],
        default="undecided",
    )
    return table


def summarise(table: pd.DataFrame, threshold: float = 0.01) -> Mapping[str, float | int | None]:
    """Derived figures of one task's accuracy table: best layers, first drop, area between the curves."""
    rows = table[table["metric"] == "accuracy"].sort_values("layer")
    drops = rows[rows["difference"] < -threshold]
    largest = rows.loc[rows["difference"].abs().idxmax()]
    return {
        "best_layer_base": int(rows.loc[rows["base"].idxmax(), "layer"]),
        "best_layer_tuned": int(rows.loc[rows["tuned"].idxmax(), "layer"]),
        "best_base": float(rows["base"].max()),
        "best_tuned": float(rows["tuned"].max()),
        "first_drop": int(drops["layer"].iloc[0]) if len(drops) else None,
        "threshold": threshold,
        "area": float(np.trapezoid(rows["difference"], rows["layer"])),
        "largest_change": float(largest["difference"]),
        "largest_change_layer": int(largest["layer"]),
    }


def _subset(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    return frame[frame["subset"] == name]


def judge(metric: str, paired: Paired, base: np.ndarray, tuned: np.ndarray, settings: Settings) -> pd.DataFrame:
    """One row a layer, from `base` (sentences, layers, seeds) and `tuned` (runs, sentences, layers, seeds) in words.

    With one run, intervals are a bootstrap's and p a sign-flip test's, over sentences: they are about this
    checkpoint. With several, both are Student's, over sentences and runs: they are about the next run, too.
    """
    runs, sentences, layers, seeds = tuned.shape
    before, after = base.mean(-1), tuned.mean(-1)
    differences = after.mean(0) - before
    columns = np.concatenate([differences, before, after.mean(0)], axis=-1)
    drawn = bootstrap(columns, paired.words, settings.resamples, settings.seed, paired.strata)
    distribution, base_spread, tuned_spread = np.split(drawn, 3, axis=1)
    items = distribution.std(0, ddof=1)
    base_low, base_high = interval(base_spread, settings.confidence)
    if runs == 1:
        low, high = interval(distribution, settings.confidence)
        tuned_low, tuned_high = interval(tuned_spread, settings.confidence)
        p = sign_flip_p(paired.weights[:, None] * differences, settings.resamples, settings.seed)
        p_equivalence = equivalence_p(distribution, settings.margin)
        spread = np.full(layers, np.nan)
    else:
        by_run = np.stack([paired.mean(run - before) for run in after])
        found = Student.over_runs(by_run, items, sentences)
        low, high = found.interval(settings.confidence)
        levels = np.stack([paired.mean(run) for run in after])
        level = Student.over_runs(levels, tuned_spread.std(0, ddof=1), sentences)
        tuned_low, tuned_high = level.interval(settings.confidence)
        p, p_equivalence = found.p, found.outside(settings.margin)
        spread = by_run.std(0, ddof=1)
    return pd.DataFrame(
        {
            "metric": metric,
            "layer": list(paired.layers),
            "base": paired.mean(before),
            "tuned": paired.mean(after.mean(0)),
            "difference": paired.mean(differences),
            "low": low,
            "high": high,
            "p": p,
            "p_equivalence": p_equivalence,
            "sd_items": items,
            "sd_probe_seed": _spread_of_seeds(base, tuned, paired),
            "sd_tuning_run": spread,
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


def _spread_of_seeds(base: np.ndarray, tuned: np.ndarray, paired: Paired) -> np.ndarray:
    """(layers,): standard deviation of the difference over probe seeds; NaN with a single seed."""
    layers = base.shape[1]
    if base.shape[-1] != tuned.shape[-1] or base.shape[-1] < 2:
        return np.full(layers, np.nan)
    return paired.mean(tuned.mean(0) - base).std(-1, ddof=1)
