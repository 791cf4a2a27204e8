"""The linear probe with the least cross-entropy on held-out words, for measures of information.

An information measure asks for the least cross-entropy that a family of probes reaches, not for the best accuracy: a
probe that is right but too sure of itself gives few bits. The ridge is therefore chosen on dev by cross-entropy, by
walking along `RIDGES` from the middle, to weaker and to stronger ones, as long as dev gains. A family that
information is measured with may always ignore its input (optional ignorance, Xu et al. 2020, definition 1): `least`
chooses between a probe and those that know less, again on dev.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.beside import Beside
from vestige.probes.linear.quasi_newton import principal_axes
from vestige.probes.linear.ridge import SLACK, Walk, gold_log_probabilities, walk
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, Fit

RIDGES = (20000.0, 6000.0, 2000.0, 600.0, 200.0, 60.0, 20.0, 6.0, 2.0, 0.6, 0.2)
"""Strengths that may be tried, divided by the number of training rows."""
FIRST = RIDGES.index(20.0)
"""Where the walk begins."""


@dataclass(frozen=True)
class Told:
    """What a probe says of the right labels."""

    dev: np.ndarray
    """(dev rows,): natural logarithm of the probability of each right label; of those rows whose label train has."""
    held: np.ndarray
    """The same of the scored rows."""
    ridge: float = float("inf")
    """Not divided by anything, as the solver takes it; infinite: the probe ignores its input."""
    gap: float = 0.0
    """Certified distance from the optimum on train, in nats a row."""
    accuracies: tuple[float, float] = (0.0, 0.0)
    """On train and dev."""

    @property
    def loss(self) -> float:
        """Cross-entropy on dev, in nats a row."""
        return float(-self.dev.mean())


def least(told: Sequence[Told]) -> Told:
    """The one that says most on dev; among equals the first, so give those that know less first."""
    return min(told, key=lambda one: one.loss)


def label_shares(labels: Tensor, classes: int, dev: Tensor, held: Tensor) -> Told:
    """The probe that is given nothing: every label has its share of train."""
    logs = (torch.bincount(labels, minlength=classes).double() / len(labels)).log()
    return Told(logs[dev[dev >= 0]].numpy(), logs[held[held >= 0]].numpy())


def least_loss_probe(
    train: Features | Beside,
    labels: Tensor,
    dev: tuple[Features | Beside, Tensor],
    held: tuple[Features | Beside, Tensor],
    classes: int,
    *,
    l2: float | None = None,
    tolerance: float = 2e-3,
) -> Told:
    """Train on labels (rows,) and read dev and the scored rows, each given with its labels (-1: not in train).

    l2: None chooses it on dev. tolerance: largest certified distance from the optimum, in nats per row.
    """
    axes = principal_axes(train)

    def fit(ridge: float, start: Tensor | None, slack: float = 1.0) -> Fit:
        return solve(train, labels[None], classes, [0.0], [ridge], tolerance=slack * tolerance, start=start, axes=axes)

    start = None
    if l2 is None:
        rows = len(train)

        def along(slack: float) -> Walk | None:
            return walk(lambda strength, start: fit(strength / rows, start, slack), dev, RIDGES, FIRST)

        found = along(SLACK) or along(1.0)
        l2, start = (RIDGES[0] / rows, None) if found is None else (found.strength / rows, found.start)
    best = fit(l2, start)
    accuracies = _accuracy(best, train, labels), _accuracy(best, *dev)
    return Told(
        gold_log_probabilities(best, *dev), gold_log_probabilities(best, *held), l2, float(best.gap[0]), accuracies
    )


def _accuracy(fit: Fit, rows: Features | Beside, labels: Tensor) -> float:
    right = sum(int((fit.logits(block)[0].argmax(-1) == labels[span]).sum()) for span, block in rows.blocks())
    return right / len(labels)
