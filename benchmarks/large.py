"""Layer probes, a neuron ranking and RSA on hidden states that do not fit into memory: what they take, how time grows.

    python benchmarks/large.py SCRATCH [--words 100000 300000 900000] [--jobs 2] [--out benchmarks/results]

For every size a store is made up under SCRATCH (13 x 768 neurons, float16: 18 GB for 900,000 words) and removed in the
end; what is kept already is not measured again. 44 labels, each planted in five neurons of its own; all neurons share a
low-rank stream that knows nothing of them.
The analyses are those of the package, each on all words, in a process of its own with one thread: `layer_probe`
(converged, its ridge chosen on dev), `neurons` (one pair of penalties: the probe, its re-fit, the ranking and ablation)
and `similarity` (RSA of every layer with the next one). Memory is the most anonymous resident memory seen (mapped pages
of the store are the system's to take back), sampled twenty times a second; what the corpus takes is in it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import torch

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.layer_probe import LayerProbe
from vestige.analyses.neurons import NeuronAnalysis
from vestige.analyses.similarity import SimilarityAnalysis
from vestige.cache import writing
from vestige.corpus.types import Corpus, Sentence, Task
from vestige.representations.store import Representations, create_layers, write_manifest

STREAM, BLOCK, PER_LABEL, SENTENCE = 64, 10_000, 5, 20
HELD = 20_000
"""Words of dev and of test."""
LIMIT_GB = 6.0
ANALYSES: dict[str, Analysis] = {
    "layer_probe": LayerProbe(control=False, seeds=1),
    "neurons": NeuronAnalysis(l1=1e-4, l2=1e-4, retrained=(), deltas=(), control=False, explored=0),
    "similarity": SimilarityAnalysis(n=None, measures=("rsa",), split="train"),
}


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


class Planted:
    """Where the labels are, and what all neurons share: the same for every split and size."""

    def __init__(self, layers: int, width: int, classes: int) -> None:
        self.layers, self.width, self.classes = layers, width, classes
        rng = np.random.default_rng(0)
        self.neurons = rng.choice(layers * width, (classes, PER_LABEL), replace=False)
        generator = torch.Generator().manual_seed(0)
        self.mixes = [torch.randn(STREAM, width, generator=generator) * STREAM**-0.5 for _ in range(layers)]
        self.noise = torch.randn(2 * BLOCK, width, generator=generator)

    def labels(self, split: str, words: int) -> np.ndarray:
        shares = 1 / np.arange(1, self.classes + 1)
        seed = ("train", "dev", "test").index(split)
        return np.random.default_rng([1, seed]).choice(self.classes, words, p=shares / shares.sum())

    def write(self, folder: Path, split: str, words: int) -> None:
        """A store of these words, block by block."""
        labels, rng = self.labels(split, words), np.random.default_rng([2, ("train", "dev", "test").index(split)])
        with writing(folder) as place:
            layers = create_layers(place, words, (self.width,) * self.layers, "float16")
            for start in range(0, words, BLOCK):
                gold = labels[start : start + BLOCK]
                stream = torch.from_numpy(rng.standard_normal((len(gold), STREAM), dtype=np.float32))
                for layer in range(self.layers):
                    shift = int(rng.integers(BLOCK))
                    values = stream @ self.mixes[layer] + self.noise[shift : shift + len(gold)]
                    for label, at in zip(*np.nonzero(self.neurons // self.width == layer), strict=True):
                        unit = self.neurons[label, at] % self.width
                        values[:, unit] += torch.from_numpy(2.0 * (gold == label)).float()
                    layers[layer][start : start + len(gold)] = values.half().numpy()
            index = np.stack(np.divmod(np.arange(words), SENTENCE), axis=1).astype(np.int32)
            counts = dict.fromkeys(("truncated_words", "vanished_words", "sink_words", "unknown_tokens"), 0)
            about = {
                "widths": [self.width] * self.layers,
                "rows": words,
                "words": words,
                "word_tokens": words,
                **counts,
            }
            write_manifest(place, index, about)

    def task(self, sizes: dict[str, int]) -> Task:
        names = [f"L{number:02d}" for number in range(self.classes)]
        splits = {}
        for split, words in sizes.items():
            labels = [names[label] for label in self.labels(split, words)]
            splits[split] = tuple(
                Sentence(f"{split}{start}", tuple(f"w{at % 5000}" for at in range(start, stop)),
                         annotations={"planted": tuple(labels[start:stop])})
                for start in range(0, words, SENTENCE)
                for stop in [min(start + SENTENCE, words)]
            )  # fmt: skip
        return Corpus("made up", splits, {"planted": "token"}).task("planted")


def measure(folder: Path, name: str, planted: Planted, sizes: dict[str, int]) -> dict[str, Any]:
    """One analysis, whole: seconds, memory, and what it found."""
    torch.set_num_threads(1)
    with anonymous_memory() as peak:
        task = planted.task(sizes)
        stores = {split: Representations.open(folder / split) for split in sizes}
        pooling = ANALYSES[name].poolings[0]
        reference = None
        if ANALYSES[name].models == 2:
            reference = Inputs(task, {pooling: {"train": Representations.open(folder / "next")}}, "next layer")
        inputs = Inputs(task, {pooling: stores}, "made up", reference=reference)
        before, cpu, wall = peak[0], time.process_time(), time.perf_counter()
        outcome = ANALYSES[name].run(inputs)
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return {"analysis": name, "words": sizes["train"], **spent, "anonymous_gb": peak[0], "corpus_gb": before,
            **found(outcome, planted)}  # fmt: skip


def found(outcome: Outcome, planted: Planted) -> dict[str, Any]:
    """What shows that the work was done: accuracies, gaps, planted neurons among the top, similarities."""
    kept: dict[str, Any] = {}
    for metric in ("accuracy", "optimality_gap", "passes", "rsa"):
        values = [
            row["value"] for row in outcome.rows if row["metric"] == metric and row.get("subset") in (None, "all")
        ]
        kept |= {metric: values} if values else {}
    if "neurons" in outcome.tables:
        top = outcome.tables["neurons"]["neuron"][: planted.neurons.size]  # in the order of the ranking
        kept["planted_found"] = len(np.intersect1d(top, planted.neurons)) / planted.neurons.size
    return kept


def exponents(rows: list[dict[str, Any]]) -> dict[str, float]:
    """By analysis, how CPU seconds grow with words: the slope of their logarithms."""
    slopes = {}
    for name in dict.fromkeys(row["analysis"] for row in rows):
        mine = [row for row in rows if row["analysis"] == name]
        if len(mine) > 1:
            words, spent = (np.log([row[key] for row in mine]) for key in ("words", "cpu"))
            slopes[name] = float(np.polyfit(words, spent, 1)[0])
    return slopes


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("scratch", type=Path)
    arguments.add_argument("--words", type=int, nargs="+", default=[100_000, 300_000, 900_000])
    arguments.add_argument("--layers", type=int, default=13)
    arguments.add_argument("--width", type=int, default=768)
    arguments.add_argument("--labels", type=int, default=44)
    arguments.add_argument("--held", type=int, default=HELD, help="words of dev and of test")
    arguments.add_argument("--only", choices=ANALYSES, nargs="+", default=list(ANALYSES))
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments.add_argument("--jobs", type=int, default=1, help="analyses at a time, each with one thread")
    arguments.add_argument("--measure", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    planted = Planted(given.layers, given.width, given.labels)
    if given.measure:
        sizes = {"train": given.words[0], "dev": given.held, "test": given.held}
        print(json.dumps(measure(given.scratch, given.measure, planted, sizes)))
        return
    needed = max(given.words) * given.layers * given.width * 2
    if shutil.disk_usage(given.scratch).free < 1.2 * needed:
        raise SystemExit(f"{given.scratch}: {1.2 * needed / 1e9:.0f} GB are needed")
    kept = given.out / "large.json"
    shape = {"neurons": given.layers * given.width, "labels": given.labels, "held": given.held}
    result: dict[str, Any] = {**shape, "limit_gb": LIMIT_GB, "rows": []}
    if kept.exists():
        old = json.loads(kept.read_text())
        result["rows"] = old["rows"] if shape == {key: old[key] for key in shape} else []
    known = {(row["analysis"], row["words"]) for row in result["rows"]}
    for words in given.words:
        asked = [name for name in given.only if (name, words) not in known]
        if not asked:
            continue
        with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
            folder = Path(scratch)
            for split, size in (("train", words), ("dev", given.held), ("test", given.held)):
                planted.write(folder / split, split, size)
            next_layers(folder)
            same = ["--layers", given.layers, "--width", given.width, "--labels", given.labels, "--held", given.held]
            command = [sys.executable, __file__, folder, "--words", words, *same, "--measure"]
            with ThreadPoolExecutor(given.jobs) as pool:
                for done in as_completed([pool.submit(_measured, [*map(str, command), name]) for name in asked]):
                    result["rows"].append(row := done.result())
                    result["rows"].sort(key=lambda row: (row["words"], [*ANALYSES].index(row["analysis"])))
                    result["exponents"] = exponents(result["rows"])
                    print({key: value for key, value in row.items() if key != "accuracy"}, flush=True)
                    given.out.mkdir(parents=True, exist_ok=True)
                    kept.write_text(json.dumps(result, indent=1))


def _measured(command: list[str]) -> dict[str, Any]:
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(said.stdout.splitlines()[-1])


def next_layers(folder: Path) -> None:
    """Beside the training part the same words, every layer in the place of the one before: a model without disk."""
    layers = json.loads((folder / "train" / "manifest.json").read_text())["widths"]
    with writing(folder / "next") as place:
        for layer in range(len(layers)):
            os.link(folder / "train" / f"layer{(layer + 1) % len(layers):02d}.npy", place / f"layer{layer:02d}.npy")
        for name in ("index.npy", "manifest.json"):
            shutil.copy(folder / "train" / name, place / name)


if __name__ == "__main__":
    main()
