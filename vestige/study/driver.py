"""The driver: hands ready steps to engines until nothing is left to do.

A step that fails stops what depends on it and nothing else. What a machine did to a step (killed, out of memory) is
tried again, a stated number of times; what the input did is not. A damaged input is made again.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from vestige.cache import give_up
from vestige.errors import DamageError
from vestige.study.board import Board
from vestige.study.claims import held, release
from vestige.study.engines.engine import Answer, Engine
from vestige.study.failures import Failure
from vestige.study.housekeeping import size_text
from vestige.study.record import Record
from vestige.study.screen import Screen
from vestige.study.space import Space
from vestige.study.steps.step import Step

_log = logging.getLogger(__name__)

RETRIES = 2
"""How often a step is tried again that a machine has ended."""
REPAIRS = 3
"""How often inputs of a step are made again because they were damaged."""
_PAUSE = 0.2
_LIMITED = ("load", "compare", "analyse", "extract", "tune")
_PLAIN = ("load", "tune", "extract", "analyse", "compare")
"""What goes first: errors of models are found early, and long chains begin early; under a limit of disk space, what
frees hidden states goes before what makes them."""


@dataclass
class Driver:
    """Runs what is left of a board."""

    board: Board
    engine: Engine
    inline: Engine
    """For steps that cannot leave this process."""
    record: Record
    space: Space
    screen: Screen
    tries: Counter[str] = field(default_factory=Counter)
    restore: Callable[[], None] = lambda: None
    """Writes the words and labels that steps read once more, where they are damaged."""
    took: dict[str, float] = field(default_factory=dict)
    """By key, seconds of steps that were made."""

    def run(self) -> dict[str, Failure]:
        """Drive to the end; by key, why steps failed or were lost."""
        try:
            while self.board.unfinished:
                started = self._submit()
                self._look_at_busy()
                waiting = 0.0 if self._here else 60.0 if not self.board.of("busy") else 1.0
                answers = [*self.inline.wait(0), *self.engine.wait(min(waiting, self.screen.patience))]
                for answer in answers:
                    self._take(answer)
                self.screen.show(self.board)
                if not (started or answers or self.board.of("running") or self.board.of("busy")):
                    self._make_room()
        finally:
            self.engine.close()
            self.inline.close()
            self.screen.close()
        return self.board.failures

    @property
    def _here(self) -> bool:
        return any(step.stays_here for step in self.board.of("running")) or self.engine.name == "inline"

    def _submit(self) -> bool:
        order = _PLAIN if self.space.limit is None else _LIMITED
        started = False
        for step in sorted(self.board.ready(), key=lambda step: order.index(step.kind)):
            engine = self.inline if step.stays_here else self.engine
            if engine.has_room(step) and self.space.admits(step):
                self.board.states[step.key] = "running"
                self.record.note("started", key=step.key, kind=step.kind, title=step.title, engine=engine.name)
                engine.submit(step)
                started = True
        return started

    def _look_at_busy(self) -> None:
        """Steps that another driver makes: done when they are there, ours when that driver is dead."""
        for step in self.board.of("busy"):
            claim = step.root / "claims" / step.key
            if not held(claim):
                release(claim)
                self.board.again(step.key)

    def _take(self, answer: Answer) -> None:
        step = self.board.steps[answer.key]
        self.space.ended(step)
        for line in answer.warnings:
            if step.stays_here is False and self.engine.name != "inline":
                _log.warning("%s", line)
        if answer.state == "busy":
            self.board.states[step.key] = "busy"
            self.record.note("busy", key=step.key, kind=step.kind, title=step.title)
            return
        if answer.state == "done":
            self.board.states[step.key] = "done"
            if answer.made:
                self.took[step.key] = answer.seconds
            about = {"seconds": round(answer.seconds, 3), "where": answer.where, "memory": answer.memory}
            about["made"] = answer.made
            self.record.note("done", key=step.key, kind=step.kind, title=step.title, **about)
            if self.space.limit is not None:
                self._drop(self.board.idle_states())
            return
        if self._tried_again(step, answer):
            return
        log = self.record.log(step.key)
        failure = Failure(step, answer.kind, answer.problem, answer.fix, answer.trace, str(log) if log.exists() else "")
        self.record.note(
            "failed", key=step.key, kind=step.kind, title=step.title, problem=answer.problem, fix=answer.fix,
            trace=answer.trace, log=failure.log,
        )  # fmt: skip
        self.board.fail(failure)
        if failure.ends_study:
            raise failure.error

    def _tried_again(self, step: Step, answer: Answer) -> bool:
        """Whether the step waits once more: its machine ended it, or its inputs were damaged and are made again."""
        if answer.state == "lost":
            self.tries[step.key] += 1
            self.engine.fewer()
            again = self.tries[step.key] <= RETRIES
        elif (damaged := self._damaged_inputs(step)) or answer.kind == DamageError.__name__:
            self.tries[f"damage {step.key}"] += 1
            for key in damaged:
                if self.board.states[key] == "done":
                    self.board.again(key)
            self.restore()
            again = self.tries[f"damage {step.key}"] <= REPAIRS
        else:
            return False
        if again:
            self.board.again(step.key)
            self.record.note("retried", key=step.key, kind=step.kind, title=step.title, problem=answer.problem)
        return again

    def _damaged_inputs(self, step: Step) -> list[str]:
        """Inputs that are not whole: whatever error the step met may be theirs, as a file that went while it read."""
        inputs = {key: self.board.steps[key] for key in step.inputs if key in self.board.steps}
        return [key for key, read in inputs.items() if (read.check() if step.reads_states else give_up(read.folder))]

    def _drop(self, keys: list[str]) -> None:
        for dropped in self.space.drop(keys):
            self.record.note("dropped", key=dropped.key, kind=dropped.kind, title=dropped.title)

    def _make_room(self) -> None:
        """Nothing runs and nothing can start: hidden states that the next step does not read are dropped."""
        waiting = [step for step in self.board.of("waiting") if step.reads_states]
        for step in waiting:
            needed = self.space.at_once(step)
            if self.space.limit is not None and needed > self.space.limit:
                self.board.fail(_too_large(step, needed, self.space.limit))
                continue
            others = [key for key in self.space.extracts if key not in step.inputs]
            for dropped in self.space.drop(others):
                self.record.note("dropped", key=dropped.key, kind=dropped.kind, title=dropped.title)
                if any(reader in self.board.steps and self.board.states[reader] == "waiting" for reader in
                       self.board.readers.get(dropped.key, ())):  # fmt: skip
                    self.board.again(dropped.key)
            self._first(step)
            return
        for step in self.board.of("waiting"):  # hidden states that nothing reads any more, or whose tokens are counted
            if step.done:
                self.board.states[step.key] = "done"
                continue
            size = self.space.at_once(step) or self.space.size(step)
            self.board.fail(_too_large(step, size, self.space.limit or 0))

    def _first(self, step: Step) -> None:
        """Have the inputs of a step made before those of any other."""
        front = {key: self.board.steps[key] for key in (*step.inputs, step.key) if key in self.board.steps}
        self.board.steps = {**front, **self.board.steps}


def _too_large(step: Step, needed: int, limit: int) -> Failure:
    return Failure(
        step,
        "VestigeError",
        f"it takes hidden states of {size_text(needed)} at once, and the study may keep {size_text(limit)}",
        "raise the limit (disk of the engine), or keep hidden states as float16 (compute: {dtype: float16})",
    )
