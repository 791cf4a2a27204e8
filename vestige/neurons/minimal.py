"""How few neurons are enough? Probes trained from scratch on the best k neurons (durrani2020, section 4.2).

Neurons are added from the top of a ranking, a step at a time, and a probe is trained on just those
until its accuracy on dev is within delta of the probe that has all neurons. Several sizes are
trained together: they are nested, so one matrix of columns, with zeros where a size ends, does for
all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.neurons.matrix import Neurons
from vestige.solvers.path import BATCH, steps_for
from vestige.solvers.proximal import Form, Probes, train
from vestige.solvers.visit import Visit, sample_rows, typical_size

PASSES = 3.0
"""See `vestige.solvers.path.steps_for`."""
RATE = 5.6e-3
TOGETHER = 5
"""Sizes that are trained in one matrix."""


@dataclass(frozen=True)
class Subset:
    """A probe trained on some neurons alone."""

    neurons: np.ndarray
    """Ids, in the order of the probe's rows."""
    weights: Tensor
    """(len(neurons), classes)."""
    biases: Tensor

    def predict(self, held: Neurons) -> np.ndarray:
        """The class of every row."""
        columns = torch.from_numpy(held.columns(self.neurons))
        return torch.addmm(self.biases, columns, self.weights).argmax(1).numpy()

    def accuracy(self, held: Neurons, labels: np.ndarray) -> float:
        """Share of rows it gets right."""
        return float((self.predict(held) == labels).mean())


def train_subsets(
    source: Neurons,
    labels: Tensor,
    classes: int,
    order: np.ndarray,
    sizes: Sequence[int],
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    form: Form = "squared",
    passes: float = PASSES,
    seed: int = 0,
) -> list[Subset]:
    """Probes on the first k neurons of `order`, for every k of `sizes`; labels (probes or 1, rows) or (rows,).

    With several rows of labels, as many as sizes, each size has labels of its own.
    """
    gold = labels if labels.ndim == 2 else labels.unsqueeze(0)
    widest = max(sizes)
    columns = Neurons((source.columns(order[:widest]),))
    size = typical_size(columns.rows(sample_rows(len(columns))))
    probes = Probes.at_zero(gold, widest, classes, [l1] * len(sizes), [l2] * len(sizes), form, size)
    if len(set(sizes)) > 1:
        inside = torch.arange(widest).unsqueeze(1) < torch.tensor(sizes)
        probes.mask = inside.repeat_interleave(classes, dim=1).float()
    train(probes, iter(Visit(columns, BATCH, seed)), gold, steps_for(passes, len(source)), RATE)
    return [
        Subset(order[:count], probes.solution(index)[0][:count], probes.biases.view(-1, classes)[index].clone())
        for index, count in enumerate(sizes)
    ]


@dataclass(frozen=True)
class Step:
    """One size on the way to the minimal set."""

    size: int
    accuracy: float
    probe: Subset


def minimal_sets(
    source: Neurons,
    labels: Tensor,
    dev: Neurons,
    dev_labels: np.ndarray,
    classes: int,
    order: np.ndarray,
    oracle: float,
    deltas: Sequence[float],
    *,
    step: int | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
    form: Form = "squared",
    seed: int = 0,
) -> tuple[dict[float, Step], list[Step]]:
    """Per delta the smallest set whose dev accuracy is at least oracle - delta, and every size tried.

    `oracle` is the dev accuracy of the probe on all neurons; `step` is 1 % of them unless given.
    All neurons of `order` are the last size tried, so that the loop ends.
    """
    step = step or max(1, round(0.01 * source.width))
    reached: dict[float, Step] = {}
    tried: list[Step] = []
    for sizes in _groups(len(order), step):
        probes = train_subsets(source, labels, classes, order, sizes, l1=l1, l2=l2, form=form, seed=seed)
        for size, probe in zip(sizes, probes, strict=True):
            now = Step(size, probe.accuracy(dev, dev_labels), probe)
            tried.append(now)
            for delta in deltas:
                if delta not in reached and (now.accuracy >= oracle - delta or size == len(order)):
                    reached[delta] = now
        if len(reached) == len(set(deltas)):
            break
    return reached, tried


def _groups(most: int, step: int) -> Iterator[list[int]]:
    sizes = [*range(step, most, step), most]
    for start in range(0, len(sizes), TOGETHER):
        yield sizes[start : start + TOGETHER]
