"""The tables of a run: `results`, `cells`, `items`, `comparisons`, written whole."""

import io
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vestige.cache import explaining_storage, write_file
from vestige.checksums import CHECKSUMS, checksum, list_checksums, read_checksums
from vestige.errors import StorageError
from vestige.study.cells import ROW_COLUMNS, Cell, params_hash, read_rows
from vestige.study.differences import comparisons_frame, neuron_changes_frame
from vestige.study.plan import Plan
from vestige.study.spec import StudySpec
from vestige.version import __version__

LOCK = "study.lock.json"
IDENTITY = (
    "study", "cell", "model", "reference", "tuned_on", "pretrain_seed", "tune_seed", "step", "analysis", "params",
    "corpus", "task", "split", "pooling",
)  # fmt: skip
"""Columns of `results` that say what a number is of."""


@dataclass(frozen=True)
class Tables:
    """What a finished run folder holds."""

    folder: Path

    @cached_property
    def checksums(self) -> dict[str, list[Any]]:
        """Of every file of the run; empty where only some of its tables were kept."""
        try:
            return read_checksums(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged(CHECKSUMS, f"no list of checksums ({error})") from error

    @cached_property
    def results(self) -> pd.DataFrame:
        """Every number, one a row."""
        return self._read("results.parquet", (*IDENTITY, *ROW_COLUMNS))

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Every difference between a tuned model and its reference, one layer a row.

        Rows with an `other_corpus` compare two similarities of the model to its reference: that on the
        corpus it was tuned on (`in_domain`) with that on the other (`out_of_domain`).
        """
        return self._read("comparisons.parquet", ("model", "reference", "analysis", "params", "corpus", "task"))

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
        return self._read("cells.parquet", ("cell", "params", "analysis", "parameters", "model"))

    @cached_property
    def lock(self) -> dict[str, Any]:
        """Resolved spec, hashes, versions and notes."""
        self._check(LOCK)
        try:
            content = json.loads((self.folder / LOCK).read_text(encoding="utf-8"))
            if not isinstance(content, dict) or not {"vestige", "spec", "models", "corpora"} <= set(content):
                raise ValueError("spec, models or corpora are missing")
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(LOCK, f"not the record of a run ({error})") from error
        return content

    def items(self, cell: str) -> pd.DataFrame:
        """The scored words of one cell."""
        return self.table("items", cell)

    def table(self, name: str, cell: str) -> pd.DataFrame:
        """A table that one cell left beside its rows: `items`, `neurons`."""
        return self._read(f"{name}/{cell}.parquet")

    def _by_cell(self, name: str) -> dict[str, pd.DataFrame]:
        found = [Path(file) for file in self.checksums] or [p.relative_to(self.folder) for p in self._kept(name)]
        return {file.stem: self.table(name, file.stem) for file in sorted(found) if file.parent == Path(name)}

    def _kept(self, name: str) -> list[Path]:
        return list(self.folder.glob(f"{name}/*.parquet"))

    def _read(self, name: str, columns: Collection[str] = ()) -> pd.DataFrame:
        """A table; one that is not empty has these columns."""
        self._check(name)
        try:
            table = pq.read_table(self.folder / name).to_pandas()
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise self._damaged(name, f"not a table ({' '.join(str(error).split())[:200]})") from error
        lacking = [column for column in columns if column not in table]
        if len(table.columns) and lacking:
            raise self._damaged(name, f"a table without the column {lacking[0]!r}")
        return table

    def _check(self, name: str) -> None:
        """The file is there, and as the run wrote it."""
        path = self.folder / name
        if not path.exists():
            raise StorageError(
                f"{self.folder}: no {name}, so not a finished run", fix="run the study again; it resumes"
            )
        if not path.is_file():
            raise self._damaged(name, "no file")
        if self.checksums:
            expected = self.checksums.get(name)
            if expected is None or expected != [path.stat().st_size, checksum(path)]:
                raise self._damaged(name, "not what the run wrote (its checksum differs)")

    def _damaged(self, name: str, how: str) -> StorageError:
        how_again = " with --overwrite" if name == LOCK else ""  # without it nobody can tell whose results these are
        return StorageError(
            f"{self.folder / name}: {how}",
            fix=f"run the study again{how_again}: finished work is kept, and the tables are written again",
        )

    @contextmanager
    def explaining_age(self) -> Iterator[None]:
        """Around code that needs what this version writes: tables that another one left may lack it."""
        try:
            yield
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            if self.checksums and self.lock["vestige"] == __version__:
                raise
            raise StorageError(
                f"{self.folder}: its tables are not those that vestige {__version__} writes "
                f"({type(error).__name__}: {' '.join(str(error).split())[:200]})",
                fix="run the study again: finished work is kept, and the tables are written again",
            ) from error


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
    """Put all tables of a run into place; checksums last. Killed meanwhile, there are no results, rather than mixed."""
    results = results_frame(spec, plan.cells)
    comparisons, notes = comparisons_frame(spec, plan.cells)
    changes = neuron_changes_frame(spec, plan.cells)
    lock = {**lock, "notes": [*lock.get("notes", []), *notes]}
    with explaining_storage(folder / LOCK):
        for name in (CHECKSUMS, "results.parquet"):
            (folder / name).unlink(missing_ok=True)
        _remove_others(folder, spec, {cell.key for cell in plan.cells})
    written = [LOCK, "cells.parquet", "comparisons.parquet", "neuron_changes.parquet", "results.parquet"]
    for cell in plan.cells:
        for table in sorted(cell.folder.glob("*.parquet")):
            if table.stem != "rows":
                written.append(f"{table.stem}/{cell.key}.parquet")
                _copy(table, folder / written[-1])
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
    _write(folder / "comparisons.parquet", comparisons)
    _write(folder / "neuron_changes.parquet", changes)
    write_file(folder / LOCK, json.dumps(lock, indent=1, ensure_ascii=False).encode())
    _write(folder / "results.parquet", results)
    write_file(folder / CHECKSUMS, list_checksums(folder, written))
    return Tables(folder)


def _copy(table: Path, place: Path) -> None:
    """What lies there from an earlier run is left alone if it is the same, so that nothing large is written twice."""
    content = table.read_bytes()
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
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), buffer)
    write_file(path, buffer.getvalue())
