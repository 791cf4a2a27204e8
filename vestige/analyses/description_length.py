"""Description length: how many bits do the labels cost someone who has a layer's vectors?

merchant2020 appendix B, after Voita & Titov 2020. Beside accuracy, the length of the code tells
how hard a probe must work: a layer from which few examples teach the property is cheap. Online
code by default; the variational code prices the probe itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.corpus.control import control_labels
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.progress import Bar, bar
from vestige.representations.pool import SENTENCE_POOLINGS, Pooling
from vestige.representations.store import Representations
from vestige.solvers.coders import Labelled, LinearCoder, MlpCoder
from vestige.solvers.description import FRACTIONS, Blocks, Compat, OnlineCode, Ordered, cut_blocks, online_code
from vestige.solvers.mlp import MlpRecipe
from vestige.solvers.problem import RESIDENT_BYTES, Features, log_probabilities, unit_scale
from vestige.solvers.variational import VariationalRecipe, train_variational


@dataclass(frozen=True)
class DescriptionLength(Analysis):
    """A code length per layer, of the task and of a control task."""

    name: ClassVar[str] = "description_length"
    title: ClassVar[str] = "Description length (MDL probe)"
    source: ClassVar[str] = "merchant2020, appendix B; Voita & Titov 2020"
    needs = frozenset({"hidden_states"})
    levels = ("token", "sentence", "sentence_pair")

    code: Literal["online", "variational"] = "online"
    probe: Literal["linear", "mlp"] = "linear"
    """Of the online code; the variational one has a hidden layer."""
    pooling: Pooling = "last"
    seeds: int = 1
    """Orders in which the labels are sent, each with a control task of its own."""
    control: bool = True
    """Send a control task too (word-level tasks)."""
    fractions: tuple[float, ...] = FRACTIONS
    """Ends of the blocks, as shares of the sentences."""
    inner_holdout: bool = False
    """Stop training by a tenth of what was sent, a strict code, not by the dev split as the authors do."""
    compat: Compat = "none"
    """`voita2020`: lengths as published, nats added to bits; predictions are not mixed with a uniform guess."""
    hidden: int = 64
    """Hidden units of the mlp and of the variational code."""
    epochs: int = 200
    """Epochs of the variational code."""
    split: str = "test"
    """The split on which the last probe, trained on all labels, is scored."""

    def run(self, inputs: Inputs) -> Outcome:
        if (inputs.task.level == "token") == (self.pooling in SENTENCE_POOLINGS):
            raise AnalysisError(
                f"pooling {self.pooling!r} does not fit task {inputs.task.name!r} at level {inputs.task.level}",
                fix=f"choose {'last or mean' if inputs.task.level == 'token' else 'cls or sentence_mean'}",
            )
        data = _Data.of(inputs, self.split)
        outcome = Outcome()
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", self.seeds * data.train.layers) as shown:
            for seed in range(self.seeds):
                sent = _Sent.of(data, seed, self.control and not inputs.baseline, inputs.task.level == "token")
                blocks = cut_blocks(sent.sizes, len(data.classes), self.fractions)
                if seed == 0:
                    labels = blocks.ends[-1]
                    outcome.add("uniform_codelength", labels * log2(len(data.classes)), n=labels)
                    if self.code == "online":
                        outcome.add("dropped_fractions", blocks.dropped, n=len(self.fractions))
                self._seed(_Report(outcome, self.compat, seed, data), data, sent, blocks, shown)
        return outcome

    def _seed(self, report: "_Report", data: "_Data", sent: "_Sent", blocks: Blocks, shown: Bar) -> None:
        for group in data.width_groups():
            if self.code == "variational":
                self._variational(report, data, sent, group)
            elif self.probe == "mlp":
                self._mlp(report, data, sent, blocks, group)
            else:
                for layer in group:
                    self._linear(report, data, sent, blocks, layer)
                    shown.advance()

    def _linear(self, report: "_Report", data: "_Data", sent: "_Sent", blocks: Blocks, layer: int) -> None:
        coder = LinearCoder(
            sent.labelled(data, layer, RESIDENT_BYTES),
            Labelled(data.features("dev", layer), sent.labels["dev"]),
            len(data.classes),
            self.inner_holdout,
            mix=self.compat == "none",
        )
        code = online_code(coder, blocks, log2(len(data.classes)), probes=len(sent.names))
        fit = coder.trained(blocks.ends[-1])
        predicted = log_probabilities(fit, data.features(self.split, layer)).argmax(-1)
        for at, name in enumerate(sent.names):
            report.online(name, layer, code, at)
            report.accuracy(name, layer, predicted[at], sent.labels[self.split][at])

    def _mlp(self, report: "_Report", data: "_Data", sent: "_Sent", blocks: Blocks, group: range) -> None:
        budget = RESIDENT_BYTES // len(group)
        coder = MlpCoder(
            [sent.labelled(data, layer, budget) for layer in group],
            [Labelled(data.features("dev", layer), sent.labels["dev"]) for layer in group],
            len(data.classes),
            MlpRecipe(hidden=self.hidden),
            self.inner_holdout,
            mix=self.compat == "none",
        )
        code = online_code(coder, blocks, log2(len(data.classes)), probes=len(group) * len(sent.names))
        coder.trained(blocks.ends[-1])
        predicted = coder.log_probabilities([data.features(self.split, layer) for layer in group]).argmax(-1)
        for place, layer in enumerate(group):
            for at, name in enumerate(sent.names):
                report.online(name, layer, code, place * len(sent.names) + at)
                report.accuracy(name, layer, predicted[place, at], sent.labels[self.split][at])

    def _variational(self, report: "_Report", data: "_Data", sent: "_Sent", group: range) -> None:
        recipe = VariationalRecipe(hidden=(self.hidden,), epochs=self.epochs)
        budget = RESIDENT_BYTES // len(group)
        layers = [sent.labelled(data, layer, budget).features for layer in group]
        held = [data.features(self.split, layer) for layer in group]
        for at, name in enumerate(sent.names):
            fit = train_variational(layers, sent.labels["train"][at], len(data.classes), recipe, report.seed)
            predicted = fit.log_probabilities(held).argmax(-1)
            for place, layer in enumerate(group):
                report.variational(
                    name, layer, float(fit.kl[place]), float(fit.data[place]), len(sent.labels["train"][at])
                )
                report.accuracy(name, layer, predicted[place], sent.labels[self.split][at])


@dataclass(frozen=True)
class _Data:
    """Rows and labels of every split."""

    representations: dict[str, Representations]
    sentences: dict[str, Sequence[Sentence]]
    labels: dict[str, np.ndarray]
    """(rows,) class numbers; -1 for labels that train lacks."""
    classes: list[str]
    scales: list[float]

    @classmethod
    def of(cls, inputs: Inputs, scored: str) -> "_Data":
        task = inputs.task
        found = {split: inputs.split(split) for split in dict.fromkeys(("train", "dev", scored))}
        names = {split: _names(task.labels(split), r.index) for split, r in found.items()}
        classes = sorted(set(names["train"]))
        if len(classes) < 2:
            raise AnalysisError(
                f"task {task.name!r} of corpus {task.corpus.name!r} has {len(classes)} label in train",
                fix="a code needs at least two labels: choose another task or more sentences",
            )
        number = {label: at for at, label in enumerate(classes)}
        labels = {split: np.array([number.get(x, -1) for x in row]) for split, row in names.items()}
        scales = [
            unit_scale(Features(found["train"].layer(at)), f"{inputs.model}, layer {at}")
            for at in range(found["train"].layers)
        ]
        return cls(found, {split: task.corpus[split] for split in found}, labels, classes, scales)

    @property
    def train(self) -> Representations:
        return self.representations["train"]

    def features(self, split: str, layer: int) -> Features:
        return Features(self.representations[split].layer(layer), self.scales[layer])

    def width_groups(self) -> list[range]:
        """Runs of neighbouring layers of equal width."""
        widths = self.train.widths
        cuts = [0, *(i for i in range(1, len(widths)) if widths[i] != widths[i - 1]), len(widths)]
        return [range(first, last) for first, last in pairwise(cuts)]


def _names(annotations: Sequence[Any], index: np.ndarray) -> list[str]:
    """The label of every row, of a word or (word number -1) of a sentence."""
    names = [annotations[s] if w < 0 else annotations[s][w] for s, w in index]
    if any(isinstance(name, float) for name in names):
        raise AnalysisError("labels are numbers on a scale", fix="a code length is of classes: choose such a task")
    return [str(name) for name in names]


@dataclass(frozen=True)
class _Sent:
    """Train rows in the order in which they are sent, and the labellings that are: the task, and its control."""

    order: np.ndarray
    sizes: np.ndarray
    """Labels of every sentence, in the order in which they are sent."""
    labels: dict[str, Tensor]
    """By split (labellings, rows); train's in the order in which they are sent."""
    names: tuple[str, ...]

    @classmethod
    def of(cls, data: _Data, seed: int, control: bool, words: bool) -> "_Sent":
        numbers = data.train.index[:, 0]
        sizes = np.bincount(numbers)
        shuffled = np.random.default_rng([seed, len(sizes)]).permutation(np.flatnonzero(sizes))
        starts = np.cumsum(sizes) - sizes
        order = np.concatenate([np.arange(starts[s], starts[s] + sizes[s]) for s in shuffled])
        labels = {split: [mine] for split, mine in data.labels.items()}
        names: tuple[str, ...] = ("",)
        if control and words:
            names = ("", "control_")
            for split, mine in _control(data, seed).items():
                labels[split].append(mine)
        stacked = {split: torch.from_numpy(np.stack(mine)) for split, mine in labels.items()}
        stacked["train"] = stacked["train"][:, torch.from_numpy(order)]
        return cls(order, sizes[shuffled], stacked, names)

    def labelled(self, data: _Data, layer: int, budget: int) -> Labelled:
        """Train rows of a layer, in memory if they fit the budget."""
        rows = cast(np.ndarray, Ordered(data.train.layer(layer), self.order))
        return Labelled(Features(rows, data.scales[layer]).resident(budget), self.labels["train"])


