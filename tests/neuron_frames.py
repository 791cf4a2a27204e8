"""Small synthetic tables of a neuron analysis, for the tests of the report; no model is needed."""

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
from report_frames import Frames, comparison, lock_of

from vestige.analyses.registry import find_analysis
from vestige.analyses.schema import IDENTITY, PLACE, VALUE, typed
from vestige.report.pages.neuron_parts.rows import ALL, Selection

PARAMETERS = {"pooling": "last", "split": "test", "l1": None, "l2": None, "grid": [0.0, 0.001], "step": 0.01}
ANALYSES = {"n0": "neurons", "r0": "neuron_rankers", "c0": "neuron_redundancy"}
"""By params."""
LAYERS = 4
_SPREAD = {"base": (10, 20, 40, 30), "tuned": (10, 50, 30, 10)}


def neuron_rows(model: str, run: int | None = None, label: str = "NOUN", **identity: Any) -> list[dict[str, Any]]:
    """What the analysis says of one model; another run finds ten neurons more in layer 1."""
    rows: list[dict[str, Any]] = []
    more = 10 * (run or 0)

    def add(metric: str, value: float, **where: Any) -> None:
        rows.append({"metric": metric, "value": value, **where})

    for l1 in (0.0, 0.001):
        for l2 in (0.0, 0.001):
            for name, value in (("score", 0.3 + 100 * l1), ("accuracy", 0.9), ("top", 0.8), ("bottom", 0.2)):
                add(f"search_{name}", value, axis="l1", x=l1, axis2="l2", x2=l2)
    gaps = (("objective", 0.37), ("optimality_gap", 0.07), ("refit_objective", 0.375), ("refit_optimality_gap", 0.1))
    for metric, value in (("l1", 0.001), ("l2", 0.0), ("neurons", 2000), *gaps):
        add(metric, value)
    for share, value in ((0.05, 0.85), (0.1, 0.9)):
        add("ranking_overlap", value, axis="share", x=share)
    ablated: dict[str, Any] = {"subset": "ablated", "axis": "share", "x": 0.2}
    sides = (("top", 0.9), ("random", 0.6), ("bottom", 0.2))
    for where, value in (({"subset": "all"}, 0.93), *(({**ablated, "side": side}, value) for side, value in sides)):
        add("accuracy", value, **where)
        add("dev_accuracy", value - 0.01, **where)
    for side, value in (("top", 0.88), ("bottom", 0.7)):
        add("accuracy", value, subset="retrained", side=side, axis="share", x=0.05)
    for size, value in ((20, 0.85), (40, 0.905), (100, 0.918), (110, 0.919)):
        add("dev_accuracy", value, subset="growing", axis="neurons", x=size)
    for delta, size, spread in (
        (0.005, 100 + more, _SPREAD.get(model, (25, 25, 25, 25))),
        (0.02, 40, (10, 10, 10, 10)),
    ):
        at = {"subset": "minimal", "axis": "delta", "x": delta}
        add("minimal_neurons", size, **at)
        add("minimal_share", size / 2000, **at)
        add("ranking_overlap", 0.82, **at)
        add("accuracy", 0.93 - delta, **at)
        add("control_accuracy", 0.5, **at)
        add("selectivity", 0.43 - delta, **at)
        for layer, neurons in enumerate(spread):
            add("selected_neurons", neurons + (more if layer == 1 and delta == 0.005 else 0), layer=layer, **at)
        for name, neurons, home in ((label, 60, 2), ("VERB", 30, 1)):
            add("label_neurons", neurons, label=name, **at)
            add("dominant_layer", home, label=name, **at)
        add("shared_neurons", 30, **at)
        add("exclusive_neurons", 70, **at)
    add("control_accuracy", 0.7, subset="all")
    add("selectivity", 0.23, subset="all")
    named = {
        "analysis": "neurons",
        "cell": f"{model}-{run or 0}",
        "model": model,
        "reference": None if model in ("base", "random twin") else "base",
        "tune_seed": run,
        "params": "n0",
        "corpus": "bank",
        "task": "upos",
        **identity,
    }
    return [{**named, **row} for row in rows]


