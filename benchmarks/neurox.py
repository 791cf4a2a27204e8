"""vestige beside NeuroX 1.0.9, one process, one thread, the same activations.

    python benchmarks/neurox.py [--data real|semtags|chunks|synthetic] [--words 20000] [--pairs 8] [--repeats 3]
                                [--only ranking ...]

`real` is MiniLM on UD English EWT with its XPOS tags (7 x 384 neurons), on which the schedule of the grid was chosen;
`semtags` is PMB 4, `chunks` CoNLL-2000 (all three from VESTIGE_DATA); `synthetic` has the size of a base model (13 x
768 neurons, 44 labels). Times are CPU seconds of this process. NeuroX is
given the papers' settings: ten epochs, batches of 512. Of the grid it trains `--pairs` evenly spread
pairs and is charged their mean for all 64; vestige trains the whole grid. `overlap` asks why the two rank
different neurons; `polish` trains probes until their distance from the optimum is certified. Rows named by `--only`
replace those of an earlier run. With `--repeats` the median run is kept, with the least and the largest ratio. Two
rates of float32 products are measured beside every row: torch's own, by which the bound is reckoned, and that of the
library vestige multiplies with. Loops are compiled before the clock starts. Needs the extra `bench` and `pip install
--no-deps neurox==1.0.9`; installs nothing.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

np.int = int  # NeuroX 1.0.9 uses the name that numpy dropped
sys.path = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]  # not this file

from neurox.interpretation import ablation, linear_probe

from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import PASSES, train_subsets
from vestige.neurons.ranking import bottom, rank, top
from vestige.neurons.search import GRID, search_penalties
from vestige.probes.elastic_net.path import solve_path, steps_for
from vestige.probes.elastic_net.polish import polish
from vestige.probes.elastic_net.proximal import Probes, train
from vestige.probes.visit import Frame, Visit
from vestige.products import times_transposed

LAYER_PASSES, SUBSET_PASSES = 2.0, 1.2
"""Passes over the rows, where ten of NeuroX's reach no better objective (it is printed beside the ratio)."""
PAIRS = [(l1, l2) for l1 in GRID for l2 in GRID]
CHUNK = 16
"""Probes of one matrix where all 64 pairs are trained for as long as NeuroX trains them."""
OVERLAP_PAIRS = ((1e-3, 1e-4), (1e-5, 1e-4))
POLISH_ROUNDS = 6
POLISHED, GAP = ((1e-3, 1e-4), (1e-4, 1e-4), (1e-5, 1e-5)), 1e-2
"""Penalties, and the certified gap that is asked for."""
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
LONG = 60.0
"""Passes after which the objective of a subset's probe is taken for its optimum."""


