"""Compare a tuned model with its reference: one analysis of one task, all runs."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from vestige.cache import reading, writing
from vestige.digest import digest_chunks, digest_json
from vestige.study.steps.analyse import Cell
from vestige.study.steps.step import Memory, Step

NOTES = "notes.json"


@dataclass(frozen=True, kw_only=True)
class Compare(Step):
    """Differences with intervals and tests, before they are corrected for the many that a study makes.

    Of a tuned model and its reference; or, where `outside` has cells, of a tuned model's similarity to its reference
    on the corpus it was tuned on (`tuned`) and on another.
    """

    kind: ClassVar[str] = "compare"
    base: Cell
    """Of the reference; of two domains, and where cells of `tuned` have both models, the first of `tuned`."""
    tuned: tuple[Cell, ...]
    outside: tuple[Cell, ...] = ()
    settings: dict[str, Any]
    margins: dict[str, float]

    @property
    def title(self) -> str:
        one = self.tuned[0]
        against = self.outside[0].corpus if self.outside else self.reference
        return f"comparing {one.what}, model {one.model} with {against}"

    @property
    def reference(self) -> str:
        """The model that the tuned one is compared with."""
        own = self.tuned[0].reference
        return self.base.model if own is None else own.origin.model

    @property
    def about(self) -> set[str]:
        return self.tuned[0].about

    @property
    def folder(self) -> Path:
        return self.root / "compared" / self.key

    def make(self, memory: Memory) -> None:
        from vestige.study.differences import compared_domains, compared_models, compared_selections

        if self.outside:
            found = compared_domains(self.tuned, self.outside, self.settings, self.margins)
            notes, changes = list[str](), pd.DataFrame()
        else:
            found, notes = compared_models(self.base, self.tuned, self.settings, self.margins)
            changes = compared_selections(self.base, self.tuned, self.settings)
        with writing(self.folder) as folder:
            for name, table in (("comparisons", found), ("neuron_changes", changes)):
                (folder / f"{name}.parquet").write_bytes(parquet(table))
            (folder / NOTES).write_text(json.dumps(notes), encoding="utf-8")

    def table(self, name: str) -> pd.DataFrame:
        """`comparisons` or `neuron_changes`, without the columns that say what was compared."""
        with reading(self.folder):
            return pq.read_table(self.folder / f"{name}.parquet").to_pandas()

    def notes(self) -> list[str]:
        """Why something could not be compared."""
        with reading(self.folder):
            return json.loads((self.folder / NOTES).read_text(encoding="utf-8"))


def compare_step(
    cache: str,
    base: Cell,
    tuned: Sequence[Cell],
    outside: Sequence[Cell],
    settings: Mapping[str, Any],
    margins: Mapping[str, float],
) -> Compare:
    """The step, named by the cells, the settings and the code that compares."""
    cells = [base, *tuned, *outside]
    content = [[cell.key for cell in cells], len(outside), dict(settings), dict(margins), _code()]
    return Compare(
        key=digest_json(content),
        cache=cache,
        inputs=tuple(dict.fromkeys(cell.key for cell in cells)),
        base=base,
        tuned=tuple(tuned),
        outside=tuple(outside),
        settings=dict(settings),
        margins=dict(margins),
    )


def parquet(table: pd.DataFrame) -> bytes:
    """A table as a file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), buffer)
    return buffer.getvalue()


@lru_cache
def _code() -> str:
    """Hash of what computes differences: they are fast to make again, and a changed formula must not be missed."""
    rooms = [files("vestige.comparison"), files("vestige.measures")]
    code = [file for room in rooms for file in room.iterdir() if file.name.endswith(".py")]
    sources = sorted((file.name, file.read_bytes()) for file in code)
    return digest_chunks(chunk for name, content in sources for chunk in (name.encode(), content))
