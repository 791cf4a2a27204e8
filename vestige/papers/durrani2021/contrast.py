"""Changes of accuracy averaged over tuned models, layers and properties, with an interval of the average."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from vestige.papers.lookup import pick
from vestige.papers.observed import Observed
from vestige.papers.verdicts import Estimate

PROPERTIES = {
    "POS": ("ptb/pos", "ewt/xpos", "treebank/xpos"),
    "Chunking": ("conll2000/chunk", "chunks/chunk"),
    "SEM": ("pmb_semtags/semtag", "pmb/semtag"),
}
TITLES = {"sst2": "SST-2", "mnli": "MNLI", "qnli": "QNLI", "rte": "RTE", "mrpc": "MRPC", "stsb": "STS-B",
          "acceptability": "acceptability"}  # fmt: skip
"""Tuned models by role; the last is in no table of the paper."""


def params_of(side: Observed, protocol: str) -> str | None:
    """The setting of layer probes under a protocol; None: they were not trained under it."""
    return next(iter(side.settings("layer_probe", protocol=protocol)), None)


def changes_of(side: Observed, params: str) -> pd.DataFrame:
    """Differences of accuracy by layer under one setting of the probes."""
    found = pick(side.comparisons, analysis="layer_probe", params=params, metric="accuracy")
    return found.astype({"layer": int})


def accuracies(side: Observed, params: str) -> pd.DataFrame:
    """Accuracy by layer, a row per model, run, seed and property."""
    rows = pick(side.results, analysis="layer_probe", params=params, metric="accuracy", label=None)
    return rows[rows["layer"].notna()].astype({"layer": int, "value": float})


def contrast(side: Observed, params: str, weights: pd.DataFrame) -> Estimate:
    """A weighted sum of changes over models and layers, the mean over tasks; `weights` (models, layers).

    Runs are independent, and so are seeds of the base model's probes where it has several. The errors that
    sentences make in the layers and models of one task may be one and the same, so that they add up at worst; tasks
    have sentences of their own.
    """
    table = changes_of(side, params)
    known = table[table["model"].isin(weights.index)]
    rows = accuracies(side, params)
    tasks = rows["corpus"].nunique()
    base = rows[rows["model"] == "base"]
    by_seed = (base["value"] * base["layer"].map(weights.sum()) / tasks).groupby(base["probe_seed"]).sum()
    mine = rows[rows["model"].isin(weights.index)]
    mine = mine.groupby(["model", "tune_seed", "corpus", "layer"], as_index=False)["value"].mean()
    by_run = (mine["value"] * _weighed(weights, mine) / tasks).groupby([mine["model"], mine["tune_seed"]]).sum()
    runs = [list(by_run[model] * len(weights)) for model in weights.index]
    if (known["verdict"] == "described").any():
        return Estimate(Estimate.of_groups(runs).value - float(by_seed.mean()))
    worst = (known["sd_items"].astype(float) * _weighed(weights, known).abs()).groupby(known["corpus"]).sum() / tasks
    tuned = Estimate.of_groups(runs, float(np.sqrt((worst**2).sum())), int(known["sentences"].min()))
    if len(by_seed) > 1:
        return tuned - Estimate.of_runs(list(by_seed))
    return tuned - Estimate(float(by_seed.iloc[0]), float(by_seed.iloc[0]), float(by_seed.iloc[0]))


def _weighed(weights: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """The weight of every row's model and layer."""
    found = [weights.loc[model, number] for model, number in zip(rows["model"], rows["layer"], strict=True)]
    return pd.Series(found, index=rows.index, dtype=float)


def weights_of(models: Mapping[str, float], layers: pd.Series) -> pd.DataFrame:
    """The outer product of weights by model and by layer."""
    return pd.DataFrame(np.outer(list(models.values()), layers), index=list(models), columns=layers.index)
