"""The tables of a run: `results`, `cells`, `items`, `comparisons`, written whole."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from vestige.analyses.schema import IDENTITY, SCHEMA, typed
from vestige.cache import explaining_storage, reading, write_file
from vestige.checksums import CHECKSUMS, list_checksums
from vestige.study.differences import analysis_of, comparisons_frame, neuron_changes_frame
from vestige.study.plan import Plan
from vestige.study.spec import StudySpec
from vestige.study.steps.analyse import Cell, params_hash, read_rows
from vestige.study.steps.compare import parquet
from vestige.study.tables import LOCK, Tables


def results_frame(spec: StudySpec, cells: Sequence[Cell]) -> pd.DataFrame:
    """All rows of all cells, in the order of the plan."""
    return pd.concat([_with_identity(spec, cell, read_rows(cell)) for cell in cells], ignore_index=True)


def _with_identity(spec: StudySpec, cell: Cell, rows: pd.DataFrame) -> pd.DataFrame:
    model = spec.models[cell.model]
    tuned = model.finetune
    identity = {
        "study": spec.study,
        "cell": cell.key,
        "model": cell.model,
        "reference": spec.reference_of(cell.model),
        "tuned_on": tuned.task if tuned else None,
        "pretrain_seed": model.pretrain_seed,
        "tune_seed": cell.run if tuned else None,
        "step": model.step,
        "analysis": cell.analysis,
        "params": params_hash(cell),
        "corpus": cell.corpus,
        "task": cell.task,
    }
    front = typed(pd.DataFrame(identity, index=rows.index), IDENTITY)
    said = {name: cell.parameters[name] for name in ("split", "pooling") if cell.parameters.get(name) is not None}
    return pd.concat([front, rows.fillna(said)], axis=1)


def write_tables(folder: Path, spec: StudySpec, plan: Plan, lock: dict[str, Any]) -> Tables:
    """Put all tables of a run into place; checksums last. Killed meanwhile, there are no results, rather than mixed."""
    results = results_frame(spec, plan.cells)
    comparisons, notes = comparisons_frame(spec, plan.compares)
    changes = neuron_changes_frame(plan.compares)
    declared = {params_hash(cell): analysis_of(cell).declared() for cell in plan.cells}
    lock = {"schema": SCHEMA, **lock, "notes": [*lock.get("notes", []), *notes], "declared": declared}
    with explaining_storage(folder / LOCK):
        for name in (CHECKSUMS, "results.parquet"):
            (folder / name).unlink(missing_ok=True)
        _remove_others(folder, spec, {cell.key for cell in plan.cells})
    written = [LOCK, "cells.parquet", "comparisons.parquet", "neuron_changes.parquet", "results.parquet"]
    for cell in plan.cells:
        for table in cell.tables:
            written.append(f"{table}/{cell.key}.parquet")
            with reading(cell.folder):
                content = (cell.folder / f"{table}.parquet").read_bytes()
            _copy(content, folder / written[-1])
    prints = {about["key"]: about.get("fingerprint") for runs in lock["models"].values() for about in runs}
    cells = pd.DataFrame(
        [
            {
                "cell": cell.key,
                "params": params_hash(cell),
                "analysis": cell.analysis,
                "version": cell.version,
                "parameters": json.dumps(cell.parameters, sort_keys=True),
                "model": cell.model,
                "fingerprint": prints.get(cell.side.origin.key),
                "data": cell.data,
                "threads": cell.threads,
            }
            for cell in plan.cells
        ]
    )
    _write(folder / "cells.parquet", cells)
    _write(folder / "comparisons.parquet", comparisons)
    _write(folder / "neuron_changes.parquet", changes)
    write_file(folder / LOCK, json.dumps(lock, indent=1, ensure_ascii=False).encode())
    _write(folder / "results.parquet", results)
    write_file(folder / CHECKSUMS, list_checksums(folder, written))
    return Tables(folder)


def _copy(content: bytes, place: Path) -> None:
    """What lies there from an earlier run is left alone if it is the same, so that nothing large is written twice."""
    if not place.is_file() or place.read_bytes() != content:
        write_file(place, content)


def _remove_others(folder: Path, spec: StudySpec, keys: Collection[str]) -> None:
    """Tables of cells that an earlier run left and this one has not; of another study, its page too."""
    try:
        before = pq.read_table(folder / "cells.parquet", columns=["cell"]).column("cell").to_pylist()
        same = json.loads((folder / LOCK).read_text())["spec"] == json.loads(json.dumps(spec.as_json()))
    except (OSError, ValueError, LookupError, TypeError):
        before, same = [], False
    for key in {*before} - {*keys}:
        for table in folder.glob(f"*/{key}.parquet"):
            table.unlink()
    for name in () if same else ("report.html",):
        (folder / name).unlink(missing_ok=True)


def _write(path: Path, frame: pd.DataFrame) -> None:
    write_file(path, parquet(frame))
