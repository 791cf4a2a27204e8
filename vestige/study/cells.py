"""A cell: one analysis of one model on one task. A pure function of its spec, named by its content."""

import json
from collections.abc import Mapping
from contextlib import suppress
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
from vestige.analyses.base import Analysis, Inputs, Own, check_rows, check_tables
from vestige.analyses.schema import ROW, typed
from vestige.cache import demand, remove, whole, writing
from vestige.corpus.store import read_task
from vestige.digest import digest_json
from vestige.models.encoders.encoder import Encoder
from vestige.representations.store import Representations
from vestige.study.making import load_source, tunable


@dataclass(frozen=True)
class Side:
    """A model as a cell sees it."""

    model: str
    fingerprint: str
    representations: dict[str, dict[str, str]]
    """By pooling and split: the folder; none where the analysis reads no hidden states."""
    source: dict[str, Any] | None
    """What another process loads it from; None if the model exists only in memory."""
    head: str | None = None
    """Hash of the language-model head it brings along, where the analysis asks for words."""


@dataclass(frozen=True)
class Cell:
    """Everything another process needs to compute it; plain JSON."""

    side: Side
    run: int
    """Number of the fine-tuning run; 0 for models that were loaded."""
    corpus: str
    task: str
    task_file: str
    data: str
    """Hash of words and labels of every split, and of how they were encoded."""
    analysis: str
    version: int
    parameters: dict[str, Any]
    threads: int
    baseline: bool
    cache: str
    reference: Side | None = None
    """The model it is compared with, of an analysis that takes two."""
    own: dict[str, str] | None = None
    """`task_file`, `folder` and `data` (a hash) of the task that the study tuned the model on, where asked for."""

    @property
    def model(self) -> str:
        return self.side.model

    @property
    def fingerprint(self) -> str:
        return self.side.fingerprint

    @property
    def key(self) -> str:
        """Content hash; names of models and folders play no role."""
        content = [self.fingerprint, self.data, self.analysis, self.version, self.parameters, self.threads]
        against = [] if self.reference is None else [self.reference.fingerprint]
        heads = [side.head for side in self.sides if side.head is not None]
        own = [] if self.own is None else [self.own["data"]]
        return digest_json([*content, self.baseline, *against, *heads, *own])

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
        return whole(self.folder)

    @property
    def needs_model(self) -> bool:
        """Whether it reads more of a model than its hidden states."""
        return bool(find_analysis(self.analysis).needs & {"attentions", "logits", "weights"})

    @property
    def sides(self) -> list[Side]:
        """The model, and the one it is compared with."""
        return [side for side in (self.side, self.reference) if side is not None]

    @property
    def tuned_folders(self) -> list[Path]:
        """Folders of models made in a study that it loads."""
        loaded = [side.source or {} for side in self.sides if self.needs_model]
        sources = [source["source"] for source in loaded if "source" in source]
        own = [] if self.own is None else [self.own["folder"]]
        return [Path(each) for each in (*sources, *own) if Path(self.cache) / "models" in Path(each).parents]

    @property
    def stays_here(self) -> bool:
        """Whether only the process that was handed the model can run it."""
        return self.needs_model and any(side.source is None for side in self.sides)

    def has(self, table: str) -> bool:
        """Whether it left this table beside its rows."""
        return (self.folder / f"{table}.parquet").exists()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cell":
        plain = json.loads(text)
        sides = {name: Side(**plain[name]) for name in ("side", "reference") if plain[name] is not None}
        return cls(**{**plain, **sides})


def run_cell(cell: Cell, in_memory: Mapping[str, Encoder] | None = None) -> None:
    """Compute a cell and put its rows and items into place; `in_memory` has models by name."""
    if cell.done:
        return
    torch.set_num_threads(cell.threads)
    analysis = TypeAdapter(find_analysis(cell.analysis)).validate_python(cell.parameters)
    outcome = analysis.run(_inputs(cell, analysis, in_memory or {}))
    check_rows(analysis, outcome)
    check_tables(analysis, outcome)
    with writing(cell.folder) as folder:
        rows = typed(pd.DataFrame(outcome.rows), ROW)
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "rows.parquet")
        absent = {"metric": np.array([*outcome.absent]), "why": np.array([*outcome.absent.values()])}
        tables = {"items": outcome.items, **outcome.tables, "absent": absent if outcome.absent else {}}
        for name, columns in tables.items():
            if columns:
                pq.write_table(_columns_table(columns), folder / f"{name}.parquet", compression="zstd")
    with suppress(OSError):
        remove(cell.unfinished)


def _inputs(cell: Cell, analysis: Analysis, in_memory: Mapping[str, Encoder]) -> Inputs:
    task = read_task(Path(cell.task_file))

    def of(side: Side, **more: Any) -> Inputs:
        return Inputs(
            task=task,
            poolings={
                pooling: {split: Representations.open(Path(folder)) for split, folder in folders.items()}
                for pooling, folders in side.representations.items()
            },
            model=side.model,
            encoder=_encoder(side, "logits" in analysis.needs, in_memory) if cell.needs_model else None,
            **more,
        )

    for folder in cell.tuned_folders:
        demand(folder)
    reference = None if cell.reference is None else of(cell.reference)
    source = cell.side.source or {}
    made: dict[str, Any] = {"cache": Path(cell.cache), "device": source.get("device", "cpu")}
    if cell.own is not None:
        made["own"] = Own(read_task(Path(cell.own["task_file"])), Path(cell.own["folder"]))
    if "trainable_model" in analysis.needs and "source" in source:
        made["trainable"] = str(tunable(source, f"model {cell.model!r} is to be tuned, but"))
    return of(cell.side, baseline=cell.baseline, unfinished=cell.unfinished, reference=reference, **made)


def _encoder(side: Side, head: bool, in_memory: Mapping[str, Encoder]) -> Encoder:
    if side.source is None:
        return in_memory[side.model]
    return load_source(side.source, side.model, head)


def params_hash(cell: Cell) -> str:
    """Short name of an analysis' parameters; the table `cells` spells them out."""
    return digest_json([cell.analysis, cell.version, cell.parameters], length=10)


def read_rows(cell: Cell) -> pd.DataFrame:
    """The rows of a finished cell."""
    demand(cell.folder)
    return typed(pq.read_table(cell.folder / "rows.parquet").to_pandas(), ROW)


def read_table(name: str, cell: Cell) -> pd.DataFrame:
    """A table that a finished cell left beside its rows: `items`, a row per scored word, for example."""
    demand(cell.folder)
    return pq.read_table(cell.folder / f"{name}.parquet").to_pandas()


def _columns_table(items: dict[str, np.ndarray]) -> pa.Table:
    columns = {}
    for name, values in items.items():
        array = pa.array(values)
        columns[name] = array.dictionary_encode() if pa.types.is_string(array.type) else array
    return pa.table(columns)
