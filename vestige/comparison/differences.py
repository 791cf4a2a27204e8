"""The table of differences: one row per layer, with everything a reader would ask of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from vestige.comparison.pairing import Paired, pair
from vestige.comparison.statistics import bootstrap, equivalence_p, sign_flip_p
from vestige.measures.resampling import interval


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
    """One row a layer, from `base` (sentences, layers, seeds) and `tuned` (runs, sentences, layers, seeds) in words."""
    runs, sentences, layers, seeds = tuned.shape
    differences = tuned.mean(-1) - base.mean(-1)
    over_runs = np.broadcast_to(differences.mean(0), differences.shape)
    before = np.broadcast_to(base.mean(-1), differences.shape)
    together = np.concatenate([differences, over_runs, before, tuned.mean(-1)], axis=-1)
    drawn = bootstrap(together, paired.words, settings.resamples, settings.seed, paired.strata)
    distribution, items, base_spread, tuned_spread = (drawn[:, i * layers : (i + 1) * layers] for i in range(4))
    low, high = interval(distribution, settings.confidence)
    columns = {
        "metric": metric,
        "layer": list(paired.layers),
        "base": paired.mean(base.mean(-1)),
        "tuned": paired.mean(tuned.mean((0, 3))),
        "difference": paired.mean(differences.mean(0)),
        "low": low,
        "high": high,
        "p": sign_flip_p(paired.weights[:, None] * differences.mean(0), settings.resamples, settings.seed),
        "p_equivalence": equivalence_p(distribution, settings.margin),
        "sd_items": items.std(0, ddof=1),
        "sd_probe_seed": _spread_of_seeds(base, tuned, paired),
        "sd_tuning_run": _spread_of_runs(differences, paired),
        "sentences": sentences,
        "words": int(paired.words.sum()),
        "runs": runs,
        "seeds": seeds,
        "dropped_items": paired.dropped,
    }
    for name, spread in (("base", base_spread), ("tuned", tuned_spread)):
        columns[f"{name}_low"], columns[f"{name}_high"] = interval(spread, settings.confidence)
    return pd.DataFrame(columns)


def _spread_of_seeds(base: np.ndarray, tuned: np.ndarray, paired: Paired) -> np.ndarray:
    """(layers,): standard deviation of the difference over probe seeds; NaN with a single seed."""
    layers = base.shape[1]
    if base.shape[-1] != tuned.shape[-1] or base.shape[-1] < 2:
        return np.full(layers, np.nan)
    return paired.mean(tuned.mean(0) - base).std(-1, ddof=1)


def _spread_of_runs(differences: np.ndarray, paired: Paired) -> np.ndarray:
    """(layers,): standard deviation of the difference over tuning runs; NaN with a single run."""
    if len(differences) < 2:
        return np.full(differences.shape[-1], np.nan)
    return paired.mean(differences.swapaxes(0, 1)).std(0, ddof=1)
