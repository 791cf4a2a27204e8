"""How few neurons are enough? Probes trained from scratch on the best k neurons (durrani2020, section 4.2).

Neurons are added from the top of a ranking, a step at a time, and a probe is trained on just those
until its accuracy on dev is within delta of the probe that has all neurons. Several sizes are
trained together: they are nested, so one matrix of columns, with zeros where a size ends, does for
all of them. As the objective is convex, where a probe starts matters to the time alone, and larger
sets start from the solution of the smaller ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.probes.elastic_net.path import BATCH, steps_for
from vestige.probes.elastic_net.proximal import Form, Probes, train
from vestige.probes.problem import check_labels
from vestige.probes.visit import Frame, Visit, refuse_not_finite

PASSES = 6.0
"""See `vestige.probes.elastic_net.path.steps_for`."""
FEW = 800
"""Below so many columns a pass is cheap, and there are more of them in proportion, up to `MOST` times."""
MOST = 6
RATE, FASTEST, LAST = 0.25, 2.5e-2, 0.02
"""The rate over the square root of the columns, its most, and what part of it is left at the end. Few columns bear a
higher rate than many: on two data sets these came nearer to the optimum, at every width, than one rate for all."""
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

    def predict(self, neurons: Neurons) -> np.ndarray:
        """The class of every row."""
        columns = torch.from_numpy(neurons.columns(self.neurons))
        logits = torch.addmm(self.biases, columns, self.weights)
        if not bool(torch.isfinite(logits).all()):
            refuse_not_finite(columns, np.arange(len(columns)))
        return logits.argmax(1).numpy()

    def accuracy(self, neurons: Neurons, labels: np.ndarray) -> float:
        """Share of rows it gets right."""
        return float((self.predict(neurons) == labels).mean())


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
    start: Subset | None = None,
    seed: int = 0,
) -> list[Subset]:
    """Probes on the first k neurons of `order`, for every k of `sizes`; labels (probes or 1, rows) or (rows,).

    With several rows of labels, as many as sizes, each size has labels of its own. `start` is a
    probe on the first neurons of the same order.
    """
    gold = labels if labels.ndim == 2 else labels.unsqueeze(0)
    check_labels(gold, classes, len(source))
    wrong = [size for size in sizes if not 1 <= size <= len(order)]
    if wrong or not sizes:
        raise AnalysisError(
            f"sets of {wrong[0] if wrong else 'no'} neurons out of {len(order)}", fix=f"ask for 1 to {len(order)}"
        )
    widest = max(sizes)
    columns = Neurons((source.columns(order[:widest]),))
    frame = Frame.of(columns)
    probes = Probes.at_zero(gold, widest, classes, [l1] * len(sizes), [l2] * len(sizes), form, frame)
    if len(set(sizes)) > 1:
        probes.widths = torch.tensor(sizes)
    if start is not None:
        grown = torch.nn.functional.pad(start.weights, (0, 0, 0, widest - len(start.weights)))
        for index in range(len(sizes)):
            probes.start_from(index, grown, start.biases)
    steps = round(steps_for(passes, len(source)) * min(MOST, max(1.0, FEW / widest)))
    rate = min(FASTEST, RATE / widest**0.5)
    train(probes, Visit(columns, BATCH, seed, centre=frame.centre).batches(), gold, steps, rate, last=LAST)
    solved = [probes.solution(index) for index in range(len(sizes))]
    return [Subset(order[:k], weights[:k], biases) for k, (weights, biases) in zip(sizes, solved, strict=True)]


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
    step = max(1, round(0.01 * source.width)) if step is None else step
    if step < 1 or not np.isfinite(oracle):
        raise AnalysisError(
            f"minimal sets in steps of {step} neurons, for an accuracy of {oracle}",
            fix="grow by at least one neuron, towards the accuracy of the probe that has all",
        )
    reached: dict[float, Step] = {}
    tried: list[Step] = []
    for sizes in _groups(len(order), step):
        start = tried[-1].probe if tried else None
        probes = train_subsets(source, labels, classes, order, sizes, l1=l1, l2=l2, form=form, start=start, seed=seed)
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
