"""A cell: one analysis of one model on one task, or of an analysis that reads no corpus on none."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from vestige.analyses import find_analysis
from vestige.analyses.base import NO_TASK, Analysis, Inputs, Own, check_rows, check_tables
from vestige.analyses.schema import ROW, typed
from vestige.cache import demand, reading, remove, writing
from vestige.checksums import read_checksums
from vestige.corpus.store import read_task
from vestige.digest import digest_json
from vestige.study.steps.origin import Origin, tunable
from vestige.study.steps.step import Memory, Step


@dataclass(frozen=True)
class Side:
    """A model as a cell sees it."""

    origin: Origin
    representations: dict[str, dict[str, str]]
    """By pooling and split: the folder; none where the analysis reads no hidden states."""
    head: str | None = None
    """Hash of the language-model heads that it may be given, where the analysis asks for words."""

    @classmethod
    def restore(cls, origin: dict[str, Any], **rest: Any) -> "Side":
        """From plain JSON."""
        return cls(Origin(**origin), **rest)


@dataclass(frozen=True, kw_only=True)
class Cell(Step):
    """One analysis of one model on one task; leaves rows, items and other tables."""

    kind: ClassVar[str] = "analyse"
    side: Side
    corpus: str
    """Empty, as the three that follow, of an analysis that reads none."""
    task: str
    task_file: str
    data: str
    """Hash of words and labels of every split, and of how they were encoded."""
    analysis: str
    version: int
    parameters: dict[str, Any]
    baseline: bool
    reference: Side | None = None
    """The model it is compared with, of an analysis that takes two."""
    own: dict[str, str] | None = None
    """`task_file`, `folder` and `data` (a hash) of the task that the study tuned the model on, where asked for."""

    @property
    def title(self) -> str:
        run = f", run {self.run}" if self.run else ""
        return f"{self.what}, model {self.model}{run}"

    @property
    def what(self) -> str:
        """The analysis and what it reads: 'layer_probe of treebank/upos', 'weights'."""
        return f"{self.analysis} of {self.corpus}/{self.task}" if self.corpus else self.analysis

    @property
    def model(self) -> str:
        return self.side.origin.model

    @property
    def run(self) -> int:
        """Number of the fine-tuning run; 0 for models that were loaded."""
        return self.side.origin.run

    @property
    def about(self) -> set[str]:
        read = {self.corpus, f"{self.corpus}/{self.task}"} if self.corpus else set()
        return {self.model, self.analysis, *read}

    @property
    def folder(self) -> Path:
        return self.root / "cells" / self.key

    @property
    def unfinished(self) -> Path:
        """What it keeps while it runs; gone when it is done."""
        return self.root / "unfinished" / self.key

    @property
    def needs_model(self) -> bool:
        """Whether it reads more of a model than its hidden states."""
        return needs_model(find_analysis(self.analysis))

    @property
    def needs_weights(self) -> bool:
        """Whether it reads the weights of a model, which it does not load for that."""
        return "tensors" in find_analysis(self.analysis).needs

    @property
    def reads_states(self) -> bool:
        return any(side.representations for side in self.sides)

    @property
    def sides(self) -> list[Side]:
        """The model, and the one it is compared with."""
        return [side for side in (self.side, self.reference) if side is not None]

    @property
    def tuned_folders(self) -> list[Path]:
        """Folders of models made in a study that it loads."""
        reads = self.needs_model or self.needs_weights
        loaded = [folder for side in self.sides if reads for folder in side.origin.folders(self.root)]
        return loaded if self.own is None else [*loaded, Path(self.own["folder"])]

    @property
    def tables(self) -> list[str]:
        """Names of the tables that it left beside its rows, as it listed them: a folder that has gone lists none."""
        with reading(self.folder):
            names = [Path(name) for name in read_checksums(self.folder)]
        return sorted(name.stem for name in names if name.suffix == ".parquet" and name.stem != "rows")

    def has(self, table: str) -> bool:
        """Whether it left this table beside its rows."""
        return table in self.tables

    def make(self, memory: Memory) -> None:
        import torch

        torch.set_num_threads(self.threads)
        analysis = TypeAdapter(find_analysis(self.analysis)).validate_python(self.parameters)
        outcome = analysis.run(_inputs(self, analysis, memory))
        check_rows(analysis, outcome)
        check_tables(analysis, outcome)
        with writing(self.folder) as folder:
            rows = typed(pd.DataFrame(outcome.rows), ROW)
            pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "rows.parquet")
            absent = {"metric": np.array([*outcome.absent]), "why": np.array([*outcome.absent.values()])}
            tables = {"items": outcome.items, **outcome.tables, "absent": absent if outcome.absent else {}}
            for name, columns in tables.items():
                if columns:
                    pq.write_table(_columns_table(columns), folder / f"{name}.parquet", compression="zstd")
        with suppress(OSError):
            remove(self.unfinished)


def needs_model(kind: type[Analysis]) -> bool:
    """Whether an analysis reads more of a model than its hidden states."""
    return bool(kind.needs & {"attentions", "logits"})


def cell_key(
    side: Side,
    reference: Side | None,
    own: Mapping[str, str] | None,
    *content: Any,
) -> str:
    """Content hash of a cell; names of models and folders play no role."""
    sides = [each for each in (side, reference) if each is not None]
    heads = [each.head for each in sides if each.head is not None]
    return digest_json([[each.origin.key for each in sides], *content, heads, None if own is None else own["data"]])


def _inputs(cell: Cell, analysis: Analysis, memory: Memory) -> Inputs:
    from vestige.representations.store import Representations

    task = read_task(Path(cell.task_file)) if cell.task_file else NO_TASK

    def of(side: Side, **more: Any) -> Inputs:
        return Inputs(
            task=task,
            poolings={
                pooling: {split: Representations.open(Path(folder)) for split, folder in folders.items()}
                for pooling, folders in side.representations.items()
            },
            model=side.origin.model,
            encoder=side.origin.load(cell.root, memory, "logits" in analysis.needs) if cell.needs_model else None,
            weights=side.origin.weights(cell.root, memory) if cell.needs_weights else None,
            **more,
        )

    for folder in cell.tuned_folders:
        demand(folder)
    reference = None if cell.reference is None else of(cell.reference)
    source = cell.side.origin.source or {}
    made: dict[str, Any] = {"cache": Path(cell.cache), "device": source.get("device", "cpu")}
    if cell.own is not None:
        made["own"] = Own(read_task(Path(cell.own["task_file"])), Path(cell.own["folder"]))
    if "trainable_model" in analysis.needs and "source" in source:
        made["trainable"] = str(tunable(source, f"model {cell.model!r} is to be tuned, but"))
    return of(cell.side, baseline=cell.baseline, unfinished=cell.unfinished, reference=reference, **made)


def params_hash(cell: Cell) -> str:
    """Short name of an analysis' parameters; the table `cells` spells them out."""
    return digest_json([cell.analysis, cell.version, cell.parameters], length=10)


def read_rows(cell: Cell) -> pd.DataFrame:
    """The rows of a finished cell."""
    with reading(cell.folder):
        return typed(pq.read_table(cell.folder / "rows.parquet").to_pandas(), ROW)


def read_table(name: str, cell: Cell) -> pd.DataFrame:
    """A table that a finished cell left beside its rows: `items`, a row per scored word, for example."""
    with reading(cell.folder):
        return pq.read_table(cell.folder / f"{name}.parquet").to_pandas()


def _columns_table(items: dict[str, np.ndarray]) -> pa.Table:
    columns = {}
    for name, values in items.items():
        array = pa.array(values)
        columns[name] = array.dictionary_encode() if pa.types.is_string(array.type) else array
    return pa.table(columns)
