"""A worker whose cells never end: `python slow_worker.py` is the real one but for that."""

import sys
import time

from vestige.study import cells
from vestige.study.engines import worker


def busy(cell: cells.Cell) -> None:
    print("busy", file=sys.stderr, flush=True)
    time.sleep(600)


cells.run_cell = busy
worker.main()
