"""RSA: vestige beside the plain numpy way, and at 100,000 words, one process, one thread.

    python benchmarks/similarity.py [--items 5000] [--many 100000] [--repeats 3] [--out benchmarks/results]

Made-up vectors that share a mean, as those of language models do (mean cosine 0.5 to 0.99), 7 layers of
384 units for two models. The plain way is float32: normalise, multiply, take the strict upper triangles,
`np.corrcoef`. It is also done in float64, for the truth. Times are CPU seconds, the least of the repeats on
either side. Memory is anonymous memory of a process of its own that maps the layers from files.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

from vestige.measures.rsa import rsa
from vestige.measures.similarity import similarities

LAYERS, WIDTH, SENTENCE = 7, 384, 18


def layer(items: int, number: int, model: int) -> np.ndarray:
    """Vectors of one layer; the second model's differ more, and means weigh more, the higher the layer."""
    rng = np.random.default_rng([7, number])
    shared = rng.standard_normal((items, WIDTH), dtype=np.float32)
    shared += (1 + 1.5 * number) * rng.standard_normal(WIDTH, dtype=np.float32)
    if model:
        noise = np.random.default_rng([8, number]).standard_normal((items, WIDTH), dtype=np.float32)
        shared += np.float32(0.3 * number) * noise
    return shared


def plain(x: np.ndarray, y: np.ndarray) -> float:
    """RSA as a few lines of numpy would have it."""
    upper = np.triu_indices(len(x), 1)
    x, y = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y))
    return float(np.corrcoef((x @ x.T)[upper], (y @ y.T)[upper])[0, 1])


def seconds(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least CPU seconds, and what the work returned."""
    least, found = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        found = work()
        least = min(least, time.process_time() - start)
    return least, found


def anonymous() -> int:
    """Anonymous memory of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def run_many(folder: Path, intervals: bool, all_pairs: bool) -> dict[str, Any]:
    """RSA of all layers from files, with the most anonymous memory seen on the way."""
    x, y = ([np.load(folder / f"{m}_{n}.npy", mmap_mode="r") for n in range(LAYERS)] for m in (0, 1))
    most, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            most[0] = max(most[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    sentences = np.arange(len(x[0])) // SENTENCE if intervals else None
    start = time.process_time()
    found = similarities(x, y, ["rsa"], sentences=sentences, all_pairs=all_pairs)["rsa"]
    took = time.process_time() - start
    done.set()
    watcher.join()
    return {
        "intervals": intervals,
        "all_pairs": all_pairs,
        "seconds": took,
        "anonymous_bytes": most[0],
        "values": [found[n, n].value for n in range(LAYERS)],
    }


def in_own_process(folder: Path, *flags: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--folder", str(folder), *flags]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--many", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--intervals", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--all-pairs", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:
        print(json.dumps(run_many(given.folder, given.intervals, given.all_pairs)))
        return
    rows = []
    for number in range(LAYERS):
        x, y = (layer(given.items, number, model) for model in (0, 1))
        theirs, plain_value = seconds(lambda x=x, y=y: plain(x, y), given.repeats)
        ours, value = seconds(lambda x=x, y=y: rsa(x, y), given.repeats)
        truth = plain(x.astype(np.float64), y.astype(np.float64))
        rows.append(
            {
                "layer": number,
                "plain_seconds": theirs,
                "vestige_seconds": ours,
                "ratio": theirs / ours,
                "value": value,
                "plain_error": abs(plain_value - truth),
                "vestige_error": abs(value - truth),
            }
        )
        print(rows[-1], flush=True)
    with tempfile.TemporaryDirectory() as place:
        for number in range(LAYERS):
            for model in (0, 1):
                np.save(Path(place) / f"{model}_{number}.npy", layer(given.many, number, model))
        many = [in_own_process(Path(place), *flags) for flags in ([], ["--intervals"], ["--all-pairs"])]
    for found in many:
        print(found, flush=True)
    result = {
        "items": given.items,
        "many": given.many,
        "layers": LAYERS,
        "width": WIDTH,
        "numpy": np.__version__,
        "peak_rss_of_this_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "rows": rows,
        "at_many": many,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "similarity.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
