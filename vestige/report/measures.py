"""What the table of results holds for a picture or a table: means over seeds, baselines, labels."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

FEWEST = 20
"""Labels that occur less often than this are not shown: their F1 jumps."""

BASELINES = {
    "word_type_majority": "word-type majority",
    "first_word_majority": "first-word majority",
    "majority": "majority label",
}


LAYER_PROBES = ("layer_probe", "sentence_probe")
"""Analyses whose accuracy is drawn layer by layer and compared."""


def of_layer_probes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of results or comparisons that layer probes left."""
    return rows[rows["analysis"].isin(LAYER_PROBES)]


def layer_means(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A metric by corpus, task, params, model and layer: the mean over probe seeds and tuning runs."""
    plain = results["layer"].notna() & results["label"].isna() & results["subset"].isna()
    rows = results[(results["metric"] == metric) & plain]
    rows = rows.assign(layer=rows["layer"].astype(int), value=rows["value"].astype(float))
    keys = ["corpus", "task", "params", "model", "layer"]
    return rows.groupby(keys, sort=False, as_index=False)["value"].mean()


def of_task(frame: pd.DataFrame, corpus: str, task: str, params: str) -> pd.DataFrame:
    """The rows of one task under one setting."""
    return frame[(frame["corpus"] == corpus) & (frame["task"] == task) & (frame["params"] == params)]


def baselines(results: pd.DataFrame, corpus: str, task: str, params: str) -> dict[str, float]:
    """Accuracy of the baselines that look at no vector, by their name for a reader."""
    rows = of_task(results, corpus, task, params)
    found = {}
    for metric, name in BASELINES.items():
        values = rows.loc[rows["metric"] == metric, "value"]
        if len(values):
            found[name] = float(values.iloc[0])
    return found


def twins(lock: Mapping[str, Any]) -> dict[str, str]:
    """Random twins: the model each one is a twin of."""
    models = lock.get("spec", {}).get("models", {})
    return {name: model["random_twin_of"] for name, model in models.items() if model.get("random_twin_of")}


def twin_of(lock: Mapping[str, Any], reference: str) -> str | None:
    """The random twin of a model, if the study has one."""
    return next((name for name, other in twins(lock).items() if other == reference), None)


def label_changes(
    results: pd.DataFrame, where: tuple[str, str, str], models: tuple[str, str], layer: int, most: int = 12
) -> pd.DataFrame:
    """The labels whose F1 changed most at one layer: label, n, base, tuned, difference.

    `where` is (corpus, task, params), `models` (reference, tuned). F1 is the mean over probe seeds
    and tuning runs; labels with fewer than `FEWEST` occurrences are left out.
    """
    rows = of_task(results, *where)
    rows = rows[(rows["metric"] == "f1") & rows["label"].notna() & (rows["layer"] == layer)]
    rows = rows.assign(value=rows["value"].astype(float), n=rows["n"].astype(float))
    sides = [
        rows[rows["model"] == model].groupby("label", sort=False).agg(value=("value", "mean"), n=("n", "max"))
        for model in models
    ]
    table = sides[0].join(sides[1], lsuffix="_base", rsuffix="_tuned", how="inner").reset_index()
    table = table.rename(columns={"value_base": "base", "value_tuned": "tuned", "n_base": "n"}).drop(columns="n_tuned")
    table = table[table["n"] >= FEWEST]
    table["difference"] = table["tuned"] - table["base"]
    table = table.sort_values("difference", key=abs, ascending=False, kind="stable").head(most)
    return table.sort_values("difference", kind="stable").reset_index(drop=True)
