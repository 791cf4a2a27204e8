"""Run one step in this process: what every engine does in the end."""

import ctypes
import gc
import json
import logging
import os
import socket
import sys
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vestige.errors import VestigeError
from vestige.models.files.naming import libraries
from vestige.progress import report_to
from vestige.study.claims import claimed
from vestige.study.engines.engine import Answer, State
from vestige.study.made import compare_with_before
from vestige.study.steps.step import Memory, Step, restore

TOKEN = "token"


def packed(step: Step, log: Path) -> str:
    """A step as it travels to another process: itself, where it logs, and what that process has to find there."""
    token = log / TOKEN
    if not token.exists():
        log.mkdir(parents=True, exist_ok=True)
        token.write_text(uuid.uuid4().hex)
    seen = {"libraries": libraries(), "token": token.read_text()}
    return json.dumps({"step": step.to_json(), "log": str(log.absolute()), **seen})


def execute_packed(text: str) -> Answer:
    """Run a step that came from another process; all that it prints goes into its log."""
    given = json.loads(text)
    step, log = restore(given["step"]), Path(given["log"])
    problem, fix = _unfit(step, log, given)
    if problem:
        return Answer(step.key, "failed", "VestigeError", problem, fix)
    with _printing_to(log / f"{step.key}.log"), report_to(log / f"{step.key}.json"):
        answer = execute(step, {})
    _return_memory()
    return answer


def _return_memory() -> None:
    """Give what a step has freed back to the system: the C library keeps it, and the next step needs other sizes."""
    if sys.platform == "linux":
        gc.collect()
        with suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


def _unfit(step: Step, log: Path, given: dict[str, Any]) -> tuple[str, str]:
    """What this machine lacks to run a step, and what to do about it."""
    host = socket.gethostname()
    if given["libraries"] != libraries():
        here, there = ", ".join(libraries()), ", ".join(given["libraries"])
        return f"{host} has {here}; the study was planned with {there}", "install the same versions everywhere"
    shared = "keep it on a file system that all machines share"
    if not step.root.is_dir():
        return f"{step.root}, the cache of the study, is not to be seen on {host}", f"{shared} (--cache, VESTIGE_CACHE)"
    try:
        token = (log / TOKEN).read_text()
    except OSError:
        token = ""
    if token != given["token"]:
        return f"{log}, where the run keeps its logs, is another folder on {host}, or none", f"{shared} (--out)"
    return "", ""


def execute(step: Step, memory: Memory) -> Answer:
    """Make a step unless it is there, or another driver is making it."""
    began, made = time.monotonic(), False

    def answer(state: State, kind: str = "", problem: str = "", fix: str = "", trace: str = "") -> Answer:
        return Answer(
            step.key,
            state,
            kind,
            problem,
            fix,
            trace,
            seconds=time.monotonic() - began,
            where=f"{socket.gethostname()}:{os.getpid()}",
            memory=_memory(),
            warnings=tuple(heard),
            made=made,
        )

    with _hearing() as heard:
        try:
            with claimed(step.root / "claims" / step.key) as mine:
                if not mine:
                    return answer("done" if step.there else "busy")
                if not step.there:
                    with _threads(step.threads):
                        step.make(memory)
                    made = True
                    compare_with_before(step)
        except VestigeError as error:
            return answer("failed", type(error).__name__, error.problem, error.fix)
        except MemoryError:
            return answer("lost", "VestigeError", "out of memory", "run fewer steps at a time (--jobs 1)")
        except Exception as error:
            return answer("failed", "", f"{type(error).__name__}: {error}", "", traceback.format_exc())
        return answer("done")


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """So many threads for all mathematics, NumPy's and SciPy's too: another number gives other last digits."""
    import scipy.linalg  # noqa: F401  (brings a library of its own, which must be there to be limited)
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(number):
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _memory() -> int:
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _hearing() -> Iterator[list[str]]:
    """Warnings that vestige logs meanwhile."""
    handler, logger = _Heard(), logging.getLogger("vestige")
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Standard output and error of this process go into a file, those of libraries in C too."""
    kept = os.dup(1), os.dup(2)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in enumerate(kept, start=1):
            os.dup2(before, number)
            os.close(before)
        os.close(target)
