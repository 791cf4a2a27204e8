"""One elastic-net probe trained further, and how far from the optimum of its objective it may still be."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.elastic_net.blocks import Blocks, can_finish
from vestige.probes.elastic_net.path import BATCH, steps_for
from vestige.probes.elastic_net.proximal import Form, Probes, train
from vestige.probes.linear.softmax import Penalty, Truth, duality_gap, evaluate
from vestige.probes.problem import check_labels
from vestige.probes.visit import Frame, Rows, Visit, refuse_not_finite

RATE = 1.7e-3
"""On rows of unit size; halved every round."""
CYCLES = 60
"""At most so many over the classes."""
WITHIN = 0.95
"""Of the tolerance: what cycles aim at, as the gap around the centre is not to the bit that of the rows as they are."""


@dataclass(frozen=True)
class Polished:
    """A probe with its objective over all training rows."""

    weights: Tensor
    """(width, classes)."""
    biases: Tensor
    objective: float
    gap: float
    """An upper bound on how far the objective is above its minimum (`duality_gap`); NaN for the form of NeuroX."""
    passes: float

    @property
    def zeros(self) -> float:
        """Share of weights that are exactly zero."""
        return float((self.weights == 0).double().mean())


def polish(
    source: Rows,
    labels: Tensor,
    classes: int,
    l1: float,
    l2: float,
    *,
    start: tuple[Tensor, Tensor] | None = None,
    form: Form = "squared",
    tolerance: float = 1e-2,
    rounds: int = 6,
    passes: float = 2.0,
    seed: int = 0,
) -> Polished:
    """Rounds, each at half the rate of the last, then cycles of `Blocks`, until the gap is within `tolerance`.

    A round has `passes` passes (see `steps_for`). Rounds also end when one gains less than a tenth of the tolerance.
    Rows that do not fit into memory, and the form "norm", whose gap is not known, have rounds alone. `start` holds
    weights and biases, for example of a path.
    """
    check_labels(labels, classes, len(source))
    gold = labels.unsqueeze(0)
    frame = Frame.of(source)
    probes = Probes.at_zero(gold, source.width, classes, [l1], [l2], form, frame)
    if start is not None:
        _check_start(start, probes)
        probes.start_from(0, *start)
    batches = iter(Visit(source, BATCH, seed, centre=frame.centre))
    steps = steps_for(passes, len(source))
    truth = Truth.of(source, gold, classes)
    best = _measured(source, gold, probes, truth, 0.0)
    if not np.isfinite(best.objective):
        for span, rows in source.blocks():
            refuse_not_finite(rows, np.arange(span.start, span.stop))
    rate = RATE if start is not None else 4 * RATE
    for round_ in range(rounds):
        train(probes, batches, gold, steps, rate / 2**round_, last=0.5)
        now = _measured(source, gold, probes, truth, best.passes + steps * BATCH / len(source))
        gained = best.objective - now.objective
        best = now if gained >= 0 else Polished(best.weights, best.biases, best.objective, best.gap, now.passes)
        if best.gap <= tolerance or (round_ > 1 and 0 <= gained < tolerance / 10):
            break
    if np.isfinite(best.gap) and best.gap > tolerance and labels.device.type == "cpu" and can_finish(source):
        return _finish(source, gold, probes, truth, best, tolerance)
    return best


def _finish(source: Rows, labels: Tensor, probes: Probes, truth: Truth, best: Polished, tolerance: float) -> Polished:
    """Cycles over the classes from the best point so far, and what they led to."""
    assert probes.frame is not None
    probes.start_from(0, best.weights, best.biases)
    weights = torch.cat([probes.weights, probes.biases.unsqueeze(1)], dim=1)
    blocks = Blocks.of(source, labels[0], probes.frame, weights, float(probes.l1), float(probes.l2))
    cycles = blocks.run(WITHIN * tolerance, CYCLES)
    found = torch.from_numpy(blocks.weights)
    probes.weights.copy_(found[:, :-1])
    probes.biases.copy_(found[:, -1])
    return _measured(source, labels, probes, truth, best.passes + 2 * cycles + 1)


def _check_start(start: tuple[Tensor, Tensor], probes: Probes) -> None:
    shape = probes.weights.T.shape
    if start[0].shape != shape or start[1].shape != probes.biases.shape:
        raise AnalysisError(
            f"a start of {tuple(start[0].shape)} weights and {tuple(start[1].shape)} biases for a probe of "
            f"{tuple(shape)} and {tuple(probes.biases.shape)}",
            fix="start from a probe of the same columns and classes",
        )


def _measured(source: Rows, labels: Tensor, probes: Probes, truth: Truth, passes: float) -> Polished:
    """Objective and gap over all rows.

    The biases are scaled first so that labels are predicted about as often as they occur: a step of iterative scaling,
    which lowers the loss and wins back what the certificate pays for biases that are off.
    """
    weights, biases = probes.solution(0)
    drift = evaluate(source, labels, _extended(weights, biases)).gradient[0, -1].double()
    share = truth.shares[0]
    ratio = torch.where(share > 0, share / (share + drift).clamp(min=1e-12), 1.0)
    biases = biases + ratio.log().float()
    extended = _extended(weights, biases)
    at = evaluate(source, labels, extended)
    penalty = Penalty(probes.l1.view(-1, 1, 1), probes.l2.view(-1, 1, 1))
    if probes.form == "squared":
        objective, gap = at.loss + penalty.value(weights.unsqueeze(0)), duality_gap(at, extended, penalty, truth)
        return Polished(weights, biases, float(objective), float(gap), passes)
    norms = float(probes.l1) * float(weights.abs().sum()) + float(probes.l2) * float(weights.norm())
    return Polished(weights, biases, float(at.loss) + norms, float("nan"), passes)


def _extended(weights: Tensor, biases: Tensor) -> Tensor:
    """(1, width + 1, classes)."""
    return torch.cat([weights, biases.unsqueeze(0)]).unsqueeze(0)