def ranker_rows(model: str = "base") -> list[dict[str, Any]]:
    """Three rankers compared."""
    named = {
        "analysis": "neuron_rankers",
        "cell": "r",
        "model": model,
        "params": "r0",
        "corpus": "bank",
        "task": "upos",
    }
    rows: list[dict[str, Any]] = []
    for one, other, rho in (("probe", "probeless", 0.41), ("probe", "random", -0.02), ("probeless", "random", 0.03)):
        pair = {"subset": one, "subset2": other}
        rows.append({"metric": "agreement_spearman", "value": rho, **pair})
        for share in (0.05, 0.5):
            rows.append({"metric": "agreement_overlap", "value": abs(rho) * share, **pair, "axis": "share", "x": share})
    for name, value in (("probe", 0.9), ("probeless", 0.8), ("random", 0.85)):
        at = {"subset": name, "side": "top", "axis": "share", "x": 0.05}
        rows.append({"metric": "accuracy", "value": value, **at})
    return [{**named, **row} for row in rows]


def redundancy_rows(model: str = "base", reached: float = 0.9) -> list[dict[str, Any]]:
    """Clusters at one correlation; `reached` is the dev accuracy of the minimal set of representatives."""
    named = {"analysis": "neuron_redundancy", "cell": "c", "model": model, "params": "c0"}
    named |= {"corpus": "bank", "task": "upos"}
    rows: list[dict[str, Any]] = [
        {"metric": "accuracy", "value": 0.91, "subset": "all"},
        {"metric": "dev_accuracy", "value": 0.9, "subset": "all"},
        {"metric": "accuracy", "value": 0.88, "subset": "representatives", "axis": "correlation", "x": 0.7},
        {"metric": "clusters_over_layers", "value": 50, "axis": "correlation", "x": 0.7},
    ]
    for layer in (None, *range(LAYERS)):
        value = 900 if layer is None else 240
        rows.append({"metric": "clusters", "value": value, "axis": "correlation", "x": 0.7, "layer": layer})
    among = ({"subset": "all"}, {"subset": "representatives", "axis2": "correlation", "x2": 0.7})
    for where, size, accuracy in zip(among, (300, 200), (0.9, reached), strict=True):
        at = {**where, "axis": "delta", "x": 0.005}
        rows.append({"metric": "minimal_neurons", "value": size, **at})
        rows.append({"metric": "minimal_dev_accuracy", "value": accuracy, **at})
    return [{**named, **row} for row in rows]


