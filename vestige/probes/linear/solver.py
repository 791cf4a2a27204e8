"""Softmax regression with an elastic-net penalty, trained until a certificate says it is done.

The objective and the certificate are those of vestige.probes.linear.softmax, the method is L-BFGS
(vestige.probes.linear.quasi_newton). With many rows and a ridge alone, it starts from the probe of every fourth row,
which starts from that of every sixteenth, and so on as long as they are many. It is then preconditioned by how the loss
bends for each class (vestige.probes.linear.curvature), as those rows show it.
"""

import numpy as np
import torch
from torch import Tensor

from vestige.probes.linear.curvature import cost, curvature, fits
from vestige.probes.linear.quasi_newton import Axes, Search, principal_axes
from vestige.probes.linear.softmax import Evaluation, Penalty, Truth, duality_gap
from vestige.probes.problem import RESIDENT_BYTES, Features, Fit, log_shares
from vestige.probes.visit import Rows

MANY = 8192
"""Fewer rows are read as they are, all of them in every pass."""
DEAREST = 15.0
"""Passes over the rows that a preconditioner of theirs may cost; it saves about twice as many."""
FEWER = 4
"""So many times fewer rows give the start."""
MOST_SPARED = 131_072
"""But no more rows than these."""
COARSER = 5.0
"""How much coarser the probe of fewer rows is solved."""
FRESH = 25
"""Passes after which the preconditioner is made again."""


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
    penalty = Penalty(*(torch.tensor(strengths, device=labels.device).view(-1, 1, 1) for strengths in (l1, l2)))
    truth = Truth.of(features, labels, classes)
    search = Search(features, labels, penalty, principal_axes(features) if axes is None else axes)
    bending, spent = None, 0.0
    on_cpu = labels.device.type == "cpu"  # as the rows that a preconditioner is made of are drawn
    if on_cpu and not any(l1) and min(l2) > 0 and _worth_it(len(features), features.width, len(labels), classes):
        which = _every(features)
        bending = features.rows(which)
        if start is None:
            strength = [len(features) / len(which) * ridge for ridge in l2]
            mine = labels[:, torch.from_numpy(which)].contiguous()
            given = Features(bending.numpy()), mine, classes, l1, strength
            first = solve(*given, tolerance=COARSER * tolerance, max_passes=max_passes, axes=search.axes)
            start, spent = first.weights, first.passes * len(which) / len(features)
    weights = log_frequencies(labels, features.width, classes) if start is None else start.clone()

    def gap(at: Evaluation, now: Tensor) -> Tensor:
        return duality_gap(at, now, penalty, truth)

    def done(at: Evaluation, now: Tensor) -> Tensor:
        found = gap(at, now)
        return torch.where(torch.isfinite(found), found, search.slope(at, now).abs().amax((1, 2))) <= tolerance

    at, until = None, 0.0
    while True:
        if bending is not None:
            search.curvature = curvature(bending, weights, penalty.l2.view(-1), search.axes.moments)
            until = min(search.passes + FRESH, max_passes)
        weights, at = search.run(weights, done, until or max_passes, at)
        if bending is None or search.passes < until or until >= max_passes or bool(done(at, weights).all()):
            break
    return Fit(weights, search.objective(at, weights).float(), gap(at, weights).float(), search.passes + spent)


def _worth_it(rows: int, width: int, probes: int, classes: int) -> bool:
    return rows >= MANY and cost(rows, width) <= DEAREST and fits(probes, width, classes)


def _every(features: Rows) -> np.ndarray:
    """Numbers of the rows that stand for all."""
    most = min(MOST_SPARED, RESIDENT_BYTES // (4 * features.width))
    return np.arange(0, len(features), max(FEWER, -(-len(features) // most)))


def log_frequencies(labels: Tensor, width: int, classes: int) -> Tensor:
    """Where to start: no weights, and biases that predict every label's share."""
    start = torch.zeros(len(labels), width + 1, classes, device=labels.device)
    start[:, -1] = log_shares(labels, classes)
    return start
