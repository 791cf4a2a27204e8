"""A worker process: one cell a line in, one answer a line out; ends with its input."""

import json
import os
import sys
import traceback

from vestige.errors import VestigeError


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    from vestige.progress import quiet
    from vestige.study.cells import Cell, run_cell

    quiet()
    for line in sys.stdin:
        try:
            run_cell(Cell.from_json(line))
            answer: dict[str, str | bool] = {"ok": True}
        except VestigeError as error:
            answer = _failed(type(error).__name__, error.problem, error.fix)
        except Exception as error:
            answer = _failed("", f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _failed(kind: str, problem: str, fix: str = "", trace: str = "") -> dict[str, str | bool]:
    return {"ok": False, "kind": kind, "problem": problem, "fix": fix, "trace": trace}


if __name__ == "__main__":
    main()
