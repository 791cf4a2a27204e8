"""Kill the full demo at random moments, five times over, and compare its tables with an undisturbed run.

Not part of `make test` (it takes as long as several demos): python tests/e2e/kill_demo.py FOLDER
An undisturbed run that FOLDER/undisturbed/run already holds is taken as it is (kills are then spread
over four minutes).
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

TABLES = ("results.parquet", "comparisons.parquet")


def start(folder: Path) -> subprocess.Popen:
    command = [
        sys.executable,
        "-m",
        "vestige.cli",
        "demo",
        "--out",
        str(folder / "run"),
        "--cache",
        str(folder / "cache"),
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def main(root: Path) -> None:
    """Run once undisturbed, then once with five kills, and say whether the bytes agree."""
    took = 240.0
    if not (root / "undisturbed/run/results.parquet").exists():
        began = time.monotonic()
        assert start(root / "undisturbed").wait() == 0
        took = time.monotonic() - began
        print(f"undisturbed: {took:.0f} s", flush=True)
    rng = random.Random(0)
    for kill in range(5):
        process = start(root / "killed")
        wait = rng.uniform(0.05, 0.5) * took
        time.sleep(wait)
        if process.poll() is not None:
            print(f"kill {kill + 1}: had already finished after {wait:.0f} s", flush=True)
            continue
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        print(f"kill {kill + 1}: after {wait:.0f} s", flush=True)
    assert start(root / "killed").wait() == 0
    same = all((root / "undisturbed/run" / t).read_bytes() == (root / "killed/run" / t).read_bytes() for t in TABLES)
    print("the same bytes" if same else "DIFFERENT bytes")
    sys.exit(not same)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
