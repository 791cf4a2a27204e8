"""The ridge of a linear probe, chosen on dev by cross-entropy, without jumps.

A choice among fixed strengths jumps where two of them are nearly as good: two copies of one model are then read under
other ridges, and differ in all that depends on it (the accuracy of a control task by points). So strengths are tried
one after the other, from the middle, to weaker and to stronger ones, as long as dev gains, and a parabola through the
best and its neighbours (over the logarithm of the strength) says where the least loss lies. Cross-entropy is smooth;
accuracy on a few hundred words of dev is not.

A ridge is a prior of fixed strength, so it is divided by the number of training rows. For the same reason its strength
can be chosen on a part of many rows.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vestige.probes.problem import Fit
from vestige.probes.visit import Rows

SLACK = 5.0
"""How much coarser than the final fit the fits of the walk are solved."""
FLAT = 1e-6
"""Nats a row: fits whose losses on dev differ by less are equal."""


class Walk(NamedTuple):
    """Where a walk over the strengths ended."""

    strength: float
    start: Tensor
    """Weights of the next stronger one that was tried; not of the best, as a fit that ends within its tolerance
    remembers from where it came."""


def walk(fit: Callable[[float, Tensor | None], Fit], dev: tuple[Rows, Tensor], strengths: Sequence[float],
         first: int) -> Walk | None:  # fmt: skip
    """Over `strengths` from strong to weak, beginning with the one numbered `first`; `fit` takes a strength.

    None where all that were tried are equal: there is so little to be learnt that fits end where they start.
    """
    losses: dict[int, float] = {}
    weights: dict[int, Tensor] = {}

    def tried(place: int, start: Tensor | None) -> float:
        found = fit(strengths[place], start)
        weights[place], losses[place] = found.weights, -float(gold_log_probabilities(found, *dev).mean())
        return losses[place]

    best = first
    tried(best, None)
    for step in (1, -1):
        while 0 <= (place := best + step) < len(strengths) and place not in losses:
            if tried(place, weights[best]) >= losses[best]:
                break
            best = place
    if max(losses.values()) <= losses[best] + FLAT:
        return None
    at = _least(np.log(strengths), losses, best)
    stronger = [place for place in losses if np.log(strengths[place]) >= at - 1e-9]
    return Walk(float(np.exp(at)), weights[max(stronger, default=min(losses))])


def _least(places: np.ndarray, losses: dict[int, float], best: int) -> float:
    """Where the parabola through the best and its neighbours, or at an end the nearest three, is least."""
    low = min(max(best - 1, min(losses)), max(losses) - 2)
    three = [place for place in range(low, low + 3) if place in losses]
    if len(three) < 3:
        return float(places[best])
    x = places[three]
    curve = np.polyfit(x - places[best], [losses[place] for place in three], 2)
    if curve[0] <= 0:
        return float(places[best])
    return float(np.clip(places[best] - curve[1] / (2 * curve[0]), x.min(), x.max()))


def gold_log_probabilities(fit: Fit, rows: Rows, labels: Tensor) -> np.ndarray:
    """Log-probability of the right label of every row that has one (not -1), in float64."""
    found = [
        fit.logits(block)[0].double().log_softmax(-1).gather(-1, labels[span, None].clamp(min=0)).squeeze(-1)
        for span, block in rows.blocks()
    ]
    return torch.cat(found)[labels >= 0].numpy()
