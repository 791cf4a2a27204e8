"""Softmax regression with an elastic-net penalty, trained until a certificate says it is done.

    F(W, b) = mean_i -log softmax(W'x_i + b)[y_i] + l1 * |W|_1 + l2 * |W|^2

The biases are free. P probes (other labels, other penalties) share the rows: their weights form
one matrix, so that a pass over the data is one product.

Method: L-BFGS whose initial inverse Hessian is (v_k X'X/n + 2 l2 I)^-1 for class k, where v_k is
the mean of p_k (1 - p_k) at the present point: the Hessian's diagonal blocks with the weights of
the rows averaged out. One eigendecomposition of X'X/n serves all classes, probes and steps.
Activations of language models are so anisotropic, and labels so unequal in frequency, that plain
L-BFGS needs several times as many passes. With l1 > 0 the orthant-wise variant (pseudo-gradient,
steps kept inside an orthant) gives true zeros.

Certificate: Fenchel duality. With p_i the predicted distributions, U = P - Y and V = X'U/n,

    F(W, b) - F* <= F(W, b) - [mean_i H(p_i) - r*(V) + <b, d> - <R, |d|>],   d = mean_i u_i,

where r* is the conjugate of the penalty and R says how far each bias is taken to be from its
optimum: at least 1, at least four diagonal Newton steps. Biases are not penalised, so no strict
bound exists without such a guess; on rows of unit root mean square, as the probes use them, it
held in every case that was tried, on rows far from the origin it can fall short by a small
factor. Every p shrunk towards Y gives a bound as well; with l1 > 0 the best of some is taken, with
l2 = 0 the one that is shrunk until |V| <= l1. With neither penalty there is no finite dual bound
and the largest slope decides.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vestige.probes.problem import Fit, log_shares
from vestige.probes.visit import Rows

MEMORY = 30
"""Pairs of steps and gradient changes that L-BFGS remembers."""
SHRINKS = 9
"""Points between no shrinking and all of it at which the dual bound is tried."""


@dataclass(frozen=True)
class Penalty:
    """Elastic-net weights of P probes, each (P, 1, 1)."""

    l1: Tensor
    l2: Tensor

    def value(self, weights: Tensor) -> Tensor:
        """(P,): the penalty of weights (P, width, classes), accumulated in float64."""
        flat = weights.double()
        return (self.l1.double() * flat.abs() + self.l2.double() * flat.square()).sum((1, 2))


@dataclass(frozen=True)
class Evaluation:
    """Loss, gradient and the certificate's ingredients at one point."""

    loss: Tensor
    """(P,): mean cross-entropy."""
    gradient: Tensor
    """(P, width + 1, classes): of the mean cross-entropy alone."""
    entropy: Tensor
    """(P,): mean entropy of the predictions."""
    spread: Tensor
    """(P, classes): mean of p (1 - p)."""


class Axes(NamedTuple):
    """Eigenvectors (columns) and eigenvalues of the second moments of the rows with a 1 appended."""

    vectors: Tensor
    values: Tensor


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
    if start is None:
        start = log_frequencies(labels, features.width, classes)
    search = _Search(features, labels, penalty, principal_axes(features) if axes is None else axes)
    return search.run(start.clone(), tolerance, max_passes)


def log_frequencies(labels: Tensor, width: int, classes: int) -> Tensor:
    """Where to start: no weights, and biases that predict every label's share."""
    start = torch.zeros(len(labels), width + 1, classes)
    start[:, -1] = log_shares(labels, classes)
    return start


def principal_axes(features: Rows) -> Axes:
    """One pass over the rows and one eigendecomposition."""
    moments = torch.zeros(features.width + 1, features.width + 1, dtype=torch.float64)
    for _, rows in features.blocks():
        extended = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
        moments += (extended.T @ extended).double()
    values, vectors = torch.linalg.eigh(moments / len(features))
    return Axes(vectors.float(), values.clamp(min=0).float())


def evaluate(features: Rows, labels: Tensor, weights: Tensor) -> Evaluation:
    """One pass over the rows.

    Columns are padded to a multiple of 16 and the gradient is accumulated transposed: with few
    columns that makes the two products, which are nearly all of the time, faster.
    """
    probes, extended, classes = weights.shape
    columns = probes * classes
    flat = weights.permute(1, 0, 2).reshape(extended, columns)
    padded = torch.nn.functional.pad(flat, (0, -columns % 16))
    loss = torch.zeros(probes, dtype=torch.float64)
    entropy = torch.zeros(probes, dtype=torch.float64)
    spread = torch.zeros(probes, classes)
    gradient = torch.zeros(columns, extended)
    for span, rows in features.blocks():
        size = len(rows)
        logits = torch.addmm(padded[-1], rows, padded[:-1])[:, :columns].reshape(size, probes, classes)
        normaliser = logits.logsumexp(-1, keepdim=True)
        p = (logits - normaliser).exp_()
        gold = labels[:, span].T.unsqueeze(-1)
        loss += (normaliser - logits.gather(-1, gold)).squeeze(-1).sum(0).double()
        entropy += (normaliser.squeeze(-1) - torch.linalg.vecdot(p, logits)).sum(0).double()
        spread += p.sum(0) - torch.linalg.vecdot(p, p, dim=0)
        p.scatter_add_(-1, gold, p.new_full(gold.shape, -1.0))
        residual = p.view(size, columns)
        gradient[:, :-1].addmm_(residual.T, rows)
        gradient[:, -1] += residual.sum(0)
    count = len(features)
    gradient = (gradient / count).view(probes, classes, extended).transpose(1, 2).contiguous()
    return Evaluation(loss / count, gradient, entropy / count, spread / count)


