"""The converged linear probe: softmax regression solved to a certified optimum, its ridge chosen on dev.

The ridge is a prior of fixed strength, so it is divided by the number of training rows. Strong ridges are tried
first, each starting from the weights of the one before, and a weaker one is taken only while accuracy on dev gains.
"""

from dataclasses import dataclass

from torch import Tensor

from vestige.probes.linear.quasi_newton import Axes, principal_axes
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, Fit, log_probabilities

L2_PATH = (200.0, 20.0, 2.0)
"""Ridge strengths tried on dev, times the number of training rows, from strong to weak."""

PATH_GAIN = 0.001
"""A weaker ridge must gain this much accuracy on dev to be preferred (a tenth of a point)."""

PATH_SLACK = 5.0
"""How much coarser than the final fit the path's fit of the strongest ridge is solved.

Those of weaker ones are coarser by the root of the ratio: the same error of the weights costs the certificate the more
the weaker the ridge is, while predictions on dev hardly change."""


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
    slack: float = PATH_SLACK,
    axes: Axes | None = None,
) -> ConvergedProbe:
    """Train on labels (rows,), or (P, rows) where `l2` is given; rows are best `standard` and `resident`.

    l2: None chooses it from `L2_PATH` on dev, which else is not read. tolerance: largest certified distance from the
    optimum, in nats per row; slack: how much coarser the fits on the path are. axes: of `train`
    (`principal_axes`), where several probes share the rows.
    """
    labels = labels if labels.ndim == 2 else labels.unsqueeze(0)
    axes = principal_axes(train) if axes is None else axes

    def fit(ridge: float, start: Tensor | None, slack: float = 1.0) -> Fit:
        same = [l1] * len(labels), [ridge] * len(labels)
        return solve(train, labels, classes, *same, tolerance=slack * tolerance, start=start, axes=axes)

    if l2 is not None:
        return ConvergedProbe(fit(l2, None), l2)
    best, ridge, start = -1.0, 0.0, None
    for strength in L2_PATH:
        tried = strength / len(train)
        found = fit(tried, start, slack * (L2_PATH[0] / strength) ** 0.5)
        accuracy = float((log_probabilities(found, dev)[0].argmax(-1) == dev_labels).float().mean())
        if accuracy < best + PATH_GAIN:
            break
        best, ridge, start = accuracy, tried, found.weights
    return ConvergedProbe(fit(ridge, start), ridge)
