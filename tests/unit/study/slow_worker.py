"""A worker whose steps never end: `python slow_worker.py` is the real one but for that."""

import sys
import time

from vestige.study.engines import execute, worker


def busy(text: str) -> None:
    print("busy", file=sys.stderr, flush=True)
    time.sleep(600)


execute.execute_packed = busy
worker.main()