def duality_gap(at: Evaluation, weights: Tensor, penalty: Penalty) -> Tensor:
    """(P,): how far the objective can at most be above its minimum; infinite without any penalty."""
    slope = at.gradient[:, :-1].abs().double()
    l1, l2 = penalty.l1.double(), penalty.l2.double()
    lasso, ridge = l1.view(-1) > 0, l2.view(-1) > 0
    drift = at.gradient[:, -1].double()
    reach = (4 * drift.abs() / at.spread.double().clamp(min=1e-9)).clamp(min=1.0)
    bias = (weights[:, -1].double() * drift - reach * drift.abs()).sum(1)
    least = torch.where(lasso, (l1.view(-1) / slope.amax((1, 2)).clamp(min=1e-30)).clamp(max=1.0), 1.0)
    dual = torch.full_like(bias, -float("inf"))
    for power in torch.linspace(0, 1, SHRINKS).tolist() if bool(lasso.any()) else [0.0]:
        shrink = least**power
        beyond = (shrink.view(-1, 1, 1) * slope - l1).clamp_(min=0.0).square_().sum((1, 2))
        conjugate = torch.where(ridge, beyond / (4 * l2.view(-1)).clamp(min=1e-30), 0.0 if power == 1 else torch.inf)
        dual = torch.maximum(dual, shrink * (at.entropy + bias) - conjugate)
    gap = at.loss + penalty.value(weights[:, :-1]) - dual
    return torch.where(ridge | lasso, gap, float("inf"))


class _Search:
    """L-BFGS over P independent problems that share their rows."""

    def __init__(self, features: Rows, labels: Tensor, penalty: Penalty, axes: Axes) -> None:
        self.features, self.labels, self.penalty, self.axes = features, labels, penalty, axes
        self.steps: deque[Tensor] = deque(maxlen=MEMORY)
        self.changes: deque[Tensor] = deque(maxlen=MEMORY)
        self.passes = 0

    def run(self, weights: Tensor, tolerance: float, max_passes: int) -> Fit:
        at = self._evaluate(weights)
        gap = duality_gap(at, weights, self.penalty)
        while self.passes < max_passes and not self._done(gap, at, weights, tolerance):
            moved, next_at = self._line_search(weights, at, gap > tolerance)
            if moved is None:
                break
            self.steps.append(moved - weights)
            self.changes.append(self._smooth(next_at, moved) - self._smooth(at, weights))
            weights, at = moved, next_at
            gap = duality_gap(at, weights, self.penalty)
        return Fit(weights, self._objective(at, weights).float(), gap.float(), self.passes)

    def _evaluate(self, weights: Tensor) -> Evaluation:
        self.passes += 1
        return evaluate(self.features, self.labels, weights)

    def _objective(self, at: Evaluation, weights: Tensor) -> Tensor:
        return at.loss + self.penalty.value(weights[:, :-1])

    def _done(self, gap: Tensor, at: Evaluation, weights: Tensor, tolerance: float) -> bool:
        steep = self._pseudo_gradient(at, weights).abs().amax((1, 2)) > tolerance
        return not bool(torch.where(torch.isfinite(gap), gap > tolerance, steep).any())

    def _smooth(self, at: Evaluation, weights: Tensor) -> Tensor:
        """Gradient of cross-entropy and ridge."""
        gradient = at.gradient.clone()
        gradient[:, :-1] += 2 * self.penalty.l2 * weights[:, :-1]
        return gradient

    def _pseudo_gradient(self, at: Evaluation, weights: Tensor) -> Tensor:
        """Steepest one-sided slope of the whole objective."""
        gradient = self._smooth(at, weights)
        if not self.penalty.l1.any():
            return gradient
        inner, now, l1 = gradient[:, :-1], weights[:, :-1], self.penalty.l1
        at_zero = torch.where(inner + l1 < 0, inner + l1, torch.where(inner - l1 > 0, inner - l1, 0.0))
        gradient[:, :-1] = torch.where(now == 0, at_zero, inner + l1 * now.sign())
        return gradient

    def _precondition(self, slope: Tensor, at: Evaluation) -> Tensor:
        """Apply the inverse of the averaged diagonal blocks of the Hessian."""
        values = self.axes.values.view(1, -1, 1)
        floor = 1e-7 * float(self.axes.values.mean())
        blocks = at.spread.clamp(min=1e-6).unsqueeze(1) * values + 2 * self.penalty.l2 + floor
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
        slope = self._pseudo_gradient(at, weights)
        direction = self._direction(slope, at)
        lasso = bool(self.penalty.l1.any())
        if lasso:
            inner = direction[:, :-1]
            agrees = (inner * slope[:, :-1] < 0) | (self.penalty.l1 == 0)
            direction[:, :-1] = torch.where(agrees, inner, 0.0)
            orthant = torch.where(weights == 0, -slope.sign(), weights.sign())[:, :-1]
        uphill = (direction * slope).sum((1, 2)) >= 0
        direction[uphill] = -self._precondition(slope, at)[uphill]
        before = self._objective(at, weights)
        size = torch.ones(len(weights), 1, 1)
        size[~active] = 0.0
        for _ in range(25):
            trial = weights + size * direction
            if lasso:
                inside = (trial[:, :-1] * orthant >= 0) | (self.penalty.l1 == 0)
                trial[:, :-1] = torch.where(inside, trial[:, :-1], 0.0)
            moved_at = self._evaluate(trial)
            promised = ((trial - weights) * slope).sum((1, 2)).double()
            good = self._objective(moved_at, trial) <= before + 1e-4 * promised + 1e-9 * before.abs()
            good |= (size == 0).view(-1)
            if bool(good.all()):
                return (None, at) if torch.equal(trial, weights) else (trial, moved_at)
            size[~good] *= 0.5
            size[size < 1e-6] = 0.0
        return None, at
