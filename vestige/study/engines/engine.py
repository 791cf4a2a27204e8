"""The one interface of all engines, and what they say of a step."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Literal

from vestige.study.steps.step import Step

State = Literal["done", "busy", "failed", "lost"]


@dataclass(frozen=True)
class Answer:
    """How a step ended."""

    key: str
    state: State
    """done; busy: another driver makes it; failed: an error; lost: the machine ended it, and it may be tried again."""
    kind: str = ""
    """Class of the error in vestige.errors; empty for an exception that nobody foresaw."""
    problem: str = ""
    fix: str = ""
    trace: str = ""
    seconds: float = 0.0
    where: str = ""
    """Machine and process."""
    memory: int = 0
    """Largest resident memory of its process, in bytes."""
    warnings: tuple[str, ...] = ()
    made: bool = False
    """Whether it was computed for this answer, and not found finished."""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


class Engine(ABC):
    """Runs steps somewhere. `submit` returns at once; `wait` says what has ended since."""

    name: str

    @abstractmethod
    def has_room(self, step: Step) -> bool:
        """Whether the step can be submitted now."""

    @abstractmethod
    def submit(self, step: Step) -> None:
        """Start a step whose inputs are there."""

    @abstractmethod
    def wait(self, seconds: float) -> list[Answer]:
        """What has ended; waits at most so long for the first."""

    def fewer(self) -> None:  # noqa: B027
        """A step was lost, perhaps for want of memory: run fewer at a time from now on, where that is decided here."""

    def close(self) -> None:  # noqa: B027
        """End what still runs. Called once, also after an error."""
