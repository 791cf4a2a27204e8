"""One elastic-net probe on representations that do not fit into memory: how much it takes, and how time grows.

    python benchmarks/memory.py SCRATCH [--words 100000 300000 900000] [--out benchmarks/results]

Writes a store of the largest size (13 x 768 neurons, float16: 18 GB for 900,000 words) under SCRATCH and
removes it in the end. Smaller sizes are its first rows; rows beyond the first 100,000 repeat those. 44 labels,
each planted in five neurons of its own; the other neurons share a low-rank stream and know nothing of them.
Up to `--whole` words: one whole pass of the proximal solver over all rows, the default training of one pair of
penalties (`solve_path`), and a round of `polish`, whose objective and gap are taken over all rows. Beyond that,
the first `--steps` steps of a pass, and of it all by proportion; a step is as dear at the end as at the beginning.
Memory is the most anonymous resident memory seen (mapped pages of the store are the system's to take back),
sampled twenty times a second. One thread.
"""

import argparse
import json
import mmap
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import torch

from vestige.neurons.matrix import Neurons
from vestige.neurons.ranking import rank, top
from vestige.probes.elastic_net.path import BATCH, solve_path
from vestige.probes.elastic_net.polish import polish
from vestige.probes.elastic_net.proximal import Probes, train
from vestige.probes.visit import Frame, Visit
from vestige.representations.store import Representations, create_layers, write_manifest

L1, L2 = 1e-4, 1e-4
STREAM, BLOCK, PER_LABEL = 64, 10_000, 5
DISTINCT = 100_000
"""Rows that are made; the others repeat them, which costs the solvers as much."""
LIMIT_GB = 6.0


