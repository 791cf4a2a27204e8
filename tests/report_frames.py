"""Small synthetic tables of a run, for the tests of the report; no model is needed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from vestige.analyses.registry import find_analysis
from vestige.analyses.schema import IDENTITY, PLACE, PLACES, SCHEMA, VALUE, typed
from vestige.report.reading import Reading

CONVERGED = {"protocol": "converged", "probe": "linear", "pooling": "last", "seeds": 2, "tolerance": 0.01, "l2": None}
DURRANI = {**CONVERGED, "protocol": "durrani"}
MLP = {**CONVERGED, "probe": "mlp", "hidden": 64}
CHANGES = (0.0, 0.001, -0.004, -0.031)
"""Change of accuracy by layer: unchanged, unchanged, undecided, lower."""


@dataclass(frozen=True)
class Frames:
    """The tables of a run."""

    results: pd.DataFrame
    comparisons: pd.DataFrame
    cells: pd.DataFrame
    lock: dict[str, Any]
    changes: pd.DataFrame | None = None
    explorers: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def all(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
        return self.results, self.comparisons, self.cells, self.lock

    @property
    def reading(self) -> Reading:
        """What a report is written from."""
        changes = pd.DataFrame() if self.changes is None else self.changes
        return Reading(*self.all, changes, lambda name: self.explorers if name == "explorer" else {})


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
                "items": 1234,
                "runs": 1,
                "seeds": 1,
                "dropped_items": 0,
                "margin": 0.005,
                "base_low": base - half,
                "base_high": base + half,
                "tuned_low": base + change - half,
                "tuned_high": base + change + half,
                "q": 0.001 if sure else 0.5,
                "verdict": ("lower" if change < 0 else "higher") if sure else "unchanged" if within else "undecided",
            }
        )
    table = pd.DataFrame(rows)
    table = table.assign(**typed(table, PLACE)[[name for name in PLACES if name != "layer"]])
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


def cells_frame(*parameters: dict[str, Any], analysis: str = "layer_probe") -> pd.DataFrame:
    """Settings p0, p1, ... in the order given."""
    return pd.DataFrame(
        [
            {"cell": f"c{i}", "params": f"p{i}", "analysis": analysis, "parameters": json.dumps(own)}
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
    return run_frame(rows)


def run_frame(rows: Sequence[dict[str, Any]], **where: Any) -> pd.DataFrame:
    """Rows with the columns and kinds of a run; `where` is what they have in common."""
    return typed(pd.DataFrame([{**where, **row} for row in rows]), (*IDENTITY, *PLACE, *VALUE))


def declared(*parameters: dict[str, Any], analysis: str = "layer_probe") -> dict[str, Any]:
    """What the lock keeps of settings p0, p1, ... in the order given."""
    kind = find_analysis(analysis)
    known = [{name: own[name] for name in own if name in kind.__dataclass_fields__} for own in parameters]
    return {f"p{i}": kind(**own).declared() for i, own in enumerate(known)}


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
        "schema": SCHEMA,
        "declared": declared(CONVERGED),
    }


def small_frames(
    tasks: Sequence[tuple[str, str]] = (("bank", "upos"),),
    tuned: Sequence[str] = ("tuned",),
    parameters: Sequence[dict[str, Any]] = (CONVERGED,),
    changes: Sequence[float] = CHANGES,
    label: str = "NOUN",
    analysis: str = "layer_probe",
) -> Frames:
    """A whole run: every task, tuned model and setting with the same changes."""
    if analysis != "layer_probe":
        parameters = [{name: value for name, value in own.items() if name != "pooling"} for own in parameters]
    params = [f"p{index}" for index in range(len(parameters))]
    groups = [
        all_metrics(changes, [0.0] * len(changes), model=model, corpus=corpus, task=task, params=name)
        for corpus, task in tasks
        for model in tuned
        for name in params
    ]
    comparisons = pd.concat(groups, ignore_index=True) if groups else pd.DataFrame()
    results = results_frame(["base", *tuned, "random twin"], tasks, params, len(changes), label)
    lock = {**lock_of(tuned), "declared": declared(*parameters, analysis=analysis)}
    cells = cells_frame(*parameters, analysis=analysis)
    return Frames(results.assign(analysis=analysis), comparisons.assign(analysis=analysis), cells, lock)
