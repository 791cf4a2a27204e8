"""Worker processes of this machine.

Workers are separate programs that read steps from their standard input, so that a script needs no
`if __name__ == "__main__"`, and they end when this process ends, however it ends.
"""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vestige.study.engines.engine import Answer, Engine
from vestige.study.engines.execute import packed
from vestige.study.steps.step import Step

_DIED = "its worker ended without an answer (killed, or out of memory)"
_AGAIN = "run again (finished work is kept), with fewer jobs if memory was short"


PROCESS = 600_000_000
"""Bytes that a worker takes before it has loaded a model: its libraries."""
SHARE = 0.8
"""Of the memory that is free at the start, what steps may take together."""


class Local(Engine):
    """At most `jobs` processes at a time, with no more threads than there are cores and no more memory than is free.

    A step that wants more than there is runs alone.
    """

    name = "local"

    def __init__(
        self,
        jobs: int,
        log: Path,
        cores: int | None = None,
        memory: int | None = None,
        needs: Callable[[Step], int] = lambda step: 0,
    ) -> None:
        """`memory`: bytes that all steps may take together; `needs`: what a step takes, by estimate."""
        self.jobs, self.log = max(1, jobs), log
        self.cores = cores or max(self.jobs, _cores())
        self.memory = memory or free_memory(SHARE)
        self._needs = needs
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: dict[subprocess.Popen[str], Step] = {}

    def has_room(self, step: Step) -> bool:
        if not self._busy:
            return True
        threads = sum(running.threads for running in self._busy.values())
        taken = sum(PROCESS + self._needs(running) for running in (*self._busy.values(), step))
        alone = step.device != "cpu" and any(running.device == step.device for running in self._busy.values())
        fits = self.memory is None or taken <= self.memory
        return len(self._busy) < self.jobs and threads + step.threads <= self.cores and fits and not alone

    def submit(self, step: Step) -> None:
        worker = self._idle.pop() if self._idle else _start()
        self._busy[worker] = step
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # `wait` finds it dead
            worker.stdin.write(packed(step, self.log) + "\n")
            worker.stdin.flush()

    def wait(self, seconds: float) -> list[Answer]:
        with selectors.DefaultSelector() as selector:
            for worker in self._busy:
                assert worker.stdout is not None
                selector.register(worker.stdout, selectors.EVENT_READ, worker)
            ready = [key.data for key, _ in selector.select(seconds)] if self._busy else []
        return [self._answer(worker) for worker in ready]

    def _answer(self, worker: "subprocess.Popen[str]") -> Answer:
        assert worker.stdout is not None
        step = self._busy.pop(worker)
        line = worker.stdout.readline()
        if line:
            self._idle.append(worker)
            said = json.loads(line)
            return Answer(**{**said, "warnings": tuple(said["warnings"])})
        _end(worker)
        return Answer(step.key, "lost", "VestigeError", _DIED, _AGAIN)

    def fewer(self) -> None:
        self.jobs = max(1, self.jobs - 1)

    def close(self) -> None:
        for worker in self._busy:
            worker.kill()
        for worker in (*self._busy, *self._idle):
            _end(worker)
        self._busy, self._idle = {}, []


def free_memory(share: float) -> int | None:
    """A share of the bytes that this machine, or the group of processes that we are in, has left; None if unknown."""
    found = []
    with suppress(OSError, ValueError, StopIteration, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    for most, used in (("max", "current"), ("limit_in_bytes", "usage_in_bytes")):  # of cgroup 2 and 1
        group = Path("/sys/fs/cgroup") if most == "max" else Path("/sys/fs/cgroup/memory")
        with suppress(OSError, ValueError):  # no limit is the word max
            found.append(int((group / f"memory.{most}").read_text()) - int((group / f"memory.{used}").read_text()))
    return int(share * max(0, min(found))) if found else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start() -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.Popen(
        [sys.executable, "-m", "vestige.study.engines.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C is the driver's: it ends the workers
    )


def _end(worker: "subprocess.Popen[str]") -> None:
    assert worker.stdin is not None and worker.stdout is not None
    with suppress(BrokenPipeError):
        worker.stdin.close()
    worker.wait()
    worker.stdout.close()
