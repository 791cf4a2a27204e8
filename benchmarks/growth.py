"""How the time and memory of converged probes grow with words, labels, probes and layers.

    python benchmarks/growth.py            # writes benchmarks/results/growth.json; `benchmarks/write.py` shows it

Made-up layers of 384 units, whose labels follow a stream of 64 directions; every number is that of a process of its own
with one thread. What is timed is the probe, solved to a certified gap of 1e-2 nats under a ridge of 20 / words: CPU
seconds, the median of three runs, and the most anonymous memory beyond what the process holds before it has any rows.
An exponent is the slope of the logarithms; 1 is linear.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import torch
from large import anonymous_memory

from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features

RESULTS = Path(__file__).parent / "results" / "growth.json"
WIDTH, STREAM, REPEATS = 384, 64, 3
USUAL = {"words": 60_000, "labels": 24, "probes": 1, "layers": 1}
TRIED = {
    "words": (20_000, 60_000, 200_000, 900_000),
    "labels": (12, 24, 48, 96),
    "probes": (1, 2, 4, 8),
    "layers": (1, 2, 4, 8),
}


def made_up(words: int, labels: int, probes: int, seed: int) -> tuple[np.ndarray, torch.Tensor]:
    """Rows (words, units) and labels (probes, words) that mostly follow them, some far rarer than others."""
    rng = np.random.default_rng([3, seed])
    mix = rng.standard_normal((STREAM, WIDTH)).astype(np.float32) / STREAM**0.5
    guide = 2 * rng.standard_normal((probes, STREAM, labels)).astype(np.float32) / STREAM**0.5
    rare = -np.log(np.arange(1, labels + 1), dtype=np.float32)
    rows = np.empty((words, WIDTH), dtype=np.float32)
    gold = np.empty((probes, words), dtype=np.int64)
    for start in range(0, words, 10_000):
        span = slice(start, min(start + 10_000, words))
        stream = rng.standard_normal((span.stop - start, STREAM), dtype=np.float32)
        rows[span] = stream @ mix + 0.5 * rng.standard_normal((len(stream), WIDTH), dtype=np.float32)
        for mine, own in zip(gold, guide, strict=True):
            mine[span] = (2 * stream @ own + rare + rng.gumbel(size=(len(stream), labels))).argmax(1)
    return rows, torch.from_numpy(gold)


def measure(words: int, labels: int, probes: int, layers: int) -> dict[str, Any]:
    """In this process."""
    torch.set_num_threads(1)
    seconds, passes = 0.0, []
    with anonymous_memory() as peak:
        time.sleep(0.2)
        before = peak[0]
        for layer in range(layers):
            rows, gold = made_up(words, labels, probes, layer)
            began = time.process_time()
            fit = solve(Features(rows), gold, labels, [0.0] * probes, [20.0 / words] * probes, tolerance=1e-2)
            seconds += time.process_time() - began
            passes.append(fit.passes)
    return {"seconds": seconds, "gigabytes": peak[0] - before, "passes": float(np.mean(passes))}


def tried(axis: str, value: int) -> dict[str, Any]:
    """In processes of their own."""
    shape = [str(size) for size in {**USUAL, axis: value}.values()]
    command = [sys.executable, __file__, "--measure", *shape]
    runs = [json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(REPEATS)]
    seconds = sorted(run["seconds"] for run in runs)
    return {"axis": axis, "value": value, "seconds": median(seconds), "least": seconds[0], "most": seconds[-1],
            "gigabytes": max(run["gigabytes"] for run in runs), "passes": runs[0]["passes"]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=int, nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(*asked.measure)))
        return
    rows: list[dict[str, Any]] = []
    for axis, values in TRIED.items():
        for value in values:
            rows.append(tried(axis, value))
            print(rows[-1], flush=True)
    RESULTS.write_text(json.dumps({"usual": USUAL, "width": WIDTH, "repeats": REPEATS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