@dataclass(frozen=True, eq=False)
class Data:
    """Training and dev rows of all neurons, and their labels."""

    name: str
    train: np.ndarray
    labels: np.ndarray
    dev: np.ndarray
    dev_labels: np.ndarray
    widths: tuple[int, ...]

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def neurons(self, which: np.ndarray) -> Neurons:
        """The same rows with an array per layer, as vestige stores them; NeuroX has them side by side."""
        cuts = np.cumsum((0, *self.widths))
        return Neurons(tuple(np.ascontiguousarray(which[:, a:b]) for a, b in pairwise(cuts)))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """NeuroX prints and draws bars; neither is timed against it fairly on a terminal."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, and what the work returned."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


@contextlib.contextmanager
def counting() -> Iterator[list[float]]:
    """Floating-point operations in the two products of every training step of vestige's, as the list's one number."""
    total, step = [0.0], Probes.step

    def counted(probes: Probes, rows: torch.Tensor, labels: torch.Tensor, rate: float) -> None:
        total[0] += 4.0 * len(rows) * probes.weights.numel()
        step(probes, rows, labels, rate)

    Probes.step = counted
    try:
        yield total
    finally:
        Probes.step = step


CORPORA = {
    "real": ("MiniLM on EWT, XPOS", "ud_ewt", "xpos", "dev"),
    "semtags": ("MiniLM on PMB 4, semantic tags", "pmb4_en_gold", "semtag", "dev"),
    "chunks": ("MiniLM on CoNLL-2000, chunks", "conll2000", "chunk", "test"),
}
"""Titles, corpora, tasks, and the splits that stand for dev."""


def real(which: str, words: int) -> Data:
    """MiniLM on the first sentences of a corpus."""
    from vestige.corpus.load import load_corpus
    from vestige.models.files.load import load_model
    from vestige.representations.extract import represent

    title, name, task, held = CORPORA[which]
    corpus, model = load_corpus(name), load_model("minilm")
    found = {}
    for split, count in (("train", words), (held, words // 4)):
        sentences, total = [], 0
        for sentence in corpus[split]:
            sentences.append(sentence)
            total += len(sentence.words)
            if total >= count:
                break
        made = represent(model, sentences)["last"]
        labels = [sentences[s].annotations[task][w] for s, w in made.index]
        found[split] = Neurons.of(made).rows(slice(0, len(made))).numpy()[:count], labels[:count]
    number = {label: index for index, label in enumerate(sorted(set(found["train"][1])))}
    train, dev = (np.array([number.get(label, -1) for label in found[split][1]]) for split in ("train", held))
    return Data(title, found["train"][0], train, found[held][0], dev, model.widths)


def synthetic(words: int, layers: int = 13, width: int = 768, classes: int = 44, seed: int = 0) -> Data:
    """Layers that share a low-rank stream; labels overlap, so that no probe gets all of them right."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, classes + 1)
    total = words + words // 4
    labels = rng.choice(classes, total, p=shares / shares.sum())
    stream = rng.standard_normal((total, 300), dtype=np.float32)
    stream += 0.5 * rng.standard_normal((classes, 300), dtype=np.float32)[labels]
    decay = (np.arange(1, 301) ** -0.4).astype(np.float32)[:, None]
    x = np.empty((total, layers * width), dtype=np.float32)
    for layer in range(layers):
        mix = rng.standard_normal((300, width), dtype=np.float32) / np.sqrt(300) * decay
        noise = rng.standard_normal((total, width), dtype=np.float32)
        x[:, layer * width : (layer + 1) * width] = stream @ mix + 0.3 * noise
    noisy = rng.random(total) < 0.03
    labels[noisy] = rng.choice(classes, int(noisy.sum()), p=shares / shares.sum())
    return Data("synthetic", x[:words], labels[:words], x[words:], labels[words:], (width,) * layers)


