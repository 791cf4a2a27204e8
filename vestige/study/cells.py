"""A cell: one analysis of one model on one task. A pure function of its spec, named by its content."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import TypeAdapter

from vestige.analyses import find_analysis
from vestige.analyses.base import Inputs, Outcome
from vestige.cache import writing
from vestige.corpus.store import read_task
from vestige.digest import digest_json
from vestige.representations.store import Representations

ROW_COLUMNS = {
    "layer": pd.Int16Dtype(),
    "layer2": pd.Int16Dtype(),
    "head": pd.Int16Dtype(),
    "label": pd.StringDtype(),
    "subset": pd.StringDtype(),
    "axis": pd.StringDtype(),
    "x": pd.Float64Dtype(),
    "metric": pd.StringDtype(),
    "probe_seed": pd.Int32Dtype(),
    "value": pd.Float64Dtype(),
    "n": pd.Int64Dtype(),
}
"""What an analysis says of each number; the study adds which model, corpus and task it is of."""


@dataclass(frozen=True)
class Cell:
    """Everything another process needs to compute it; plain JSON."""

    model: str
    run: int
    """Number of the fine-tuning run; 0 for models that were loaded."""
    fingerprint: str
    corpus: str
    task: str
    task_file: str
    representations: dict[str, str]
    """By split: the folder."""
    data: str
    """Hash of words and labels of every split, and of how they were encoded."""
    analysis: str
    version: int
    parameters: dict[str, Any]
    threads: int
    baseline: bool
    cache: str

    @property
    def key(self) -> str:
        """Content hash; names of models and folders play no role."""
        return digest_json(
            [self.fingerprint, self.data, self.analysis, self.version, self.parameters, self.threads, self.baseline]
        )

    @property
    def folder(self) -> Path:
        return Path(self.cache) / "cells" / self.key

    @property
    def unfinished(self) -> Path:
        """What it keeps while it runs; gone when it is done."""
        return Path(self.cache) / "unfinished" / self.key

    @property
    def done(self) -> bool:
        """Whether its result is there and whole."""
        return (self.folder / "rows.parquet").exists()

    def has(self, table: str) -> bool:
        """Whether it left this table beside its rows."""
        return (self.folder / f"{table}.parquet").exists()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cell":
        return cls(**json.loads(text))


def run_cell(cell: Cell) -> None:
    """Compute a cell and put its rows and items into place."""
    if cell.done:
        return
    torch.set_num_threads(cell.threads)
    analysis = TypeAdapter(find_analysis(cell.analysis)).validate_python(cell.parameters)
    inputs = Inputs(
        task=read_task(Path(cell.task_file)),
        representations={s: Representations.open(Path(f)) for s, f in cell.representations.items()},
        model=cell.model,
        baseline=cell.baseline,
        unfinished=cell.unfinished,
    )
    outcome = analysis.run(inputs)
    with writing(cell.folder) as folder:
        pq.write_table(pa.Table.from_pandas(rows_frame(outcome), preserve_index=False), folder / "rows.parquet")
        for name, columns in {"items": outcome.items, **outcome.tables}.items():
            if columns:
                pq.write_table(_columns_table(columns), folder / f"{name}.parquet", compression="zstd")
    shutil.rmtree(cell.unfinished, ignore_errors=True)


def rows_frame(outcome: Outcome) -> pd.DataFrame:
    """The rows as a table with all columns, absent values as missing."""
    frame = pd.DataFrame(outcome.rows)
    return pd.DataFrame(
        {
            name: frame[name].astype(kind) if name in frame else pd.Series(pd.NA, index=frame.index, dtype=kind)
            for name, kind in ROW_COLUMNS.items()
        }
    )


def read_rows(cell: Cell) -> pd.DataFrame:
    """The rows of a finished cell."""
    return pq.read_table(cell.folder / "rows.parquet").to_pandas().astype(ROW_COLUMNS)


def read_table(name: str, cell: Cell) -> pd.DataFrame:
    """A table that a finished cell left beside its rows: `items`, a row per scored word, or `neurons`."""
    return pq.read_table(cell.folder / f"{name}.parquet").to_pandas()


def _columns_table(items: dict[str, np.ndarray]) -> pa.Table:
    columns = {}
    for name, values in items.items():
        array = pa.array(values)
        columns[name] = array.dictionary_encode() if pa.types.is_string(array.type) else array
    return pa.table(columns)
