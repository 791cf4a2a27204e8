"""Which steps of a study wait, are ready, run, are done or failed."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Literal

from vestige.study.failures import Failure
from vestige.study.steps.step import Step

State = Literal["done", "waiting", "running", "busy", "failed", "lost"]


class Board:
    """States of steps. What is there and whole is done; hidden states count only where a waiting step reads them."""

    def __init__(self, steps: Mapping[str, Step], wanted: Collection[str] | None = None) -> None:
        """`wanted`: only these, and what they read."""
        order = TopologicalSorter({key: [k for k in step.inputs if k in steps] for key, step in steps.items()})
        self.steps = {key: steps[key] for key in order.static_order()}
        if wanted is not None:
            needed = self._with_inputs(wanted)
            self.steps = {key: step for key, step in self.steps.items() if key in needed}
        self.readers: dict[str, list[str]] = {key: [] for key in self.steps}
        for key, step in self.steps.items():
            for other in step.inputs:
                if other in self.readers:
                    self.readers[other].append(key)
        self.states: dict[str, State] = {}
        self.failures: dict[str, Failure] = {}
        """Of steps that failed, and of those that need one of them."""
        for key in reversed(self.steps):
            self.states[key] = "waiting" if self._lacking(key) else "done"
        self.left = [key for key in self.steps if self.states[key] == "waiting"]
        """What was to do at the start."""

    def _with_inputs(self, wanted: Collection[str]) -> set[str]:
        needed = set(wanted)
        for key in reversed(self.steps):
            if key in needed:
                needed |= {*self.steps[key].inputs}
        return needed

    def _lacking(self, key: str) -> bool:
        step = self.steps[key]
        return not step.done or (not step.there and any(self._wants_states(reader) for reader in self.readers[key]))

    def _wants_states(self, key: str) -> bool:
        return self.states.get(key) in ("waiting", "running", "busy") and self.steps[key].reads_states

    def ready(self) -> Iterator[Step]:
        """Waiting steps whose inputs are done."""
        for key, step in self.steps.items():
            if self.states[key] == "waiting" and all(
                self.states[other] == "done" for other in step.inputs if other in self.steps
            ):
                yield step

    def of(self, state: State) -> list[Step]:
        """Steps in a state."""
        return [step for key, step in self.steps.items() if self.states[key] == state]

    @property
    def unfinished(self) -> bool:
        """Whether any step still waits or runs."""
        return any(state in ("waiting", "running", "busy") for state in self.states.values())

    def fail(self, failure: Failure) -> None:
        """A step failed: those that need it are lost, and no others."""
        self.states[failure.step.key] = "failed"
        self.failures[failure.step.key] = failure
        stack = [failure.step.key]
        while stack:
            for reader in self.readers[stack.pop()]:
                if self.states[reader] not in ("failed", "lost", "done"):
                    self.states[reader] = "lost"
                    self.failures[reader] = failure
                    stack.append(reader)

    def again(self, key: str) -> None:
        """A step that was done has to be made once more."""
        self.states[key] = "waiting"

    def idle_states(self) -> list[str]:
        """Steps whose hidden states no step is going to read any more."""
        return [
            key
            for key, readers in self.readers.items()
            if self.states[key] == "done" and not any(self._wants_states(reader) for reader in readers)
        ]

    def counts(self) -> dict[str, Counter[str]]:
        """By kind of step, how many are in which state."""
        found: dict[str, Counter[str]] = {}
        for key, step in self.steps.items():
            found.setdefault(step.kind, Counter())[self.states[key]] += 1
        return found
