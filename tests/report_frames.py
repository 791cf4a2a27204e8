"""Small synthetic tables of a run, for the tests of the report; no model is needed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

CONVERGED = {"protocol": "converged", "probe": "linear", "pooling": "last", "seeds": 2, "tolerance": 0.01, "l2": None}
DURRANI = {**CONVERGED, "protocol": "durrani"}
MLP = {**CONVERGED, "probe": "mlp", "hidden": 64}
CHANGES = (0.0, 0.001, -0.004, -0.031)
"""Change of accuracy by layer: unchanged, unchanged, undecided, lower."""


@dataclass(frozen=True)
class Frames:
    """What `write_report` takes."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    cells: pd.DataFrame
    lock: dict[str, Any]
    changes: pd.DataFrame | None = None
    explorers: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def all(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
        return self.results, self.comparisons, self.cells, self.lock


def comparison(
    changes: Sequence[float],
    metric: str = "accuracy",
    half: float = 0.004,
    verdicts: Sequence[str] | None = None,
    **identity: Any,
) -> pd.DataFrame:
    """Differences by layer with intervals of +-half; the verdict follows from them unless given."""
    rows = []
    for layer, change in enumerate(changes):
        base = 0.80 + 0.01 * layer if metric == "accuracy" else 0.40
        low, high = change - half, change + half
        sure = low > 0 or high < 0
        within = abs(change) + half <= 0.0055
        rows.append(
            {
                "metric": metric,
                "layer": layer,
                "base": base,
                "tuned": base + change,
                "difference": change,
                "low": low,
                "high": high,
                "p": 0.0002 if sure else 0.4,
                "p_equivalence": 0.001 if within else 0.6,
                "sd_items": half / 2,
                "sd_probe_seed": float("nan"),
                "sd_tuning_run": float("nan"),
                "sentences": 100,
                "words": 1234,
                "runs": 1,
                "seeds": 1,
                "dropped_items": 0,
                "base_low": base - half,
                "base_high": base + half,
                "tuned_low": base + change - half,
                "tuned_high": base + change + half,
                "q": 0.001 if sure else 0.5,
                "verdict": ("lower" if change < 0 else "higher") if sure else "unchanged" if within else "undecided",
            }
        )
    table = pd.DataFrame(rows)
    if verdicts is not None:
        table["verdict"] = list(verdicts)
    named = {"model": "tuned", "reference": "base", "analysis": "layer_probe", "params": "p0", "corpus": "bank"}
    return table.assign(**{**named, "task": "upos", **identity})


def all_metrics(
    changes: Sequence[float], control: Sequence[float], half: float = 0.004, **identity: Any
) -> pd.DataFrame:
    """Accuracy, control accuracy and the selectivity between them."""
    selectivity = [a - b for a, b in zip(changes, control, strict=True)]
    return pd.concat(
        [
            comparison(changes, "accuracy", half, **identity),
            comparison(control, "control_accuracy", half, **identity),
            comparison(selectivity, "selectivity", half, **identity),
        ],
        ignore_index=True,
    )


def cells_frame(*parameters: dict[str, Any]) -> pd.DataFrame:
    """Settings p0, p1, ... in the order given."""
    return pd.DataFrame(
        [
            {"cell": f"c{i}", "params": f"p{i}", "analysis": "layer_probe", "parameters": json.dumps(own)}
            for i, own in enumerate(parameters or (CONVERGED,))
        ]
    )


def results_frame(
    models: Sequence[str], tasks: Sequence[tuple[str, str]], params: Sequence[str], layers: int, label: str = "NOUN"
) -> pd.DataFrame:
    """Accuracy, control, selectivity, F1 and baselines of every model, task and setting."""
    rows: list[dict[str, Any]] = []
    for corpus, task in tasks:
        for model in models:
            for name in params:
                where = {"model": model, "corpus": corpus, "task": task, "params": name}
                where["analysis"] = "layer_probe"
                rows += [{**where, "metric": "majority", "value": 0.2, "n": 1234}]
                rows += [{**where, "metric": "word_type_majority", "value": 0.7, "n": 1234}]
                for layer in range(layers):
                    rows += _layer_rows({**where, "layer": layer}, model, layer, label)
    frame = pd.DataFrame(rows)
    kinds = {"layer": "Int16", "probe_seed": "Int32", "value": "Float64", "n": "Int64", "label": "string"}
    return frame.assign(subset=pd.array([None] * len(frame), dtype="string")).astype(kinds)


def _layer_rows(where: dict[str, Any], model: str, layer: int, label: str) -> list[dict[str, Any]]:
    rows = []
    accuracy = 0.60 if "twin" in model else 0.80 + 0.01 * layer
    for seed in (0, 1):
        seen = {**where, "probe_seed": seed, "n": 1234}
        rows.append({**seen, "metric": "accuracy", "value": accuracy + 0.002 * seed})
        if "twin" not in model:
            rows.append({**seen, "metric": "control_accuracy", "value": 0.5})
            rows.append({**seen, "metric": "selectivity", "value": accuracy - 0.5})
        for name, often, score in ((label, 300, 0.9), ("VERB", 200, 0.8), ("X", 3, 0.1)):
            shift = 0.0 if model == "base" else -0.05
            rows.append({**seen, "metric": "f1", "label": name, "value": score + shift, "n": often})
    return rows


def lock_of(tuned: Sequence[str] = ("tuned",), twin: bool = True, source: str = "minilm") -> dict[str, Any]:
    """A lock with a base model, tuned ones and a random twin."""
    recipe = {"rate": 2e-5, "epochs": 2, "betas": [0.9, 0.99]}
    curve = [{"epoch": 0, "dev_accuracy": 0.5}, {"epoch": 1, "loss": 0.6, "dev_accuracy": 0.8}]
    body = {"fingerprint": "f00", "type": "bert", "layers": 4, "widths": [8, 8, 8, 8], "commit": None}
    made = {**body, "source": "base fine-tuned on sst/label", "tuned_on": "sst/label", "recipe": recipe, "curve": curve}
    models = {"base": [{**body, "name": "base", "source": source}]} | {
        name: [{**made, "tune_seed": 0}] for name in tuned
    }
    spec_models: dict[str, Any] = {name: {"random_twin_of": None} for name in ("base", *tuned)}
    if twin:
        models["random twin"] = [{**body, "source": "random twin of base", "baseline": True}]
        spec_models["random twin"] = {"random_twin_of": "base"}
    splits = {"test": {"sentences": 100, "words": 1234, "digest": "abc"}}
    return {
        "vestige": "0.1.0",
        "python": "3.11",
        "libraries": {"torch": "2.13.0"},
        "spec": {"study": "small", "about": "", "models": spec_models, "compare": {}, "limit": None},
        "models": models,
        "corpora": {"bank": {"name": "bank", "notes": ["a note"], "splits": splits}},
        "notes": [],
    }


def small_frames(
    tasks: Sequence[tuple[str, str]] = (("bank", "upos"),),
    tuned: Sequence[str] = ("tuned",),
    parameters: Sequence[dict[str, Any]] = (CONVERGED,),
    changes: Sequence[float] = CHANGES,
    label: str = "NOUN",
) -> Frames:
    """A whole run: every task, tuned model and setting with the same changes."""
    params = [f"p{index}" for index in range(len(parameters))]
    groups = [
        all_metrics(changes, [0.0] * len(changes), model=model, corpus=corpus, task=task, params=name)
        for corpus, task in tasks
        for model in tuned
        for name in params
    ]
    comparisons = pd.concat(groups, ignore_index=True) if groups else pd.DataFrame()
    results = results_frame(["base", *tuned, "random twin"], tasks, params, len(changes), label)
    return Frames(results, comparisons, cells_frame(*parameters), lock_of(tuned))
