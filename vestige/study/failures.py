"""Cells that did not finish: what each is named by, and what is kept of it beside the results."""

from dataclasses import dataclass
from typing import Any

from vestige import errors
from vestige.errors import VestigeError
from vestige.study.cells import Cell


@dataclass(frozen=True)
class Failure:
    """Why a cell did not finish."""

    cell: Cell
    kind: str
    """Class of the error in vestige.errors; empty for an exception that nobody foresaw."""
    problem: str
    fix: str = ""
    trace: str = ""
    """The traceback of an exception that nobody foresaw."""

    @property
    def error(self) -> Exception:
        """The error as it was raised, naming the cell first."""
        named = f"{describe(self.cell)}: {self.problem}"
        if self.trace:
            return RuntimeError(f"{named}\n{self.trace}")
        return getattr(errors, self.kind, VestigeError)(named, fix=self.fix)

    @property
    def ends_study(self) -> bool:
        """Whether the other cells would meet it too: where nothing can be written, nothing can go on."""
        return self.kind == "StorageError"

    def as_json(self) -> dict[str, Any]:
        """As study.lock.json keeps it."""
        cell = self.cell
        where = {"analysis": cell.analysis, "corpus": cell.corpus, "task": cell.task, "model": cell.model}
        return {**where, "run": cell.run, "problem": self.problem, "fix": self.fix}


def describe(cell: Cell) -> str:
    """The cell in words: analysis, corpus and task, model."""
    run = f", run {cell.run}" if cell.run else ""
    return f"{cell.analysis} of {cell.corpus}/{cell.task}, model {cell.model}{run}"
