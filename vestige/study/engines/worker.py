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
            answer = {"ok": False, "kind": type(error).__name__, "problem": error.problem, "fix": error.fix}
        except Exception:
            answer = {"ok": False, "kind": "", "problem": traceback.format_exc(), "fix": ""}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
