"""Worker processes of this machine.

Workers are separate programs that read steps from their standard input, so that a script needs no
`if __name__ == "__main__"`, and they end when this process ends, however it ends.
"""

import json
import os
import selectors
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from vestige.study.engines.engine import Answer, Engine
from vestige.study.engines.execute import packed
from vestige.study.steps.step import Step

_DIED = "its worker ended without an answer (killed, or out of memory)"
_AGAIN = "run again (finished work is kept), with fewer jobs if memory was short"


class Local(Engine):
    """At most `jobs` processes at a time, and no more threads than there are cores, unless one step wants more."""

    name = "local"

    def __init__(self, jobs: int, log: Path, cores: int | None = None) -> None:
        self.jobs, self.log = max(1, jobs), log
        self.cores = cores or max(self.jobs, _cores())
        self._idle: list[subprocess.Popen[str]] = []
        self._busy: dict[subprocess.Popen[str], Step] = {}

    def has_room(self, step: Step) -> bool:
        if not self._busy:
            return True
        threads = sum(running.threads for running in self._busy.values())
        alone = step.device != "cpu" and any(running.device == step.device for running in self._busy.values())
        return len(self._busy) < self.jobs and threads + step.threads <= self.cores and not alone

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
