"""L-BFGS for softmax regression with an elastic-net penalty (vestige.probes.linear.softmax).

The initial inverse Hessian is (v_k X'X/n + 2 l2 I)^-1 for class k, where v_k is
the mean of p_k (1 - p_k) at the present point: the Hessian's diagonal blocks with the weights of
the rows averaged out. One eigendecomposition of X'X/n serves all classes, probes and steps.
Activations of language models are so anisotropic, and labels so unequal in frequency, that plain
L-BFGS needs several times as many passes. Where many rows pay for it, blocks made class by class take its place
(vestige.probes.linear.curvature). With l1 > 0 the orthant-wise variant (pseudo-gradient,
steps kept inside an orthant) gives true zeros.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from vestige.probes.linear.curvature import Curvature
from vestige.probes.linear.softmax import Evaluation, Penalty, evaluate
from vestige.probes.visit import SAMPLE, Rows, sample_rows

MEMORY = 30
"""Pairs of steps and gradient changes that L-BFGS remembers."""


class Axes(NamedTuple):
    """Eigenvectors (columns) and eigenvalues of the second moments of the rows with a 1 appended."""

    vectors: Tensor
    values: Tensor

    @property
    def moments(self) -> Tensor:
        """(width + 1, width + 1): the second moments themselves."""
        return (self.vectors * self.values) @ self.vectors.T


def principal_axes(features: Rows) -> Axes:
    """Of a sample of the rows: they only say in which directions steps are long."""
    which = sample_rows(len(features), max(SAMPLE, 8 * features.width))
    rows = features.rows(which)
    extended = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
    values, vectors = torch.linalg.eigh((extended.T @ extended).double() / len(rows))
    return Axes(vectors.float(), values.clamp(min=0).float())


class Search:
    """L-BFGS over P independent problems that share their rows."""

    def __init__(self, features: Rows, labels: Tensor, penalty: Penalty, axes: Axes) -> None:
        self.features, self.labels, self.penalty, self.axes = features, labels, penalty, axes
        self.floor = 1e-7 * float(axes.values.mean())
        self.curvature: Curvature | None = None
        """What takes the place of the averaged blocks."""
        self.steps: deque[Tensor] = deque(maxlen=MEMORY)
        self.changes: deque[Tensor] = deque(maxlen=MEMORY)
        self.passes = 0

    def run(
        self,
        weights: Tensor,
        done: Callable[[Evaluation, Tensor], Tensor],
        max_passes: float,
        at: Evaluation | None = None,
    ) -> tuple[Tensor, Evaluation]:
        """From these weights to where all probes are `done` (P,), or no step leads further down."""
        at = self.evaluate(weights) if at is None else at
        while self.passes < max_passes and not bool((ready := done(at, weights)).all()):
            moved, next_at = self._line_search(weights, at, ~ready)
            if moved is None:
                break
            self.steps.append(moved - weights)
            self.changes.append(self._smooth(next_at, moved) - self._smooth(at, weights))
            weights, at = moved, next_at
        return weights, at

    def evaluate(self, weights: Tensor) -> Evaluation:
        self.passes += 1
        return evaluate(self.features, self.labels, weights)

    def objective(self, at: Evaluation, weights: Tensor) -> Tensor:
        return at.loss + self.penalty.value(weights[:, :-1])

    def _smooth(self, at: Evaluation, weights: Tensor) -> Tensor:
        """Gradient of all but the L1 penalty."""
        gradient = at.gradient.clone()
        gradient[:, :-1] += 2 * self.penalty.l2 * weights[:, :-1]
        return gradient

    def slope(self, at: Evaluation, weights: Tensor) -> Tensor:
        """Steepest one-sided slope of the whole objective."""
        gradient = self._smooth(at, weights)
        if not self.penalty.lasso:
            return gradient
        inner, now, l1 = gradient[:, :-1], weights[:, :-1], self.penalty.l1
        at_zero = torch.where(inner + l1 < 0, inner + l1, torch.where(inner - l1 > 0, inner - l1, 0.0))
        gradient[:, :-1] = torch.where(now == 0, at_zero, inner + l1 * now.sign())
        return gradient

    def _precondition(self, slope: Tensor, at: Evaluation) -> Tensor:
        """Apply the inverse of the averaged diagonal blocks of the Hessian, or of its curvature class by class."""
        if self.curvature is not None:
            return self.curvature.solve(slope)
        values = self.axes.values.view(1, -1, 1)
        blocks = at.spread.clamp(min=1e-6).unsqueeze(1) * values + 2 * self.penalty.l2 + self.floor
        return self.axes.vectors @ ((self.axes.vectors.T @ slope) / blocks)

    def _direction(self, slope: Tensor, at: Evaluation) -> Tensor:
        """Two-loop recursion, every probe with inner products of its own."""
        q = slope.clone()
        kept = []
        for step, change in zip(reversed(self.steps), reversed(self.changes), strict=True):
            curvature = (step * change).sum((1, 2), keepdim=True)
            usable = curvature > 1e-12
            rho = torch.where(usable, 1 / curvature.clamp(min=1e-12), 0.0)
            alpha = rho * (step * q).sum((1, 2), keepdim=True)
            q -= alpha * change
            kept.append((alpha, rho, step, change))
        q = self._precondition(q, at)
        if self.steps:
            step, change = self.steps[-1], self.changes[-1]
            metric = (change * self._precondition(change, at)).sum((1, 2), keepdim=True)
            curvature = (step * change).sum((1, 2), keepdim=True)
            q *= torch.where((metric > 1e-30) & (curvature > 1e-12), curvature / metric.clamp(min=1e-30), 1.0)
        for alpha, rho, step, change in reversed(kept):
            beta = rho * (change * q).sum((1, 2), keepdim=True)
            q += step * (alpha - beta)
        return -q

    def _line_search(self, weights: Tensor, at: Evaluation, active: Tensor) -> tuple[Tensor | None, Evaluation]:
        """Backtracking per probe; probes that are done, or find no descent, stay where they are."""
        slope = self.slope(at, weights)
        direction = self._direction(slope, at)
        if self.penalty.lasso:
            inner = direction[:, :-1]
            agrees = (inner * slope[:, :-1] < 0) | (self.penalty.l1 == 0)
            direction[:, :-1] = torch.where(agrees, inner, 0.0)
            orthant = torch.where(weights == 0, -slope.sign(), weights.sign())[:, :-1]
        uphill = (direction * slope).sum((1, 2), keepdim=True) >= 0
        direction = torch.where(uphill, -self._precondition(slope, at), direction)
        before = self.objective(at, weights)
        size = active.to(weights.dtype).view(-1, 1, 1)
        for _ in range(25):
            trial = weights + size * direction
            if self.penalty.lasso:
                inside = (trial[:, :-1] * orthant >= 0) | (self.penalty.l1 == 0)
                trial[:, :-1] = torch.where(inside, trial[:, :-1], 0.0)
            moved_at = self.evaluate(trial)
            promised = ((trial - weights) * slope).sum((1, 2)).double()
            good = self.objective(moved_at, trial) <= before + 1e-4 * promised + 1e-9 * before.abs()
            good |= (size == 0).view(-1)
            if bool(good.all()):
                return (None, at) if torch.equal(trial, weights) else (trial, moved_at)
            size = torch.where(good.view(-1, 1, 1), size, 0.5 * size)
            size = size.masked_fill(size < 1e-6, 0.0)
        return None, at