def _control(data: _Data, seed: int) -> dict[str, np.ndarray]:
    """A random class per word type, drawn from the task's own shares."""
    words = {
        split: [data.sentences[split][s].words[w] for s, w in r.index] for split, r in data.representations.items()
    }
    counts = np.bincount(data.labels["train"], minlength=len(data.classes))
    shares = dict(zip(data.classes, counts.tolist(), strict=True))
    drawn = control_labels(sorted({word for mine in words.values() for word in mine}), shares, seed)
    number = {label: at for at, label in enumerate(data.classes)}
    return {split: np.array([number[drawn[word]] for word in mine]) for split, mine in words.items()}


@dataclass(frozen=True)
class _Report:
    """Turns codes into rows; those of the control task are called control_..."""

    outcome: Outcome
    compat: Compat
    seed: int
    data: _Data

    def online(self, name: str, layer: int, code: OnlineCode, probe: int) -> None:
        bits = code.block_bits(self.compat)[probe]
        ends = code.blocks.ends
        self._length(name, layer, bits.sum(), code.uniform_bits, ends[-1])
        for end, size, mine in zip(ends, np.diff([0, *ends]).tolist(), bits, strict=True):
            where: dict[str, Any] = {"layer": layer, "probe_seed": self.seed, "axis": "labels sent", "x": end}
            self.outcome.add(f"{name}block_bits", mine, n=size, **where)
        if untrained := int(code.untrained[probe].sum()):
            self.outcome.add(f"{name}untrained_blocks", untrained, layer=layer, probe_seed=self.seed, n=len(ends))

    def variational(self, name: str, layer: int, kl: float, data: float, labels: int) -> None:
        """kl and data in nats."""
        factor = 1.0 if self.compat == "voita2020" else 1 / np.log(2)
        self._length(name, layer, (kl + data) * factor, labels * log2(len(self.data.classes)), labels)
        for metric, value in (("probe_bits", kl), ("data_bits", data)):
            self.outcome.add(f"{name}{metric}", value * factor, layer=layer, probe_seed=self.seed, n=labels)

    def _length(self, name: str, layer: int, bits: float, uniform: float, labels: int) -> None:
        where: dict[str, Any] = {"layer": layer, "probe_seed": self.seed, "n": labels}
        self.outcome.add(f"{name}codelength", bits, **where)
        self.outcome.add(f"{name}compression", uniform / bits, **where)
        self.outcome.add(f"{name}bits_per_label", bits / labels, **where)

    def accuracy(self, name: str, layer: int, predicted: Tensor, gold: Tensor) -> None:
        value = float((predicted == gold).double().mean())
        self.outcome.add(f"{name}accuracy", value, layer=layer, probe_seed=self.seed, n=len(gold))
