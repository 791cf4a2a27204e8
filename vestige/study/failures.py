"""Steps that did not finish: why, and what is kept of them beside the results."""

from dataclasses import dataclass
from typing import Any

from vestige import errors
from vestige.errors import VestigeError
from vestige.study.steps.analyse import Cell
from vestige.study.steps.step import Step


@dataclass(frozen=True)
class Failure:
    """Why a step did not finish."""

    step: Step
    kind: str
    """Class of the error in vestige.errors; empty for an exception that nobody foresaw."""
    problem: str
    fix: str = ""
    trace: str = ""
    """The traceback of an exception that nobody foresaw."""
    log: str = ""
    """The file with all that the step has printed."""

    @property
    def error(self) -> Exception:
        """The error as it was raised, naming the step first."""
        problem = self.problem if self.problem.startswith(self.step.title) else f"{self.step.title}: {self.problem}"
        if self.trace:
            return RuntimeError(f"{problem}\n{self.trace}")
        return getattr(errors, self.kind, VestigeError)(problem, fix=self.fix)

    @property
    def ends_study(self) -> bool:
        """Whether the other steps would meet it too: where nothing can be written, nothing can go on."""
        return self.kind == "StorageError"

    def lost(self, cell: Cell) -> dict[str, Any]:
        """A cell that it cost, as study.lock.json keeps it."""
        where = {"analysis": cell.analysis, "corpus": cell.corpus, "task": cell.task, "model": cell.model}
        before = "" if cell.key == self.step.key else f"{self.step.title}: "
        return {**where, "run": cell.run, "problem": f"{before}{self.problem}", "fix": self.fix, "log": self.log}
