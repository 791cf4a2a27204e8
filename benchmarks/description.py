"""Online description length of all layers: vestige beside one torch probe per block and layer.

    python benchmarks/description.py [--sentences 3000] [--out benchmarks/results]

MiniLM on UD English EWT, XPOS, last sub-word (VESTIGE_DATA must hold ud_ewt). Both sides send the same labels in
the same order and blocks, with linear probes on the same centred and scaled rows, and stop by the same dev
sentences. The other side is Voita & Titov's recipe, written here: Adam 1e-3, batches of 20 sentences, at most
40 epochs, the rate halved when dev loss does not fall, an end after 4 evaluations without a gain of 0.001, best
weights kept. Times are CPU seconds of this process, one thread, one run. Lengths are in bits; those of vestige
are also given without the uniform guess that it mixes in (`unmixed_bits`).
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from math import log2
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from torch import Tensor

from vestige.corpus.load import load_corpus
from vestige.models.files.load import load_model
from vestige.probes.codes.coders import Labelled, LinearCoder
from vestige.probes.codes.online import Blocks, cut_blocks, online_code
from vestige.probes.problem import standard
from vestige.representations.extract import represent

BATCH, RATE, EPOCHS, GAIN, PATIENCE = 20, 1e-3, 40, 1e-3, 4


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def torch_probe(train: Labelled, bounds: np.ndarray, dev: Labelled, classes: int, seed: int) -> torch.nn.Linear:
    """A fresh linear probe by the authors' recipe; `bounds` are the sentences' ends."""
    torch.manual_seed(seed)
    rows, labels = train.features.rows(slice(None)), train.labels[0]
    held, gold = dev.features.rows(slice(None)), dev.labels[0]
    probe = torch.nn.Linear(rows.shape[1], classes)
    adam = torch.optim.Adam(probe.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=0.5, patience=0)
    best, since = np.inf, 0
    kept = {name: value.clone() for name, value in probe.state_dict().items()}
    for _ in range(EPOCHS):
        for first in range(0, len(bounds) - 1, BATCH):
            last = min(first + BATCH, len(bounds) - 1)
            span = slice(int(bounds[first]), int(bounds[last]))
            loss = torch.nn.functional.cross_entropy(probe(rows[span]), labels[span], reduction="sum") / (last - first)
            adam.zero_grad()
            loss.backward()
            adam.step()
        with torch.no_grad():
            dev_loss = float(torch.nn.functional.cross_entropy(probe(held), gold))
        schedule.step(dev_loss)
        if dev_loss < best - GAIN:
            best, since = dev_loss, 0
            kept = {name: value.clone() for name, value in probe.state_dict().items()}
        else:
            since += 1
            if since >= PATIENCE:
                break
    probe.load_state_dict(kept)
    return probe


def by_torch(train: Labelled, sizes: np.ndarray, dev: Labelled, blocks: Blocks, classes: int) -> dict[str, Any]:
    bounds = np.concatenate([[0], np.cumsum(sizes)])

    def fit(known: int) -> torch.nn.Linear:
        return torch_probe(train.first(known), bounds[bounds <= known], dev, classes, seed=0)

    def fit_and_nll(known: int, end: int) -> np.ndarray:
        probe, coded = fit(known), train.part(known, end)
        with torch.no_grad():
            logits = probe(coded.features.rows(slice(None)))
            return torch.nn.functional.cross_entropy(logits, coded.labels[0], reduction="none").numpy()[None]

    code = online_code(fit_and_nll, blocks, log2(classes))
    probe = fit(blocks.ends[-1])
    with torch.no_grad():
        right = probe(dev.features.rows(slice(None))).argmax(-1) == dev.labels[0]
    return {
        "bits": float(code.bits()[0]),
        "blocks": code.block_bits()[0].tolist(),
        "accuracy": float(right.float().mean()),
    }


def by_vestige(train: Labelled, dev: Labelled, blocks: Blocks, classes: int, mix: bool = True) -> dict[str, Any]:
    coder = LinearCoder(train, dev, classes, mix=mix)
    code = online_code(coder, blocks, log2(classes))
    fit = coder.trained(blocks.ends[-1])
    right = fit.logits(dev.features.rows(slice(None)))[0].argmax(-1) == dev.labels[0]
    return {
        "bits": float(code.bits()[0]),
        "blocks": code.block_bits()[0].tolist(),
        "accuracy": float(right.float().mean()),
    }


def prepare(sentences: int, folder: Path) -> tuple[list[tuple[Labelled, Labelled]], np.ndarray, int]:
    corpus, encoder = load_corpus("ud_ewt"), load_model("minilm")
    given = {"train": list(corpus["train"][:sentences]), "dev": list(corpus["dev"][: sentences // 5])}
    order = np.random.default_rng([0, sentences]).permutation(sentences)
    given["train"] = [given["train"][at] for at in order]
    classes = sorted({tag for s in given["train"] for tag in s.annotations["xpos"]})
    number = {tag: at for at, tag in enumerate(classes)}
    given["dev"] = [s for s in given["dev"] if set(s.annotations["xpos"]) <= set(classes)]
    found = {split: represent(encoder, mine, cache=folder)["last"] for split, mine in given.items()}
    sizes = np.bincount(found["train"].index[:, 0])
    labels: dict[str, Tensor] = {
        split: torch.tensor([[number[mine[s].annotations["xpos"][w]] for s, w in found[split].index]])
        for split, mine in given.items()
    }
    layers = []
    for layer in range(found["train"].layers):
        features = standard(found["train"].layer(layer), f"layer {layer}")
        pair = [Labelled(features.like(found[s].layer(layer)).resident(), labels[s]) for s in ("train", "dev")]
        layers.append((pair[0], pair[1]))
    return layers, sizes, len(classes)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sentences", type=int, default=3000)
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        layers, sizes, classes = prepare(asked.sentences, Path(folder))
    blocks = cut_blocks(sizes, classes)
    rows = []
    for layer, (train, dev) in enumerate(layers):
        mine_seconds, mine = seconds(lambda t=train, d=dev: by_vestige(t, d, blocks, classes))
        their_seconds, theirs = seconds(lambda t=train, d=dev: by_torch(t, sizes, d, blocks, classes))
        rows.append({"layer": layer, "vestige_seconds": mine_seconds, "torch_seconds": their_seconds,
                     "vestige": mine, "torch": theirs,
                     "unmixed_bits": by_vestige(train, dev, blocks, classes, mix=False)["bits"]})  # fmt: skip
        print(layer, round(mine_seconds, 2), round(their_seconds, 2), mine["bits"], theirs["bits"], flush=True)
    spent = [sum(row[name] for row in rows) for name in ("vestige_seconds", "torch_seconds")]
    result = {
        "data": "MiniLM on EWT, XPOS, last sub-word",
        "sentences": asked.sentences,
        "labels": int(sizes.sum()),
        "classes": classes,
        "ends": blocks.ends,
        "dropped_fractions": blocks.dropped,
        "uniform_bits": float(sizes.sum()) * log2(classes),
        "vestige_seconds": spent[0],
        "torch_seconds": spent[1],
        "ratio": spent[1] / spent[0],
        "longer": sum(row["vestige"]["bits"] > row["torch"]["bits"] for row in rows),
        "rows": rows,
    }
    print({name: value for name, value in result.items() if name != "rows"})
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "description.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