@contextmanager
def anonymous_memory() -> Iterator[list[float]]:
    """The largest RssAnon of this process while the block runs, in GB, as the list's one number."""
    peak, done = [0.0], threading.Event()

    def look() -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak[0] = max(peak[0], int(line.split()[1]) * 1024 / 1e9)
            if done.wait(0.05):
                return

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def seconds(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """CPU and wall seconds of the work, and what it returned."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}, found


def write_store(folder: Path, words: int, widths: Sequence[int], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and planted neurons (classes, PER_LABEL) of a store made block by block."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, classes + 1)
    labels = np.resize(rng.choice(classes, min(words, DISTINCT), p=shares / shares.sum()), words)
    planted = rng.choice(sum(widths), (classes, PER_LABEL), replace=False)
    offsets = np.cumsum((0, *widths))
    mixes = [torch.randn(STREAM, width) * STREAM**-0.5 for width in widths]
    noise = torch.randn(2 * BLOCK, max(widths))
    layers = create_layers(folder, words, tuple(widths), "float16")
    for start in range(0, min(words, DISTINCT), BLOCK):
        gold = labels[start : start + BLOCK]
        stream = torch.randn(len(gold), STREAM)
        for layer, width in enumerate(widths):
            shift = int(rng.integers(BLOCK))
            values = stream @ mixes[layer] + noise[shift : shift + len(gold), :width]
            for label, neuron in zip(
                *np.nonzero((planted >= offsets[layer]) & (planted < offsets[layer + 1])), strict=True
            ):
                values[:, planted[label, neuron] - offsets[layer]] += torch.from_numpy(2.0 * (gold == label)).float()
            layers[layer][start : start + len(gold)] = values.half().numpy()
    for values in layers:
        for start in range(DISTINCT, words, BLOCK):
            stop = min(start + BLOCK, words)
            values[start:stop] = values[start % DISTINCT : start % DISTINCT + stop - start]
    index = np.stack([np.zeros(words), np.arange(words)], axis=1).astype(np.int32)
    write_manifest(folder, index, {"widths": list(widths), "rows": words})
    return labels, planted


def measure(
    stored: Representations, labels: np.ndarray, planted: np.ndarray, words: int, steps: int | None
) -> dict[str, Any]:
    """Times and memory on the first rows of the store; of a pass only so many steps, unless None."""
    source = Neurons(tuple(stored.layer(index)[:words] for index in range(stored.layers)))
    classes, gold = len(planted), torch.from_numpy(labels[:words])
    timed = words // BATCH if steps is None else steps

    def pass_over_rows() -> dict[str, float]:
        frame = Frame.of(source)
        probes = Probes.at_zero(gold[None], source.width, classes, [L1], [L2], "squared", frame)
        visit = iter(Visit(source, BATCH, 0, centre=frame.centre))
        return seconds(lambda: train(probes, visit, gold[None], timed, 1e-3))[0]

    with anonymous_memory() as peak:
        spent = pass_over_rows()
        found = whole_training(source, gold, planted) if steps is None else {}
    share = timed / (words // BATCH)
    return {
        "words": words,
        "steps_timed": timed,
        "pass_seconds": {clock: value / share for clock, value in spent.items()},
        "step_seconds": spent["cpu"] / timed,
        "peak_anonymous_gb": peak[0],
        **found,
    }


def whole_training(source: Neurons, gold: torch.Tensor, planted: np.ndarray) -> dict[str, Any]:
    """The default training of one pair and a round of polish."""
    path_time, path = seconds(lambda: solve_path(source, gold, len(planted), [L1], [L2]))
    solution = path.at(L1, L2)
    start = solution.weights, solution.biases
    polish_time, polished = seconds(lambda: polish(source, gold, len(planted), L1, L2, start=start, rounds=1))
    best = top(rank(polished.weights), planted.size)
    return {
        "default_seconds": path_time,
        "polish_seconds": polish_time,
        "objective": polished.objective,
        "gap": polished.gap,
        "planted_found": len(np.intersect1d(best, planted)) / planted.size,
    }


def reading(stored: Representations, stretches: int = 160) -> dict[str, dict[str, float]]:
    """Stretches of 128 rows from all over the store, turned into float32 and nothing else: what one costs.

    `cold`: the store is not in the page cache. `announced`: neither, but the system is told which bytes are wanted.
    `warm`: the same stretches once more.
    """
    source = Neurons.of(stored)
    starts = np.random.default_rng(1).choice(len(source) // 128, stretches, replace=False) * 128
    needed = 128 * source.width * source.layers[0].itemsize / 1e6

    def read(announce: bool) -> dict[str, float]:
        before, (spent, _) = _bytes_read(), seconds(lambda: [one(int(start), announce) for start in starts])
        read_mb = (_bytes_read() - before) / 1e6 / stretches
        return {**{clock: value / stretches for clock, value in spent.items()}, "read_mb": read_mb, "needed_mb": needed}

    def one(start: int, announce: bool) -> None:
        for layer in source.layers if announce else ():
            row = layer.shape[1] * layer.itemsize
            first = (layer.offset + start * row) // mmap.PAGESIZE * mmap.PAGESIZE
            layer._mmap.madvise(mmap.MADV_WILLNEED, first, 128 * row + mmap.PAGESIZE)
        source.rows(slice(start, start + 128))

    found = {}
    for name, announce, drop in (("cold", False, True), ("announced", True, True), ("warm", False, False)):
        if drop:
            source = Neurons.of(stored)
            for path in stored.folder.glob("layer*.npy"):
                with open(path, "rb") as stream:
                    os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        found[name] = read(announce)
    return found


def _bytes_read() -> int:
    """What this process has had read from disk."""
    return int(Path("/proc/self/io").read_text().split("\nread_bytes: ")[1].split()[0])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("scratch", type=Path)
    arguments.add_argument("--words", type=int, nargs="+", default=[100_000, 300_000, 900_000])
    arguments.add_argument("--layers", type=int, default=13)
    arguments.add_argument("--width", type=int, default=768)
    arguments.add_argument("--labels", type=int, default=44)
    arguments.add_argument("--whole", type=int, default=100_000, help="train to the end on up to this many words")
    arguments.add_argument("--steps", type=int, default=256, help="steps of a pass that are timed beyond that")
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = arguments.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    widths = [given.width] * given.layers
    needed = max(given.words) * sum(widths) * 2
    if shutil.disk_usage(given.scratch).free < 1.2 * needed:
        raise SystemExit(f"{given.scratch}: {1.2 * needed / 1e9:.0f} GB are needed")
    with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
        written, (labels, planted) = seconds(lambda: write_store(Path(folder), max(given.words), widths, given.labels))
        print(f"store of {needed / 1e9:.1f} GB written: {written}", flush=True)
        stored = Representations.open(Path(folder))
        result: dict[str, Any] = {
            "data": "planted",
            "neurons": sum(widths),
            "labels": given.labels,
            "store_gb": needed / 1e9,
            "limit_gb": LIMIT_GB,
            "l1": L1,
            "l2": L2,
            "reading": reading(stored),
            "sizes": [],
        }
        given.out.mkdir(parents=True, exist_ok=True)
        for words in given.words:
            steps = None if words <= given.whole else given.steps
            result["sizes"].append(measure(stored, labels, planted, words, steps))
            print(result["sizes"][-1], flush=True)
            (given.out / "memory.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
