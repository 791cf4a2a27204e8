"""Structural distance probes: all layers in one pass, beside one layer at a time on differences written out.

    python benchmarks/structural.py [--sentences 300] [--epochs 1] [--ranks 0 64] [--out benchmarks/results]

MiniLM on the dev sentences of UD English EWT (VESTIGE_DATA must hold ud_ewt), mean of sub-words. The other
side is Hewitt & Manning's arithmetic, written here: a padded batch is mapped, expanded to words x words x rank
differences, squared and summed, with gradients by autograd, a layer after the other. Both start from the same
maps, see the same batches of 20 and use torch's fused Adam. Times are CPU seconds of this process, one thread,
the least of the repeats. Losses of the same maps are compared (`loss_distance`), and so are the dev losses
at the end of training (`trained_distance`), where rounding has flipped a sign of the L1 loss here and there.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
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
from vestige.corpus.types import Sentence
from vestige.measures.trees import tree_distances
from vestige.models.files.load import load_model
from vestige.probes.problem import Features
from vestige.probes.structural import Sentences, StructuralRecipe, initial_maps, mean_loss, train_structural
from vestige.representations.extract import represent

TOLERANCE = 1e-5
"""Of the loss, between the two ways to compute it from the same maps."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def prepare(encoder: Any, sentences: list[Sentence], cache: Path) -> Sentences:
    stored = represent(encoder, sentences, ("mean",), cache=cache)["mean"]
    lengths = np.array([len(sentence.words) for sentence in sentences])
    assert len(stored) == lengths.sum()
    gold = [tree_distances(np.array(s.annotations["head"])).astype(np.float32) for s in sentences]
    layers = [Features(stored.layer(layer)).resident() for layer in range(stored.layers)]
    return Sentences(layers, np.cumsum(lengths) - lengths, lengths, gold)


class Differences:
    """The original's arithmetic for one layer."""

    def __init__(self, data: Sentences, layer: int) -> None:
        self.data = data
        self.rows = data.layers[layer].rows(slice(None))

    def padded(self, which: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        lengths = torch.from_numpy(self.data.lengths[which])
        longest = int(lengths.max())
        rows = torch.zeros(len(which), longest, self.rows.shape[1])
        gold = torch.full((len(which), longest, longest), -1.0)
        for place, at in enumerate(which.tolist()):
            start, length = int(self.data.starts[at]), int(self.data.lengths[at])
            rows[place, :length] = self.rows[start : start + length]
            gold[place, :length, :length] = torch.from_numpy(self.data.gold[at])
        return rows, gold, lengths

    def loss(self, weights: Tensor, which: np.ndarray) -> Tensor:
        rows, gold, lengths = self.padded(which)
        mapped = rows @ weights
        sentences, longest, _ = mapped.shape
        one = mapped.unsqueeze(2).expand(-1, -1, longest, -1)
        distances = (one - one.transpose(1, 2)).pow(2).sum(-1)
        known = (gold != -1).float()
        per_sentence = (distances * known - gold * known).abs().sum((1, 2)) / lengths.float().pow(2)
        return per_sentence.sum() / sentences

    def mean(self, weights: Tensor, batch: int) -> float:
        total = 0.0
        for start in range(0, len(self.data), batch):
            which = np.arange(start, min(start + batch, len(self.data)))
            total += float(self.loss(weights, which)) * len(which)
        return total / len(self.data)


def one_at_a_time(train: Sentences, dev: Sentences, recipe: StructuralRecipe) -> np.ndarray:
    """(layers,): dev losses after training; every layer with the batches of `train_structural`."""
    width = train.layers[0].width
    maps = initial_maps(len(train.layers), width, recipe.rank or width, [0])[:, 0]
    found = []
    for layer, drawn in enumerate(maps):
        weights = drawn.clone().requires_grad_()
        adam = torch.optim.Adam([weights], lr=recipe.rate, fused=True)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=recipe.decay, patience=0)
        mine, held = Differences(train, layer), Differences(dev, layer)
        order = np.random.default_rng([0, len(train)])
        best = np.inf
        for _ in range(recipe.max_epochs):
            shuffled = order.permutation(len(train))
            for start in range(0, len(train), recipe.batch):
                adam.zero_grad()
                mine.loss(weights, shuffled[start : start + recipe.batch]).backward()
                adam.step()
            with torch.no_grad():
                loss = held.mean(weights, recipe.batch)
            schedule.step(loss)
            best = min(best, loss)
        found.append(best)
    return np.array(found)


def measure(train: Sentences, dev: Sentences, rank: int | None, epochs: int, repeats: int) -> dict[str, Any]:
    recipe = StructuralRecipe(rank=rank, max_epochs=epochs, patience=epochs + 1)
    times: dict[str, list[float]] = {"vestige": [], "differences": []}
    for _ in range(repeats):
        spent, fit = seconds(lambda: train_structural("distance", train, dev, recipe, [0]))
        times["vestige"].append(spent)
        spent, theirs = seconds(lambda: one_at_a_time(train, dev, recipe))
        times["differences"].append(spent)
        print({name: round(spent[-1], 2) for name, spent in times.items()}, flush=True)
    maps = list(fit.weights[:, 0])
    mine = mean_loss("distance", dev, maps, range(len(maps)))
    with torch.no_grad():
        same = np.array([Differences(dev, layer).mean(m, recipe.batch) for layer, m in enumerate(maps)])
    least = {name: min(spent) for name, spent in times.items()}
    return {
        "what": f"distance probes of {len(maps)} layers, rank {rank or train.layers[0].width}, {epochs} epochs",
        "vestige_seconds": least["vestige"],
        "differences_seconds": least["differences"],
        "ratio": least["differences"] / least["vestige"],
        "loss_distance": float(np.abs(mine / same - 1).max()),
        "trained_distance": float(np.abs(fit.dev_loss[:, 0] / theirs - 1).max()),
        "repeats": times,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sentences", type=int, default=300)
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument("--ranks", type=int, nargs="*", default=[0, 64], help="0: the width of the layer")
    arguments.add_argument("--repeats", type=int, default=2)
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    given = [s for s in load_corpus("ud_ewt")["dev"] if len(s.words) <= 100][: asked.sentences + asked.sentences // 4]
    with tempfile.TemporaryDirectory() as folder:
        encoder = load_model("minilm")
        train = prepare(encoder, given[: asked.sentences], Path(folder))
        dev = prepare(encoder, given[asked.sentences :], Path(folder))
    rows = [measure(train, dev, rank or None, asked.epochs, asked.repeats) for rank in asked.ranks]
    for row in rows:
        print(row)
        assert row["loss_distance"] < TOLERANCE, row
    result = {
        "data": "MiniLM on EWT dev, mean of sub-words",
        "sentences": len(train),
        "words": int(train.lengths.sum()),
        "dev_sentences": len(dev),
        "tolerance": TOLERANCE,
        "rows": rows,
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "structural.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
