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
from vestige.probes.linear.ridge import SLACK, walk
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
        l2, start = chosen_ridge(train, labels, dev, dev_labels, classes, l1=l1, tolerance=tolerance, axes=axes)
    same = [l1] * len(labels), [l2] * len(labels)
    return ConvergedProbe(solve(train, labels, classes, *same, tolerance=tolerance, start=start, axes=axes), l2)


def chosen_ridge(
    train: Features,
    labels: Tensor,
    dev: Features,
    dev_labels: Tensor,
    classes: int,
    *,
    l1: float = 0.0,
    tolerance: float = 1e-2,
    axes: Axes | None = None,
) -> tuple[float, Tensor | None]:
    """The ridge with the least loss on dev, as `converged_probe` takes it, and weights to start from if there are any.

    The strongest where nothing can be learnt, or no word of dev has a label that train has.
    """
    rows, labels, few = train, labels.view(1, -1), len(train) <= ENOUGH
    axes = principal_axes(train) if axes is None else axes
    if not few:
        which = np.linspace(0, len(train) - 1, ENOUGH).astype(np.int64)
        rows, labels = Features(train.rows(which).numpy()), labels[:, torch.from_numpy(which)].contiguous()

    def fit(strength: float, start: Tensor | None) -> Fit:
        ridge = [strength / len(rows)]
        return solve(rows, labels, classes, [l1], ridge, tolerance=SLACK * tolerance, start=start, axes=axes)

    found = walk(fit, (dev, dev_labels), STRENGTHS, FIRST) if bool((dev_labels >= 0).any()) else None
    if found is None:
        return STRENGTHS[0] / len(train), None
    return found.strength / len(train), found.start if few else None