def neurox_probe(x: np.ndarray, y: np.ndarray, l1: float, l2: float, epochs: int = 10, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    with quiet():
        return linear_probe.train_logistic_regression_probe(
            x, y, lambda_l1=l1, lambda_l2=l2, num_epochs=epochs, batch_size=512, learning_rate=0.001
        )


def neurox_rank_and_silence(data: Data, probe: Any) -> tuple[np.ndarray, float, float]:
    names = {str(index): index for index in range(data.classes)}
    known = data.dev_labels >= 0
    with quiet():
        order, _ = linear_probe.get_neuron_ordering(probe, names)
        count = int(0.2 * data.train.shape[1])
        scores = []
        for keep in (order[:count], order[-count:]):
            zeroed = ablation.zero_out_activations_keep_neurons(data.dev[known], keep)
            found = linear_probe.evaluate_probe(
                probe, zeroed, data.dev_labels[known], idx_to_class={v: k for k, v in names.items()}
            )
            scores.append(found["__OVERALL__"])
    return np.array(order), *scores


def objective(
    x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor, l1: float, l2: float
) -> float:
    """NeuroX's own, over all training rows."""
    loss = torch.nn.functional.cross_entropy(x @ weights + bias, y)
    return float(loss) + l1 * float(weights.abs().sum()) + l2 * float(weights.norm())


def spread(pairs: int) -> list[tuple[float, float]]:
    """So many pairs from all over the grid."""
    return PAIRS if pairs >= len(PAIRS) else [PAIRS[(2 * i + 1) * len(PAIRS) // (2 * pairs)] for i in range(pairs)]


@cache
def neurox_grid(data: Data, pairs: int) -> tuple[float, float, dict[tuple[float, float], Any]]:
    """Seconds of training and of ranking and silencing, for all 64 pairs; the probes that were trained, with orders."""
    training, judging, probes = 0.0, 0.0, {}
    chosen = spread(pairs)
    for pair in chosen:
        spent, probe = seconds(lambda pair=pair: neurox_probe(data.train, data.labels, *pair))
        ranked, found = seconds(lambda probe=probe: neurox_rank_and_silence(data, probe))
        training, judging = training + spent, judging + ranked
        probes[pair] = probe, found
    scale = len(PAIRS) / len(chosen)
    return scale * training, scale * judging, probes


def grid(data: Data, pairs: int) -> dict[str, Any]:
    """Train, rank and silence at 64 pairs of penalties."""
    theirs, rank_seconds, probes = neurox_grid(data, pairs)
    labels = torch.from_numpy(data.labels)
    rows, dev = data.neurons(data.train), data.neurons(data.dev)
    with counting() as flops:
        ours, search = seconds(lambda: search_penalties(rows, labels, dev, data.dev_labels, data.classes, form="norm"))
    x = torch.from_numpy(data.train)
    worse, compared, overlaps = 0, [], []
    for pair, (probe, (order, *_)) in probes.items():
        mine = search.path.at(*pair)
        theirs_at = objective(x, labels, probe.linear.weight.data.T, probe.linear.bias.data, *pair)
        mine_at = objective(x, labels, mine.weights, mine.biases, *pair)
        compared.append({"pair": pair, "neurox": theirs_at, "vestige": mine_at})
        worse += mine_at > theirs_at
        scored = next(found for found in search.pairs if (found.l1, found.l2) == pair)
        if scored.ranking is not None:
            count = len(order) // 5
            overlaps.append(len(np.intersect1d(order[:count], scored.ranking.order[:count])) / max(1, count))
    known = data.dev_labels >= 0
    full = {
        str(p): float((probe(torch.from_numpy(data.dev[known])).argmax(1).numpy() == data.dev_labels[known]).mean())
        for p, (probe, _) in probes.items()
    }
    return {
        "what": "grid of 64 (l1, l2): train, rank, silence",
        "neurox_seconds": theirs + rank_seconds,
        "neurox_training_seconds": theirs,
        "pairs_measured": len(probes),
        "vestige_seconds": ours,
        "flops": flops[0],
        "objective_worse": f"{worse} of {len(probes)}",
        "objectives": compared,
        "rank_overlap": float(np.mean(overlaps)) if overlaps else None,
        "neurox_accuracy": max(full.values()),
        "vestige_accuracy": max(found.accuracy for found in search.pairs),
    }


def epochs(data: Data, pairs: int) -> dict[str, Any]:
    """All 64 pairs for the ten epochs that NeuroX runs, then ranked and silenced: no pair takes another's solution.

    Every epoch costs vestige the same, so one is timed and counted ten times.
    """
    neurox_training, neurox_judging, probes = neurox_grid(data, pairs)
    labels, rows, dev = torch.from_numpy(data.labels), data.neurons(data.train), data.neurons(data.dev)
    frame = Frame.of(rows)
    count = int(0.2 * rows.width)

    def train_once() -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = []
        for start in range(0, len(PAIRS), CHUNK):
            l1, l2 = zip(*PAIRS[start : start + CHUNK], strict=True)
            many = Probes.at_zero(labels[None], rows.width, data.classes, list(l1), list(l2), "norm", frame)
            train(many, iter(Visit(rows, 512, 0, 1 << 40, frame.centre)), labels[None], len(rows) // 512, 3e-3)
            found += [many.solution(index) for index in range(len(l1))]
        return found

    def rank_and_silence(found: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        for weights, biases in found:
            if bool(weights.any()):
                order = rank(weights)
                ablate(
                    dev, data.dev_labels, weights, biases, {"top": top(order, count), "bottom": bottom(order, count)}
                )

    with counting() as flops:
        training, found = seconds(train_once)
    judging, _ = seconds(lambda: rank_and_silence(found))
    ours = 10 * training + judging
    return {
        "what": "the same ten epochs at 64 pairs, end to end",
        "neurox_seconds": neurox_training + neurox_judging,
        "vestige_seconds": ours,
        "pairs_measured": len(probes),
        "epochs_measured": 1,
        "flops": 10 * flops[0],
    }


def top_share(first: np.ndarray, second: np.ndarray, count: int) -> float:
    """Which part of the first `count` of two orders is in both."""
    return len(np.intersect1d(first[:count], second[:count])) / count


def settled_probe(data: Data, l1: float, l2: float, epochs: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """NeuroX's objective by its own method, Adam on a subgradient, but shuffled and with a rate that falls to 0."""
    torch.manual_seed(0)
    x, y = torch.from_numpy(data.train), torch.from_numpy(data.labels)
    probe = torch.nn.Linear(x.shape[1], data.classes)
    optimizer = torch.optim.Adam(probe.parameters(), lr=3e-3)
    steps = epochs * (len(x) // 512)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(1e-4, 1 - step / steps))
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - 511, 512):
            which = order[start : start + 512]
            loss = torch.nn.functional.cross_entropy(probe(x[which]), y[which])
            loss = loss + l1 * linear_probe.l1_penalty(probe.weight) + l2 * linear_probe.l2_penalty(probe.weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            falling.step()
    return probe.weight.data.T.contiguous(), probe.bias.data


def overlap(data: Data) -> dict[str, Any]:
    """The top 20 % of neurons of probes that differ in one thing: seed, epochs, form of the L2 term, tool."""
    found = []
    for l1, l2 in OVERLAP_PAIRS:
        found.append(overlap_at(data, l1, l2))
        print(json.dumps(found[-1], indent=1), flush=True)
    return {"what": "why rankings differ", "words": len(data.train), "chance": 0.2, "pairs": found}


def overlap_at(data: Data, l1: float, l2: float) -> dict[str, Any]:
    """All are ranked by vestige, but for `ranker`: there NeuroX's own order of one probe is compared with it."""
    x, labels, rows = torch.from_numpy(data.train), torch.from_numpy(data.labels), data.neurons(data.train)
    count = rows.width // 5
    found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    own: list[int] = []
    for length, seed in ((10, 0), (40, 0), (100, 0), (10, 1), (100, 1)):
        probe = neurox_probe(data.train, data.labels, l1, l2, length, seed)
        found[f"neurox {length} seed {seed}"] = probe.linear.weight.data.T.contiguous(), probe.linear.bias.data
        if not own:
            with quiet():
                own, _ = linear_probe.get_neuron_ordering(probe, {str(i): i for i in range(data.classes)})
    found["settled"] = settled_probe(data, l1, l2)
    path = solve_path(rows, labels, data.classes, GRID, GRID, form="norm").at(l1, l2)
    found["path"] = path.weights, path.biases
    for name, form, seed in (("vestige seed 0", "norm", 0), ("vestige seed 1", "norm", 1), ("squared", "squared", 0)):
        made = polish(
            rows, labels, data.classes, l1, l2, form=form, tolerance=1e-4, rounds=POLISH_ROUNDS, passes=4.0, seed=seed
        )
        found[name] = made.weights, made.biases
    orders = {name: rank(weights).order for name, (weights, _) in found.items()}
    alive = int((found["vestige seed 0"][0] != 0).any(1).sum())

    def shared(first: str, second: str, size: int = count) -> float:
        return top_share(orders[first], orders[second], size)

    return {
        "l1": l1,
        "l2": l2,
        "objectives": {name: objective(x, labels, *probe, l1, l2) for name, probe in found.items()},
        "neurons_with_weight": alive / rows.width,
        "ranker": top_share(np.array(own), orders["neurox 10 seed 0"], count),
        "overlaps": {
            "NeuroX, 10 epochs: two seeds": shared("neurox 10 seed 0", "neurox 10 seed 1"),
            "NeuroX: 10 and 40 epochs": shared("neurox 10 seed 0", "neurox 40 seed 0"),
            "NeuroX: 10 and 100 epochs": shared("neurox 10 seed 0", "neurox 100 seed 0"),
            "NeuroX, 100 epochs: two seeds": shared("neurox 100 seed 0", "neurox 100 seed 1"),
            "vestige's path and NeuroX, 10 epochs": shared("path", "neurox 10 seed 0"),
            "vestige's path and NeuroX, 100 epochs": shared("path", "neurox 100 seed 0"),
            "vestige polished and NeuroX, 10 epochs": shared("vestige seed 0", "neurox 10 seed 0"),
            "vestige polished and NeuroX, 100 epochs": shared("vestige seed 0", "neurox 100 seed 0"),
            "vestige polished and a settled subgradient probe": shared("vestige seed 0", "settled"),
            "the same, only as many as have weight": shared("vestige seed 0", "settled", min(count, alive)),
            "NeuroX, 10 epochs, and a settled subgradient probe": shared("neurox 10 seed 0", "settled"),
            "vestige polished: two seeds": shared("vestige seed 0", "vestige seed 1"),
            "the same, only as many as have weight (two seeds)": shared(
                "vestige seed 0", "vestige seed 1", min(count, alive)
            ),
            "vestige polished: L2 norm and squared": shared("vestige seed 0", "squared"),
            "vestige's path and polished": shared("path", "vestige seed 0"),
        },
    }


def ranking(data: Data) -> dict[str, Any]:
    """Ranking and zero-out of one probe's top and bottom 20 %."""
    probe = neurox_probe(data.train, data.labels, 1e-5, 1e-5, epochs=1)
    theirs, (_, *expected) = seconds(lambda: neurox_rank_and_silence(data, probe))
    weights, bias = probe.linear.weight.data.T.contiguous(), probe.linear.bias.data
    count = int(0.2 * data.train.shape[1])
    known = data.dev_labels >= 0
    dev = data.neurons(data.dev[known])

    def work() -> dict[str, float]:
        found = rank(weights)
        keeps = {"top": top(found, count), "bottom": bottom(found, count)}
        return ablate(dev, data.dev_labels[known], weights, bias, keeps).accuracy

    work()
    ours, found = seconds(lambda: [work() for _ in range(5)][-1])
    return {
        "what": "ranking and zero-out of one probe",
        "neurox_seconds": theirs,
        "vestige_seconds": ours / 5,
        "flops": 2.0 * len(dev) * 2 * count * data.classes,
        "neurox_accuracy": expected,
        "vestige_accuracy": list(found.values()),
    }


def minimal(data: Data, sizes: int = 10) -> dict[str, Any]:
    """Ten probes trained from scratch on 1 % to 10 % of the neurons."""
    probe = neurox_probe(data.train, data.labels, 1e-5, 1e-5, epochs=2)
    order = rank(probe.linear.weight.data.T).order
    step = data.train.shape[1] // 100
    counts = [step * (i + 1) for i in range(sizes)]
    known = data.dev_labels >= 0
    dev = torch.from_numpy(data.dev[known])
    gold = data.dev_labels[known]

    def neurox() -> list[Any]:
        return [
            neurox_probe(ablation.filter_activations_keep_neurons(data.train, order[:k]), data.labels, 1e-5, 1e-5)
            for k in counts
        ]

    theirs, probes = seconds(neurox)
    rows, labels = data.neurons(data.train), torch.from_numpy(data.labels)

    def vestige() -> list[Any]:
        half = len(counts) // 2
        return [
            subset
            for group in (counts[:half], counts[half:])
            for subset in train_subsets(
                rows, labels, data.classes, order, group, l1=1e-5, l2=1e-5, form="norm", passes=SUBSET_PASSES
            )
        ]

    with counting() as flops:
        ours, subsets = seconds(vestige)
    right = [
        float((probe(dev[:, order[:k].copy()]).argmax(1).numpy() == gold).mean())
        for probe, k in zip(probes, counts, strict=True)
    ]
    held = data.neurons(data.dev[known])
    x = torch.from_numpy(data.train)
    worse = 0
    for probe, subset, k in zip(probes, subsets, counts, strict=True):
        columns = x[:, order[:k].copy()]
        theirs_at = objective(columns, labels, probe.linear.weight.data.T, probe.linear.bias.data, 1e-5, 1e-5)
        worse += objective(columns, labels, subset.weights, subset.biases, 1e-5, 1e-5) > theirs_at
    return {
        "what": "minimal set: ten retrainings, 1 % to 10 % of neurons",
        "neurox_seconds": theirs,
        "vestige_seconds": ours,
        "flops": flops[0],
        "objective_worse": f"{worse} of {len(counts)}",
        "neurox_accuracy": float(np.mean(right)),
        "vestige_accuracy": float(np.mean([subset.accuracy(held, gold) for subset in subsets])),
        **above_optimum(data, order, counts, subsets),
    }


def above_optimum(data: Data, order: np.ndarray, counts: list[int], found: list[Any]) -> dict[str, float]:
    """How far the objectives of subsets are above those of a training that is many times as long, in nats."""
    rows, labels = data.neurons(data.train), torch.from_numpy(data.labels)
    given: dict[str, Any] = {"l1": 1e-5, "l2": 1e-5, "form": "norm"}
    half = len(counts) // 2
    groups = counts[:half], counts[half:]

    def trained(passes: float) -> list[Any]:
        return [
            subset
            for group in groups
            for subset in train_subsets(rows, labels, data.classes, order, group, passes=passes, **given)
        ]

    def objectives(subsets: list[Any]) -> np.ndarray:
        columns = (torch.from_numpy(data.train[:, subset.neurons]) for subset in subsets)
        pairs = zip(columns, subsets, strict=True)
        return np.array([objective(x, labels, subset.weights, subset.biases, 1e-5, 1e-5) for x, subset in pairs])

    best = objectives(trained(LONG))
    return {
        "above_optimum": float((objectives(found) - best).max()),
        "default_above_optimum": float((objectives(trained(PASSES)) - best).max()),
    }


def polished(data: Data, pairs: int) -> dict[str, Any]:
    """Probes of a path, trained on until the gap is certified; `pairs` of them are enough for a short run."""
    rows, labels, found = data.neurons(data.train), torch.from_numpy(data.labels), []
    for l1, l2 in POLISHED[:pairs]:
        strengths = [*(value for value in STRENGTHS if value > l1), l1]
        path_seconds, path = seconds(
            lambda l1=l1, l2=l2, strengths=strengths: solve_path(rows, labels, data.classes, strengths, [l2]).at(l1, l2)
        )
        spent, made = seconds(
            lambda l1=l1, l2=l2, start=(path.weights, path.biases): polish(
                rows, labels, data.classes, l1, l2, start=start, tolerance=GAP
            )
        )
        found.append({"l1": l1, "l2": l2, "path_seconds": path_seconds, "seconds": spent, "gap": made.gap,
                      "objective": made.objective, "zeros": made.zeros})  # fmt: skip
        print(json.dumps(found[-1]), flush=True)
    return {"what": f"polish to a gap of {GAP:g}", "polished": found, "seconds": max(one["seconds"] for one in found)}


def layers(data: Data, seeds: int = 3) -> dict[str, Any]:
    """A probe per layer and seed."""
    cuts = np.cumsum((0, *data.widths))
    spans = list(pairwise(cuts))
    theirs, probes = seconds(
        lambda: [
            neurox_probe(np.ascontiguousarray(data.train[:, a:b]), data.labels, 0.0, 0.0)
            for a, b in spans
            for _ in range(seeds)
        ]
    )
    labels = torch.from_numpy(data.labels)

    def vestige() -> list[Any]:
        found = []
        for a, b in spans:
            rows = Neurons((data.train[:, a:b],))
            frame = Frame.of(rows)
            probes = Probes.at_zero(labels[None], b - a, data.classes, [0.0] * seeds, [0.0] * seeds, frame=frame)
            generator = torch.Generator().manual_seed(0)
            probes.weights.uniform_(-1, 1, generator=generator).mul_((b - a) ** -0.5 / 10)
            visit = Visit(rows, 256, 0, centre=frame.centre)
            train(probes, iter(visit), labels[None], steps_for(LAYER_PASSES, len(rows)), 1e-2)
            found += [probes.solution(seed) for seed in range(seeds)]
        return found

    with counting() as flops:
        ours, found = seconds(vestige)
    x = torch.from_numpy(data.train)
    worse = 0
    for index, (probe, mine) in enumerate(zip(probes, found, strict=True)):
        a, b = spans[index // seeds]
        theirs_at = objective(x[:, a:b], labels, probe.linear.weight.data.T, probe.linear.bias.data, 0.0, 0.0)
        worse += objective(x[:, a:b], labels, *mine, 0.0, 0.0) > theirs_at
    return {
        "what": f"{len(spans)} layer probes x {seeds} seeds",
        "neurox_seconds": theirs,
        "vestige_seconds": ours,
        "flops": flops[0],
        "objective_worse": f"{worse} of {len(found)}",
    }


def gemm_peak(product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch.matmul) -> float:
    """GFLOP/s of a float32 product of the benchmark's shape, torch's own unless another is given."""
    a, b = torch.randn(2048, 9984), torch.randn(9984, 704)
    product(a, b)
    spent, _ = seconds(lambda: [product(a, b) for _ in range(4)])
    return 4 * 2 * 2048 * 9984 * 704 / spent / 1e9


def product_peak() -> float:
    """GFLOP/s of the same product as vestige multiplies."""
    return gemm_peak(lambda a, b: times_transposed(a, b.T))


def warm_up() -> None:
    """Import numba, and compile what it has not compiled before."""
    x, labels = np.random.default_rng(0).standard_normal((256, 8)).astype(np.float32), torch.arange(256).remainder(3)
    made = polish(Neurons((x,)), labels, 3, 1e-3, 1e-3, rounds=1, tolerance=1e-9)
    ablate(Neurons((x,)), labels.numpy(), made.weights, made.biases, {"top": top(rank(made.weights), 2)})


def measured(work: Callable[[], dict[str, Any]], repeats: int) -> dict[str, Any]:
    """The run of the median ratio (or time), with the least and the largest of all runs."""
    rows = []
    for _ in range(repeats):
        neurox_grid.cache_clear()
        row = work()
        if "neurox_seconds" in row:
            row["ratio"] = row["neurox_seconds"] / row["vestige_seconds"]
        if "flops" in row:
            row["gemm_gflops"], row["product_gflops"] = gemm_peak(), product_peak()
            row["least_seconds"] = row["flops"] / row["gemm_gflops"] / 1e9
            row["bound"] = row["neurox_seconds"] / row["least_seconds"]
            row["share"] = row["ratio"] / row["bound"]
            row["product_share"] = row["share"] * row["gemm_gflops"] / row["product_gflops"]
        rows.append(row)
    by = next((name for name in ("ratio", "seconds") if name in rows[0]), None)
    if by is not None:
        rows.sort(key=lambda row: row[by])
    kept = rows[len(rows) // 2]
    names = [name for name in ("ratio", "share", "product_share", "seconds") if name in kept]
    spreads = {name: [min(row[name] for row in rows), max(row[name] for row in rows)] for name in names}
    return {**kept, "repeats": repeats, "spread": spreads} if names else kept


def step(data: Data) -> dict[str, Any]:
    """What a training step of one probe, and of eight, spends on its two products."""
    found = []
    rows, labels = torch.from_numpy(data.train[:256]), torch.from_numpy(data.labels[:256])[None]
    for count in (1, 8):
        probes = Probes.at_zero(labels, rows.shape[1], data.classes, [1e-4] * count, [1e-4] * count, "norm")
        residual = probes.residual(rows, labels)

        def products(probes: Probes = probes, residual: torch.Tensor = residual) -> None:
            times_transposed(probes.weights, rows)
            times_transposed(residual, rows.T)

        whole, part = (
            min(seconds(work)[0] for _ in range(15))
            for work in (lambda probes=probes: probes.step(rows, labels, 1e-4), products)
        )
        rate = 4.0 * probes.weights.numel() * len(rows) / part / 1e9
        found.append({"probes": count, "step_seconds": whole, "products_seconds": part, "products_gflops": rate})
    return {"what": "a step of training", "steps": found}


def int8_peak() -> tuple[float, float]:
    """GFLOP/s of float32 and GOP/s of int8 products of one shape."""
    a, b = torch.randn(512, 2048), torch.randn(2048, 512)
    c, d = (torch.randint(-128, 127, m.shape, dtype=torch.int8) for m in (a, b))
    operations = 2 * 512 * 2048 * 512 / 1e9
    rates = []
    for work in (lambda: a @ b, lambda: torch._int_mm(c, d)):
        work()
        rates.append(operations / min(seconds(work)[0] for _ in range(5)))
    return rates[0], rates[1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", choices=(*CORPORA, "synthetic"), default="real")
    arguments.add_argument("--words", type=int, default=20_000)
    arguments.add_argument("--pairs", type=int, default=8, help="pairs of the grid that NeuroX trains; 64 for all")
    arguments.add_argument("--repeats", type=int, default=1, help="runs of every row")
    arguments.add_argument("--polished", type=int, default=len(POLISHED), help="pairs of penalties that are polished")
    rows_of_all = ["step", "ranking", "minimal", "layers", "grid", "polish", "epochs"]
    arguments.add_argument("--only", nargs="*", default=rows_of_all, help="rows: these and overlap")
    arguments.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    given = arguments.parse_args()
    torch.set_num_threads(1)
    data = synthetic(given.words) if given.data == "synthetic" else real(given.data, given.words)
    path = given.out / f"neurox_{given.data}.json"
    before = json.loads(path.read_text()) if path.exists() else {"rows": []}
    float32, int8 = int8_peak()
    result: dict[str, Any] = {
        "data": data.name,
        "words": len(data.train),
        "neurons": data.train.shape[1],
        "labels": data.classes,
        "gemm_gflops": gemm_peak(),
        "product_gflops": product_peak(),
        "int8": {"float32_gflops": float32, "int8_gops": int8},
        "processor": platform.processor() or platform.machine(),
        "rows": [],
    }
    print(f"{data.name}: {len(data.train)} words x {data.train.shape[1]} neurons, {data.classes} labels; "
          f"float32 products at {result['gemm_gflops']:.0f} GFLOP/s; {result['int8']}")  # fmt: skip
    works: dict[str, Callable[[Data], dict[str, Any]]] = {
        "ranking": ranking,
        "minimal": minimal,
        "layers": layers,
        "grid": lambda d: grid(d, given.pairs),
        "epochs": lambda d: epochs(d, given.pairs),
        "overlap": overlap,
        "polish": lambda d: polished(d, given.polished),
        "step": step,
    }
    if given.only == ["overlap"] and before["rows"]:
        result = before
    rows = {row["what"]: row for row in before["rows"]}
    warm_up()
    for name in given.only:
        row = measured(lambda name=name: works[name](data), given.repeats)
        if "ratio" in row:
            seen = ("objective_worse", "above_optimum", "rank_overlap", "neurox_accuracy", "vestige_accuracy", "bound",
                    "share", "product_share", "spread")  # fmt: skip
            print(
                f"{row['what']}: NeuroX {row['neurox_seconds']:.2f} s, vestige {row['vestige_seconds']:.3f} s, "
                f"ratio {row['ratio']:.1f}; { ({key: row[key] for key in seen if key in row}) }",
                flush=True,
            )
        rows[row["what"]] = row
        given.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**result, "rows": list(rows.values())}, indent=1))


if __name__ == "__main__":
    main()
