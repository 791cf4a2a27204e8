"""The linear probe with the least cross-entropy on held-out words, for measures of information.

An information measure asks for the least cross-entropy that a family of probes reaches, not for the best accuracy: a
probe that is right but too sure of itself gives few bits. The ridge is therefore chosen on dev by cross-entropy, by
walking along `RIDGES` from the middle, to weaker and to stronger ones, as long as dev gains. A family that
information is measured with may always ignore its input (optional ignorance, Xu et al. 2020, definition 1): `least`
chooses between a probe and those that know less, again on dev.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.beside import Beside
from vestige.probes.linear.quasi_newton import principal_axes
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, Fit

RIDGES = (20000.0, 6000.0, 2000.0, 600.0, 200.0, 60.0, 20.0, 6.0, 2.0, 0.6, 0.2)
"""Strengths that may be tried, divided by the number of training rows."""
FIRST = RIDGES.index(20.0)
"""Where the walk begins."""
SLACK = 5.0
"""How much coarser than the final fit the fits of the walk are solved."""
FLAT = 1e-6
"""Nats a row: fits whose losses on dev differ by less are equal."""


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
        l2, start = _walk(fit, dev, rows, SLACK) or _walk(fit, dev, rows, 1.0) or (RIDGES[0] / rows, None)
    best = fit(l2, start)
    accuracies = _accuracy(best, train, labels), _accuracy(best, *dev)
    return Told(_gold(best, *dev), _gold(best, *held), l2, float(best.gap[0]), accuracies)


def _walk(
    fit: Callable[..., Fit], dev: tuple[Features | Beside, Tensor], rows: int, slack: float
) -> tuple[float, Tensor] | None:
    """The ridge of least cross-entropy on dev, and weights to start from: those of the next stronger one.

    None where all that were tried are equal: there is so little to be learnt that fits end where they start.

    The walk ends with a strength between two that are worse. A parabola through the three (over the logarithm of the
    strength) says where between them the least lies: a choice among fixed strengths would jump where two are nearly as
    good, and copies of one model would be read under other ridges. For the same reason the last fit does not start from
    the best: a fit that ends within the tolerance remembers from where it came.
    """
    losses: dict[int, float] = {}
    weights: dict[int, Tensor] = {}

    def tried(place: int, start: Tensor | None) -> float:
        found = fit(RIDGES[place] / rows, start, slack)
        weights[place], losses[place] = found.weights, -float(_gold(found, *dev).mean())
        return losses[place]

    best = FIRST
    tried(best, None)
    for step in (1, -1):
        while 0 <= (place := best + step) < len(RIDGES) and place not in losses:
            if tried(place, weights[best]) >= losses[best]:
                break
            best = place
    at, around = np.log(RIDGES[best]), [place for place in (best - 1, best + 1) if place in losses]
    if max(losses.values()) <= losses[best] + FLAT:
        return None
    if len(around) == 2 and max(losses[place] for place in around) > losses[best] + FLAT:
        x = np.log([RIDGES[place] for place in (*around, best)])
        curve = np.polyfit(x - at, [losses[place] for place in (*around, best)], 2)
        at = float(np.clip(at - curve[1] / (2 * curve[0]), x.min(), x.max()))
    stronger = [place for place in losses if np.log(RIDGES[place]) >= at - 1e-9]
    return float(np.exp(at)) / rows, weights[max(stronger)]


def _gold(fit: Fit, rows: Features | Beside, labels: Tensor) -> np.ndarray:
    """Log-probability of the right label of every row that has one, in float64."""
    known = labels >= 0
    found = [
        fit.logits(block)[0].double().log_softmax(-1).gather(-1, labels[span, None].clamp(min=0)).squeeze(-1)
        for span, block in rows.blocks()
    ]
    return torch.cat(found)[known].numpy()


def _accuracy(fit: Fit, rows: Features | Beside, labels: Tensor) -> float:
    right = sum(int((fit.logits(block)[0].argmax(-1) == labels[span]).sum()) for span, block in rows.blocks())
    return right / len(labels)
