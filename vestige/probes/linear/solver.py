"""Softmax regression with an elastic-net penalty, trained until a certificate says it is done.

The objective and the certificate are those of vestige.probes.linear.softmax. Many rows are first read by samples
(vestige.probes.linear.sampled); the end is L-BFGS on all of them (vestige.probes.linear.quasi_newton).
"""

import torch
from torch import Tensor

from vestige.probes.linear.quasi_newton import Axes, Search, principal_axes
from vestige.probes.linear.sampled import DRAWN, LARGEST, approach
from vestige.probes.linear.softmax import Evaluation, Penalty, Truth, duality_gap
from vestige.probes.problem import Fit, log_shares
from vestige.probes.visit import Rows

MANY = int(DRAWN / LARGEST)
"""Rows from which on samples are drawn."""


def solve(
    features: Rows,
    labels: Tensor,
    classes: int,
    l1: list[float],
    l2: list[float],
    *,
    tolerance: float = 1e-4,
    max_passes: int = 500,
    start: Tensor | None = None,
    axes: Axes | None = None,
) -> Fit:
    """Train P probes; labels (P, rows). Stops when every gap is at most `tolerance` nats."""
    penalty = Penalty(torch.tensor(l1).view(-1, 1, 1), torch.tensor(l2).view(-1, 1, 1))
    truth = Truth.of(features, labels, classes)
    weights = log_frequencies(labels, features.width, classes) if start is None else start.clone()
    search = Search(features, labels, penalty, principal_axes(features) if axes is None else axes)

    def gap(at: Evaluation, now: Tensor) -> Tensor:
        return duality_gap(at, now, penalty, truth)

    def done(at: Evaluation, now: Tensor) -> Tensor:
        found = gap(at, now)
        return torch.where(torch.isfinite(found), found, search.slope(at, now).abs().amax((1, 2))) <= tolerance

    at = None
    if len(features) > MANY and not penalty.l1.any() and bool((penalty.l2 > 0).all()):
        weights, at = approach(search, truth, weights, tolerance)
    weights, at = search.run(weights, done, max_passes, at)
    return Fit(weights, search.objective(at, weights).float(), gap(at, weights).float(), search.passes)


def log_frequencies(labels: Tensor, width: int, classes: int) -> Tensor:
    """Where to start: no weights, and biases that predict every label's share."""
    start = torch.zeros(len(labels), width + 1, classes)
    start[:, -1] = log_shares(labels, classes)
    return start