def neuron_results(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The rows with the columns and kinds of a run."""
    return typed(pd.DataFrame(rows), (*IDENTITY, *PLACE, *VALUE))


def retrained(side: str, share: float = 0.05) -> Selection:
    """A probe trained anew on one side of the ranking."""
    return Selection("retrained", side, "share", share)


def selection_comparison(changes: dict[Selection, float], half: float = 0.004, **identity: Any) -> pd.DataFrame:
    """Differences by selection, without layers."""
    table = comparison(list(changes.values()), half=half, **{"analysis": "neurons", "params": "n0", **identity})
    places = pd.DataFrame([vars(selection) for selection in changes]).replace("", pd.NA)
    return table.assign(layer=pd.NA, margin=0.005, **places)


def selection_changes(
    mean_layer: Sequence[float],
    p: float,
    expected: float = 0.0,
    half: float = 0.05,
    beyond: float = 10.0,
) -> pd.DataFrame:
    """What fine-tuning did to a selection, one value of the mean layer a run; `beyond` is 4 from both ends."""
    rows: list[dict[str, Any]] = []
    exchange = [("stayed", 80, 88), ("left", 20, 12), ("entered", 30, 12)]
    for run, value in enumerate(mean_layer):
        refits = {"refit_base": 0.05, "refit_tuned": 0.07}
        rows.append({"statistic": "mean_layer", "run": run, "value": value, "expected": expected, "p": p, **refits})
        rows.append({"statistic": "earth_mover", "run": run, "value": abs(value), "expected": 0.1, "p": p, **refits})
        for name, neurons, again in exchange:
            refits = {"refit_base": again, "refit_tuned": again + 1.5}
            rows.append({"statistic": name, "run": run, "value": neurons, **refits})
        rows += [{"statistic": "share_change", "layer": n, "run": run, "value": 0.1 * n} for n in range(LAYERS)]
    mean = sum(mean_layer) / len(mean_layer)
    whole = [("mean_layer", None, mean, half), *(("share_change", n, 0.1 * n, half) for n in range(LAYERS))]
    whole += [("earth_mover", None, abs(mean), half if len(mean_layer) > 1 else float("nan"))]
    rows += [
        {"statistic": name, "layer": layer, "value": value, "low": value - wide, "high": value + wide}
        | {"refit_base": 0.05, "refit_tuned": 0.07}
        for name, layer, value, wide in [*whole, ("left_beyond_refit", None, beyond, 4.0)]
    ]
    rows += [{"statistic": name, "value": n, "refit_base": m, "refit_tuned": m + 1.5} for name, n, m in exchange]
    columns = ["statistic", "layer", "run", "value", "low", "high", "expected", "p", "refit_base", "refit_tuned"]
    kinds = {"layer": "Int16", "run": "Int32", **dict.fromkeys(columns[3:], "Float64")}
    table = pd.DataFrame(rows, columns=columns).astype(kinds)
    named = {"model": "tuned", "reference": "base", "params": "n0", "corpus": "bank", "task": "upos"}
    return table.assign(selection="top", axis="share", x=0.05, **named)


def explorer_frame(count: int = 3, word: str = "dog", label: str = "NOUN") -> pd.DataFrame:
    """The best neurons of a cell: the word is what all of them answer to."""
    made = [
        {
            "id": 100 + place,
            "layer": place % LAYERS,
            "unit": place,
            "sign": 1,
            "mean": -0.5,
            "deviation": 1.25,
            "selected_for": [label] if place % 2 == 0 else [],
            "words": [{"word": word, "count": 5, "z": 2.5}, {"word": "cat", "count": 4, "z": -1.0}],
            "occurrences": [{"word": word, "sentence": 0, "position": 1, "z": 3.0}],
            "sentences": [{"sentence": 0, "z": 3.0, "words": ["the", word, "barks"], "values": [None, 1.0, -0.4]}],
            "histogram": {
                "edges": [-2.0, 0.0, 2.0],
                "labels": [{"label": label, "counts": [1, 4]}, {"label": None, "counts": [9, 0]}],
            },
        }
        for place in range(count)
    ]
    return pd.DataFrame(
        {
            "neuron": [one["id"] for one in made],
            "layer": [one["layer"] for one in made],
            "unit": [one["unit"] for one in made],
            "rank": range(1, count + 1),
            "data": [json.dumps(one) for one in made],
        }
    )


def neuron_cells() -> pd.DataFrame:
    """The one setting n0."""
    return pd.DataFrame(
        [{"cell": "base-0", "params": "n0", "analysis": "neurons", "parameters": json.dumps(PARAMETERS)}]
    )


def neuron_frames(runs: int = 2, label: str = "NOUN", word: str = "dog") -> Frames:
    """A study of neurons alone: a base model and its tuned runs, with everything there is."""
    rows = neuron_rows("base", label=label)
    for run in range(runs):
        rows += neuron_rows("tuned", run, label=label)
    compared = {ALL: -0.01, retrained("top"): 0.0, retrained("bottom"): -0.05}
    declared = {params: find_analysis(name)().declared() for params, name in ANALYSES.items()}
    return Frames(
        neuron_results(rows),
        selection_comparison(compared).assign(runs=runs),
        neuron_cells(),
        {**lock_of(twin=False), "declared": declared},
        selection_changes([-0.3, -0.34][:runs], p=0.01),
        {f"{name}-0": explorer_frame(word=word, label=label) for name in ("base", "tuned")},
    )
