"""The converged linear probe: softmax regression solved to a certified optimum, its ridge chosen on dev.

The ridge is chosen by cross-entropy, between fixed bounds (vestige.probes.linear.ridge); of many rows, a part is enough
for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.linear.quasi_newton import Axes, principal_axes
from vestige.probes.linear.ridge import SLACK, Walk, walk
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, Fit, log_probabilities

STRENGTHS: Sequence[float] = (200.0, 60.0, 20.0, 6.0, 2.0)
"""Ridges that are tried on dev, times the number of training rows; what is chosen lies between the first and last."""
FIRST = 2
"""Number of the strength that is tried first."""
ENOUGH = 20_000
"""Rows, from everywhere, that the strength is chosen on."""


@dataclass(frozen=True)
class ConvergedProbe:
    """P probes of the same rows under one ridge."""

    fit: Fit
    ridge: float

    def log_probabilities(self, features: Features) -> Tensor:
        """(P, rows, classes)."""
        return log_probabilities(self.fit, features)


def converged_probe(
    train: Features,
    labels: Tensor,
    dev: Features,
    dev_labels: Tensor,
    classes: int,
    *,
    l1: float = 0.0,
    l2: float | None = None,
    tolerance: float = 1e-2,
    axes: Axes | None = None,
) -> ConvergedProbe:
    """Train on labels (rows,), or (P, rows) where `l2` is given; rows are best `standard` and `resident`.

    l2: None chooses it on dev, which else is not read. tolerance: largest certified distance from the optimum, in nats
    per row. axes: of `train` (`principal_axes`), where several probes share the rows.
    """
    labels = labels if labels.ndim == 2 else labels.unsqueeze(0)
    axes = principal_axes(train) if axes is None else axes
    start = None
    if l2 is None:
        found = _chosen(train, labels, (dev, dev_labels), classes, l1, tolerance, axes)
        l2 = (STRENGTHS[0] if found is None else found.strength) / len(train)
        start = found.start if found is not None and len(train) <= ENOUGH else None
    same = [l1] * len(labels), [l2] * len(labels)
    return ConvergedProbe(solve(train, labels, classes, *same, tolerance=tolerance, start=start, axes=axes), l2)


def _chosen(
    train: Features, labels: Tensor, dev: tuple[Features, Tensor], classes: int, l1: float, tolerance: float, axes: Axes
) -> Walk | None:
    """The strength with the least loss on dev; None where nothing can be learnt."""
    rows = train
    if len(train) > ENOUGH:
        which = np.linspace(0, len(train) - 1, ENOUGH).astype(np.int64)
        rows, labels = Features(train.rows(which).numpy()), labels[:, torch.from_numpy(which)].contiguous()

    def fit(strength: float, start: Tensor | None) -> Fit:
        ridge = [strength / len(rows)]
        return solve(rows, labels, classes, [l1], ridge, tolerance=SLACK * tolerance, start=start, axes=axes)

    return walk(fit, dev, STRENGTHS, FIRST) if bool((dev[1] >= 0).any()) else None
