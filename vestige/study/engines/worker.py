"""A worker process: one cell a line in, one answer a line out.

It ends at once when its input ends, in the middle of a cell too: then nobody waits for the answer. What Ctrl-C
means is decided by the process that started it.
"""

import json
import os
import signal
import sys
import threading
import traceback
from queue import Queue

from vestige.errors import VestigeError


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines: Queue[str] = Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    from vestige.progress import quiet
    from vestige.study.cells import Cell, run_cell

    quiet()
    while True:
        try:
            run_cell(Cell.from_json(lines.get()))
            answer: dict[str, str | bool] = {"ok": True}
        except VestigeError as error:
            answer = _failed(type(error).__name__, error.problem, error.fix)
        except Exception as error:
            answer = _failed("", f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _listen(lines: "Queue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _failed(kind: str, problem: str, fix: str = "", trace: str = "") -> dict[str, str | bool]:
    return {"ok": False, "kind": kind, "problem": problem, "fix": fix, "trace": trace}


if __name__ == "__main__":
    main()
