"""One step after the other, in this process."""

from vestige.study.engines.engine import Answer, Engine
from vestige.study.engines.execute import execute
from vestige.study.steps.step import Memory, Step


class Inline(Engine):
    """Runs a step when it is waited for; the only engine that has models which exist in memory alone."""

    name = "inline"

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._next: Step | None = None

    def has_room(self, step: Step) -> bool:
        return self._next is None

    def submit(self, step: Step) -> None:
        self._next = step

    def wait(self, seconds: float) -> list[Answer]:
        step, self._next = self._next, None
        return [] if step is None else [execute(step, self.memory)]
