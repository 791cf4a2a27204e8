"""Cells on this machine: in this process, or in several worker processes.

Workers are separate programs that read cells from their standard input, so that a script needs no
`if __name__ == "__main__"`, and they end when this process ends, however it ends.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, Queue

from vestige import errors
from vestige.models.encoder import Encoder
from vestige.progress import Bar, bar
from vestige.study.cells import Cell, run_cell


def run(cells: Sequence[Cell], jobs: int = 1, in_memory: Mapping[str, Encoder] | None = None) -> None:
    """Run every cell that is not done yet; an error in one stops the rest, finished ones are kept.

    Cells that need a model which is only `in_memory` (by name) stay in this process.
    """
    waiting = [cell for cell in {cell.key: cell for cell in cells}.values() if not cell.done]
    if not waiting:
        return
    with bar(f"analyses ({min(jobs, len(waiting))} at a time)", len(waiting)) as shown:
        spread = [] if jobs <= 1 or len(waiting) == 1 else [cell for cell in waiting if not cell.stays_here]
        if spread:
            _run_in_workers(spread, min(jobs, len(spread)), shown)
        for cell in waiting:
            if not cell.done:
                run_cell(cell, in_memory)
                shown.advance(description=_describe(cell))


def _run_in_workers(cells: Sequence[Cell], jobs: int, shown: Bar) -> None:
    queue: Queue[Cell] = Queue()
    for cell in cells:
        queue.put(cell)
    problems: list[Exception] = []
    threads = [threading.Thread(target=_serve, args=(queue, problems, shown), daemon=True) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def _serve(queue: "Queue[Cell]", problems: list[Exception], shown: Bar) -> None:
    """Feed one worker process until nothing is left or something failed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    worker = subprocess.Popen(
        [sys.executable, "-m", "vestige.study.engines.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert worker.stdin is not None and worker.stdout is not None
    try:
        while not problems:
            try:
                cell = queue.get_nowait()
            except Empty:
                break
            worker.stdin.write(cell.to_json() + "\n")
            worker.stdin.flush()
            answer = worker.stdout.readline()
            problem = _problem(answer, cell)
            if problem is not None:
                problems.append(problem)
            shown.advance(description=_describe(cell))
    except OSError:
        problems.append(_died(cell))
    finally:
        worker.stdin.close()
        worker.wait()
        worker.stdout.close()


def _problem(answer: str, cell: Cell) -> Exception | None:
    if not answer:
        return _died(cell)
    said = json.loads(answer)
    if said["ok"]:
        return None
    kind = getattr(errors, said["kind"], None)
    if kind is not None:
        return kind(said["problem"], fix=said["fix"])
    return RuntimeError(f"{_describe(cell)} failed:\n{said['problem']}")


def _died(cell: Cell) -> Exception:
    return errors.VestigeError(
        f"the worker of {_describe(cell)} ended without an answer (killed, or out of memory)",
        fix="run again (finished work is kept), with fewer jobs if memory was short",
    )


def _describe(cell: Cell) -> str:
    return f"{cell.analysis} {cell.corpus}/{cell.task} of {cell.model}"
