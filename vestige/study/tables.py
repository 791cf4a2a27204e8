"""The tables of a finished run, read and checked. Nothing here needs torch: a page is written without it."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vestige.analyses.schema import IDENTITY, ROW, SCHEMA
from vestige.checksums import CHECKSUMS, checksum, read_checksums
from vestige.errors import StorageError
from vestige.version import __version__

LOCK = "study.lock.json"


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
        return self._read("results.parquet", [column.name for column in (*IDENTITY, *ROW)])

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
        if content.get("schema") != SCHEMA:
            raise StorageError(
                f"{self.folder}: its tables have schema {content.get('schema', 1)}, this vestige reads {SCHEMA}",
                fix="run the study again: finished work is kept, and the tables and the report are written again",
            )
        return content

    def items(self, cell: str) -> pd.DataFrame:
        """The scored words of one cell."""
        return self.table("items", cell)

    def table(self, name: str, cell: str) -> pd.DataFrame:
        """A table that one cell left beside its rows: `items`, `neurons`."""
        return self._read(f"{name}/{cell}.parquet")

    def kept(self, name: str) -> dict[str, pd.DataFrame]:
        """By cell, the tables of one name that cells left beside their rows: `explorer`, `trees`."""
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


def find_run(folder: Path) -> Path:
    """The folder of a run: as named, or the one run below `runs` that a study of this name has left."""
    if (folder / LOCK).exists():
        return folder
    runs = [lock.parent for lock in folder.parent.glob(f"{folder.name}-{'[0-9a-f]' * 8}/{LOCK}")]
    if len(runs) > 1:
        newest = sorted(runs, key=lambda run: (run / LOCK).stat().st_mtime, reverse=True)
        raise StorageError(
            f"{folder}: there are {len(runs)} runs of this name, newest first: {', '.join(map(str, newest))}",
            fix="name one of them",
        )
    return runs[0] if runs else folder
