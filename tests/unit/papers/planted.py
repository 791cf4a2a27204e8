"""Tables with a planted answer, in the columns of a run, as one base model of it."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vestige.analyses.schema import IDENTITY, ROW
from vestige.papers.observed import Observed

COLUMNS = [column.name for column in (*IDENTITY, *ROW)]
CHANGES = [
    "model", "reference", "analysis", "params", "corpus", "task", "layer", "input", "side", "subset", "x", "metric",
    "base", "tuned", "difference", "low", "high", "p", "q", "verdict", "sd_items", "sentences", "runs", "seeds",
    "other_corpus", "in_domain", "out_of_domain",
]  # fmt: skip


def rows(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Results: what a record leaves out is missing."""
    return pd.DataFrame([{"params": "p", "n": 100, **record} for record in records], columns=COLUMNS)


def change(difference: float, half: float | None, **where: Any) -> dict[str, Any]:
    """A row of comparisons with an interval; without one (None) it is only described."""
    known = half is not None
    ends = {"low": difference - half, "high": difference + half} if half is not None else {}
    tests = dict.fromkeys(("p", "q"), 0.01 if known else None)
    told = {"difference": difference, **tests, "verdict": "higher" if known else "described"}
    return {
        "params": "p",
        "base": 0.5,
        "runs": 1,
        "seeds": 1,
        "sentences": 100,
        "sd_items": 0.001,
        **told,
        **ends,
        **where,
    }


def changes(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(records), columns=CHANGES)


def observed(
    results: pd.DataFrame,
    comparisons: pd.DataFrame | None = None,
    *,
    tuned: Mapping[str, str] | None = None,
    layers: int = 7,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    items: Callable[[str], pd.DataFrame] | None = None,
    runs: int = 1,
    sizes: int = 2000,
    source: str = "minilm",
) -> Observed:
    """`tuned`: by role, corpus/task; `parameters`: by (analysis, params)."""
    tuned = tuned or {}
    corpora = {task.partition("/")[0] for task in tuned.values()} | {str(c) for c in results["corpus"].dropna()}
    about = {"layers": layers, "widths": [384] * layers, "type": "bert", "source": source}
    recipe = {"batch": 10, "epochs": 1}
    cells = [
        {"cell": f"{analysis}-{params}", "params": params, "analysis": analysis, "parameters": json.dumps(said)}
        for analysis, by_params in (parameters or {}).items()
        for params, said in by_params.items()
    ]
    lock = {
        "spec": {
            "models": {
                "base": {"load": source, "finetune": None},
                **{role: {"load": None, "finetune": {"of": "base", "task": task}} for role, task in tuned.items()},
            },
            "corpora": dict.fromkeys(corpora),
        },
        "models": {"base": [about], **{role: [{**about, "recipe": recipe}] * runs for role in tuned}},
        "corpora": {name: {"splits": {"train": {"sentences": sizes}}} for name in corpora},
    }
    return Observed(
        "MiniLM",
        source,
        results,
        changes([]) if comparisons is None else comparisons,
        pd.DataFrame(cells, columns=["cell", "params", "analysis", "parameters"]),
        lock,
        items or (lambda cell: pd.DataFrame()),
    )


def seeds(values: Sequence[float], **where: Any) -> list[dict[str, Any]]:
    """One number under several seeds of the probes."""
    return [{"value": value, "probe_seed": seed, **where} for seed, value in enumerate(values)]


_NOISE = np.random.default_rng(0)


def around(value: float, spread: float, runs: int = 3) -> list[float]:
    """Runs around a value; one run has no interval."""
    noise = _NOISE.normal(size=runs)
    return list(value + spread * (noise - noise.mean()))
