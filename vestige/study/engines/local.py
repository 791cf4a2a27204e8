"""Cells on this machine: in this process, or in several worker processes.

Workers are separate programs that read cells from their standard input, so that a script needs no
`if __name__ == "__main__"`, and they end when this process ends, however it ends.
"""

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, Queue

from vestige.errors import VestigeError
from vestige.models.encoders.encoder import Encoder
from vestige.progress import Bar, bar
from vestige.study.cells import Cell, run_cell
from vestige.study.failures import Failure, describe


def run(cells: Sequence[Cell], jobs: int = 1, in_memory: Mapping[str, Encoder] | None = None) -> list[Failure]:
    """Run every cell that is not done yet; those that fail are returned, and the others go on.

    Cells that need a model which is only `in_memory` (by name) stay in this process. A full disk ends the study.
    """
    waiting = [cell for cell in {cell.key: cell for cell in cells}.values() if not cell.done]
    if not waiting:
        return []
    with bar(f"analyses ({min(jobs, len(waiting))} at a time)", len(waiting)) as shown:
        spread = [] if jobs <= 1 or len(waiting) == 1 else [cell for cell in waiting if not cell.stays_here]
        failures = _run_in_workers(spread, min(jobs, len(spread)), shown) if spread else []
        elsewhere = {cell.key for cell in spread}
        for cell in waiting:
            if cell.key not in elsewhere:
                failures += _run_here(cell, in_memory)
                shown.advance(description=describe(cell))
    return failures


def _run_here(cell: Cell, in_memory: Mapping[str, Encoder] | None) -> list[Failure]:
    try:
        run_cell(cell, in_memory)
    except VestigeError as error:
        failure = Failure(cell, type(error).__name__, error.problem, error.fix)
        if failure.ends_study:
            raise failure.error from error
        return [failure]
    except Exception as error:
        return [Failure(cell, "", f"{type(error).__name__}: {error}", trace=traceback.format_exc())]
    return []


def _run_in_workers(cells: Sequence[Cell], jobs: int, shown: Bar) -> list[Failure]:
    queue: Queue[Cell] = Queue()
    for cell in cells:
        queue.put(cell)
    failures: list[Failure] = []
    workers: list[subprocess.Popen[str]] = []
    stopped = threading.Event()
    given = queue, failures, workers, shown, stopped
    threads = [threading.Thread(target=_serve, args=given, daemon=True) for _ in range(jobs)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:  # Ctrl-C
        stopped.set()
        while any(thread.is_alive() for thread in threads):
            for worker in list(workers):
                worker.kill()
            for thread in threads:
                thread.join(timeout=0.1)
        raise
    for failure in failures:
        if failure.ends_study:
            raise failure.error
    order = {cell.key: place for place, cell in enumerate(cells)}
    return sorted(failures, key=lambda failure: order[failure.cell.key])


def _serve(
    queue: "Queue[Cell]",
    failures: list[Failure],
    workers: "list[subprocess.Popen[str]]",
    shown: Bar,
    stopped: threading.Event,
) -> None:
    """Feed one worker process until nothing is left; one that died is followed by another."""
    worker: subprocess.Popen[str] | None = None
    try:
        while not stopped.is_set() and not any(failure.ends_study for failure in failures):
            try:
                cell = queue.get_nowait()
            except Empty:
                break
            if worker is None:
                worker = _start()
                workers.append(worker)
            failure = _ask(worker, cell)
            if stopped.is_set():
                break
            if failure is not None:
                failures.append(failure)
            if worker.poll() is not None:
                _end(worker)
                worker = None
            shown.advance(description=describe(cell))
    finally:
        if worker is not None:
            _end(worker)


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


def _ask(worker: "subprocess.Popen[str]", cell: Cell) -> Failure | None:
    """Have a worker run a cell; None if it is done."""
    assert worker.stdin is not None and worker.stdout is not None
    try:
        worker.stdin.write(cell.to_json() + "\n")
        worker.stdin.flush()
        answer = worker.stdout.readline()
    except OSError:
        answer = ""
    if not answer:
        worker.wait()
        return Failure(
            cell,
            "VestigeError",
            "its worker ended without an answer (killed, or out of memory)",
            "run again (finished work is kept), with fewer jobs if memory was short",
        )
    said = json.loads(answer)
    return None if said["ok"] else Failure(cell, said["kind"], said["problem"], said["fix"], said["trace"])
