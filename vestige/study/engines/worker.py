"""A worker process: one step a line in, one answer a line out.

It ends at once when its input ends, in the middle of a step too: then nobody waits for the answer. What Ctrl-C
means is decided by the process that started it.
"""

import json
import os
import signal
import sys
import threading
from queue import Queue


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines: Queue[str] = Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    from vestige.study.engines import execute

    while True:
        answer = execute.execute_packed(lines.get())
        answers.write(json.dumps(answer.as_json()) + "\n")
        answers.flush()


def _listen(lines: "Queue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
