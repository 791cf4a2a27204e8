"""The tables of a run: `results`, `cells`, `items`, `comparisons`, written whole."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vestige.cache import write_file
from vestige.errors import StorageError
from vestige.study.cells import ROW_COLUMNS, Cell, params_hash, read_rows
from vestige.study.differences import comparisons_frame, neuron_changes_frame
from vestige.study.plan import Plan
from vestige.study.spec import StudySpec


@dataclass(frozen=True)
class Tables:
    """What a finished run folder holds."""

    folder: Path

    @cached_property
    def results(self) -> pd.DataFrame:
        """Every number, one a row."""
        return self._read("results.parquet")

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Every difference between a tuned model and its reference, one layer a row.

        Rows with an `other_corpus` compare two similarities of the model to its reference: that on the
        corpus it was tuned on (`in_domain`) with that on the other (`out_of_domain`).
        """
        return self._read("comparisons.parquet")

    @cached_property
    def neuron_changes(self) -> pd.DataFrame:
        """How the selected neurons of tuned models differ from their references'; empty without neuron analyses."""
        return self._read("neuron_changes.parquet")

    @cached_property
    def explorers(self) -> dict[str, pd.DataFrame]:
        """By cell, the neurons that the report lets a reader look at."""
        return self._by_cell("explorer")

    @cached_property
    def trees(self) -> dict[str, pd.DataFrame]:
        """By cell, the sentences whose predicted trees the report draws."""
        return self._by_cell("trees")

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Which parameters and weights a cell's hash stands for."""
        return self._read("cells.parquet")

    @cached_property
    def lock(self) -> dict[str, Any]:
        """Resolved spec, hashes, versions and notes."""
        try:
            return json.loads((self.folder / "study.lock.json").read_text())
        except FileNotFoundError:
            raise self._missing("study.lock.json") from None

    def items(self, cell: str) -> pd.DataFrame:
        """The scored words of one cell."""
        return self.table("items", cell)

    def table(self, name: str, cell: str) -> pd.DataFrame:
        """A table that one cell left beside its rows: `items`, `neurons`."""
        return self._read(f"{name}/{cell}.parquet")

    def _by_cell(self, name: str) -> dict[str, pd.DataFrame]:
        return {path.stem: self.table(name, path.stem) for path in sorted(self.folder.glob(f"{name}/*.parquet"))}

    def _read(self, name: str) -> pd.DataFrame:
        try:
            return pq.read_table(self.folder / name).to_pandas()
        except FileNotFoundError:
            raise self._missing(name) from None

    def _missing(self, name: str) -> StorageError:
        return StorageError(f"{self.folder}: no {name}, so not a finished run", fix="run the study again; it resumes")


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
        "split": cell.parameters.get("split"),
        "pooling": cell.parameters.get("pooling"),
    }
    whole = {"pretrain_seed", "tune_seed", "step"}
    front = pd.DataFrame(
        {
            name: pd.array([value] * len(rows), dtype=pd.Int32Dtype() if name in whole else pd.StringDtype())
            for name, value in identity.items()
        }
    )
    return pd.concat([front, rows[list(ROW_COLUMNS)].reset_index(drop=True)], axis=1)


def write_tables(folder: Path, spec: StudySpec, plan: Plan, lock: dict[str, Any]) -> Tables:
    """Put all tables of a run into place; `results.parquet` last, as the sign that it is whole."""
    for cell in plan.cells:
        for table in sorted(cell.folder.glob("*.parquet")):
            place = folder / table.stem / f"{cell.key}.parquet"
            if table.stem != "rows" and not place.exists():
                write_file(place, table.read_bytes())
    cells = pd.DataFrame(
        [
            {
                "cell": cell.key,
                "params": params_hash(cell),
                "analysis": cell.analysis,
                "version": cell.version,
                "parameters": json.dumps(cell.parameters, sort_keys=True),
                "model": cell.model,
                "fingerprint": cell.fingerprint,
                "data": cell.data,
                "threads": cell.threads,
            }
            for cell in plan.cells
        ]
    )
    _write(folder / "cells.parquet", cells)
    comparisons, notes = comparisons_frame(spec, plan.cells)
    _write(folder / "comparisons.parquet", comparisons)
    _write(folder / "neuron_changes.parquet", neuron_changes_frame(spec, plan.cells))
    lock = {**lock, "notes": [*lock.get("notes", []), *notes]}
    write_file(folder / "study.lock.json", json.dumps(lock, indent=1, ensure_ascii=False).encode())
    _write(folder / "results.parquet", results_frame(spec, plan.cells))
    return Tables(folder)


def _write(path: Path, frame: pd.DataFrame) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), buffer)
    write_file(path, buffer.getvalue())
