"""The tables of a run: `results`, `cells`, `items`, `comparisons`, written whole."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vestige.analyses import find_analysis
from vestige.cache import write_file
from vestige.comparison.differences import Settings, compare_items, compare_subsets, control_false_discoveries
from vestige.comparison.edges import compare_edges
from vestige.comparison.neurons import compare_selections, same_shape
from vestige.digest import digest_json
from vestige.errors import StorageError
from vestige.study.cells import ROW_COLUMNS, Cell, read_rows, read_table
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
        """Every difference between a tuned model and its reference, one layer a row."""
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


def params_hash(cell: Cell) -> str:
    """Short name of an analysis' parameters; the table `cells` spells them out."""
    return digest_json([cell.analysis, cell.version, cell.parameters], length=10)


def comparisons_frame(spec: StudySpec, cells: Sequence[Cell]) -> pd.DataFrame:
    """Every tuned model against its reference, for every analysis and task both were run on."""
    settings = Settings(**spec.compare.model_dump())
    tables = []
    for base, tuned in _pairs(spec, cells, "items"):
        table = _compared(base, tuned, settings)
        if table is not None:
            tables.append(_identified(table, base, tuned[0]))
    if not tables:
        return pd.DataFrame()
    return control_false_discoveries(pd.concat(tables, ignore_index=True), settings)


def _compared(base: Cell, tuned: Sequence[Cell], settings: Settings) -> pd.DataFrame | None:
    """The differences between a reference and the runs of a tuned model; None where items tell no right from wrong."""
    if base.analysis == "edge_probe":
        return compare_edges(*_split([read_table("sentences", cell) for cell in (base, *tuned)]), settings)
    items = [read_table("items", cell) for cell in (base, *tuned)]
    if not all("correct" in table for table in items):
        return None
    if "layer" in items[0]:
        return compare_items(*_split(items), settings, find_analysis(base.analysis).right)
    return compare_subsets(*_split(items), settings)


def _split(tables: list[pd.DataFrame]) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    return tables[0], tables[1:]


def neuron_changes_frame(spec: StudySpec, cells: Sequence[Cell]) -> pd.DataFrame:
    """How the selected neurons of every tuned model differ from those of its reference."""
    settings = Settings(**spec.compare.model_dump())
    tables = []
    for base, tuned in _pairs(spec, cells, "neurons"):
        neurons = [read_table("neurons", cell) for cell in (base, *tuned)]
        if all(same_shape(neurons[0], other) for other in neurons[1:]):
            tables.append(_identified(compare_selections(neurons[0], neurons[1:], settings), base, tuned[0]))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _pairs(spec: StudySpec, cells: Sequence[Cell], table: str) -> Iterator[tuple[Cell, list[Cell]]]:
    """Cells of references that left a table, each with the cells of one tuned model's runs."""
    for name in spec.models:
        reference = spec.reference_of(name)
        for base in [cell for cell in cells if cell.model == reference and cell.run == 0 and cell.has(table)]:
            tuned = [cell for cell in cells if cell.model == name and _key(cell) == _key(base)]
            if tuned:
                yield base, tuned


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.corpus, cell.task, params_hash(cell)


def _identified(table: pd.DataFrame, base: Cell, tuned: Cell) -> pd.DataFrame:
    """The table with the columns that say what was compared in front."""
    identity = {
        "model": tuned.model,
        "reference": base.model,
        "analysis": base.analysis,
        "params": params_hash(base),
        "corpus": base.corpus,
        "task": base.task,
    }
    for position, (name, value) in enumerate(identity.items()):
        table.insert(position, name, value)
    return table


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
    _write(folder / "comparisons.parquet", comparisons_frame(spec, plan.cells))
    _write(folder / "neuron_changes.parquet", neuron_changes_frame(spec, plan.cells))
    write_file(folder / "study.lock.json", json.dumps(lock, indent=1, ensure_ascii=False).encode())
    _write(folder / "results.parquet", results_frame(spec, plan.cells))
    return Tables(folder)


def _write(path: Path, frame: pd.DataFrame) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), buffer)
    write_file(path, buffer.getvalue())
