"""Softmax regression with an elastic-net penalty: its loss, gradient and distance from the optimum.

    F(W, b) = mean_i -log softmax(W'x_i + b)[y_i] + l1 * |W|_1 + l2 * |W|^2

The biases are free. P probes (other labels, other penalties) share the rows: their weights form
one matrix, so that a pass over the data is one product.

Certificate: Fenchel duality. Any distributions p_i over the classes whose mean is the share of each label give a
lower bound of the minimum,

    F* >= mean_i H(p_i) - r*(X'(P - Y)/n),

where r* is the conjugate of the penalty. The predictions of a probe are such distributions once the probability that
some classes have too much of, on average, is moved to those that have too little: the share of it that a class keeps
is the same for all rows, so the moved X'P/n follows from X'P/n without another pass. Moving loses entropy, but at most
H(mean p) - H(mean y): what a label tells about its row cannot grow by passing it through a channel. Nothing is assumed
about the biases. Every p shrunk towards Y gives a bound as well; with l1 > 0 the best of some is taken, with l2 = 0 the
one that is shrunk until |V| <= l1. With neither penalty there is no finite bound.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from vestige.probes.problem import check_labels
from vestige.probes.steps import softmax_sums
from vestige.probes.visit import Rows
from vestige.products import times_transposed

ROWS = 1024
"""Rows of a product: with these the logits of a block stay in a processor's cache."""
SHRINKS = 9
"""Points between no shrinking and all of it at which the dual bound is tried."""


@dataclass(frozen=True)
class Penalty:
    """Elastic-net weights of P probes, each (P, 1, 1)."""

    l1: Tensor
    l2: Tensor

    @cached_property
    def lasso(self) -> bool:
        """Whether any probe has an L1 penalty."""
        return bool(self.l1.any())

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


@dataclass(frozen=True)
class Truth:
    """What the certificate needs to know of the labels."""

    shares: Tensor
    """(P, classes), float64: mean of Y."""
    means: Tensor
    """(P, width, classes), float64: X'Y/n."""

    @classmethod
    def of(cls, features: Rows, labels: Tensor, classes: int) -> "Truth":
        """One reading of the rows; labels (P, rows)."""
        check_labels(labels, classes, len(features))
        sums = torch.zeros(len(labels), classes, features.width, device=labels.device)
        for span, rows in features.blocks():
            for mine, gold in zip(sums, labels[:, span], strict=True):
                mine.index_add_(0, gold, rows)
        counts = torch.stack([torch.bincount(gold, minlength=classes) for gold in labels])
        return cls(counts.double() / len(features), (sums.double() / len(features)).transpose(1, 2))


def evaluate(features: Rows, labels: Tensor, weights: Tensor) -> Evaluation:
    """One pass over the rows."""
    probes, extended, classes = weights.shape
    columns, count = probes * classes, len(features)
    matrix = weights.transpose(1, 2).reshape(columns, extended)
    inner, biases = matrix[:, :-1].contiguous(), matrix[:, -1].contiguous()
    sums, of_classes = (weights.new_zeros(2, size, dtype=torch.float64) for size in (probes, columns))
    gradient = weights.new_zeros(columns, extended - 1)
    for span, rows in features.blocks(ROWS):
        logits = times_transposed(inner, rows)
        residual = softmax_sums(logits, biases, labels[:, span], classes, sums, of_classes)
        gradient += times_transposed(residual, rows.T)
    whole = torch.cat([gradient, of_classes[1, :, None].float()], dim=1).view(probes, classes, extended)
    loss, entropy = sums / count
    spread = (of_classes[0] / count).float().view(probes, classes)
    return Evaluation(loss, (whole / count).transpose(1, 2).contiguous(), entropy, spread)


def duality_gap(at: Evaluation, weights: Tensor, penalty: Penalty, truth: Truth) -> Tensor:
    """(P,): how far the objective can at most be above its minimum; infinite without any penalty."""
    drift = at.gradient[:, -1].double()
    predicted = truth.shares + drift
    kept = torch.where(drift > 0, truth.shares / predicted.clamp(min=1e-300), 1.0).unsqueeze(1)
    taken = (-drift).clamp(min=0.0)
    taken = (taken / taken.sum(1, keepdim=True).clamp(min=1e-300)).unsqueeze(1)
    means = at.gradient[:, :-1].double() + truth.means
    slope = (means * kept + (means * (1 - kept)).sum(2, keepdim=True) * taken - truth.means).abs_()
    entropy = at.entropy + _entropy(truth.shares) - _entropy(predicted)
    l1, l2 = penalty.l1.double(), penalty.l2.double()
    lasso, ridge = l1.view(-1) > 0, l2.view(-1) > 0
    least = torch.where(lasso, (l1.view(-1) / slope.amax((1, 2)).clamp(min=1e-30)).clamp(max=1.0), 1.0)
    dual = torch.full_like(entropy, -float("inf"))
    for power in torch.linspace(0, 1, SHRINKS).tolist() if penalty.lasso else [0.0]:
        shrink = least**power
        beyond = (shrink.view(-1, 1, 1) * slope - l1).clamp_(min=0.0).square_().sum((1, 2))
        conjugate = torch.where(ridge, beyond / (4 * l2.view(-1)).clamp(min=1e-30), 0.0 if power == 1 else torch.inf)
        dual = torch.maximum(dual, shrink * entropy - conjugate)
    gap = at.loss + penalty.value(weights[:, :-1]) - dual
    return torch.where(ridge | lasso, gap, float("inf"))


def _entropy(shares: Tensor) -> Tensor:
    """(P,): in nats."""
    return torch.special.entr(shares.clamp(min=0.0)).sum(1)
