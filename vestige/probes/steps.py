"""What a training step does besides its two products: the residual of a softmax, and Adam's update.

P probes are the rows of one matrix of weights (P * classes, width), so that both products of a step and everything
between them read memory in order. The loops are compiled where numba is installed; the same in torch stands beside
them, for torches and devices without it, and as what the compiled ones are tested against.
"""

import logging
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

CACHED = 1 << 15
"""Weights that torch updates at a time: few enough to stay in the processor's cache."""


@cache
def compiled() -> ModuleType | None:
    """The compiled loops; None where numba cannot be imported."""
    try:
        from vestige.probes import compiled as loops
    except ImportError as reason:
        logging.getLogger(__name__).info("probes are trained by plain torch, more slowly: %s", reason)
        return None
    return loops


def softmax_residual(logits: Tensor, biases: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Predictions minus labels, divided by the number of rows, in place of the logits (P * classes, rows).

    biases (P * classes,) are added first; labels (P or 1, rows).
    """
    loops = compiled()
    if loops is None or logits.device.type != "cpu":
        return _softmax_residual(logits, biases, labels, classes)
    loops.softmax_residual(logits.numpy(), biases.numpy(), labels.contiguous().numpy(), classes)
    return logits


def _softmax_residual(logits: Tensor, biases: Tensor, labels: Tensor, classes: int) -> Tensor:
    rows = logits.shape[1]
    p = logits.add_(biases.unsqueeze(1)).view(-1, classes, rows).softmax(1)
    gold = labels.unsqueeze(1).expand(len(p), 1, rows)
    p.scatter_add_(1, gold, p.new_full((1, 1, 1), -1.0).expand(gold.shape))
    return logits.copy_(p.view(-1, rows).div_(rows))


def softmax_sums(
    logits: Tensor, biases: Tensor, labels: Tensor, classes: int, sums: Tensor, of_classes: Tensor
) -> Tensor:
    """Predictions minus labels, in place of the logits (P * classes, rows); and what they add up to.

    biases (P * classes,) are added first; labels (P, rows). To `sums` (2, P) the losses and entropies of the rows are
    added, to `of_classes` (2, P * classes) the sums of p (1 - p) and of p minus labels; both are float64.
    """
    loops = compiled()
    if loops is None or logits.device.type != "cpu":
        return _softmax_sums(logits, biases, labels, classes, sums, of_classes)
    given = (logits.numpy(), biases.numpy(), labels.contiguous().numpy(), classes)
    loops.softmax_sums(*given, sums.numpy(), of_classes.numpy())
    return logits


def _softmax_sums(
    logits: Tensor, biases: Tensor, labels: Tensor, classes: int, sums: Tensor, of_classes: Tensor
) -> Tensor:
    rows = logits.shape[1]
    each = logits.add_(biases.unsqueeze(1)).view(-1, classes, rows)
    normaliser, gold = each.logsumexp(1), labels.unsqueeze(1)
    p = (each - normaliser.unsqueeze(1)).exp_()
    sums[0] += (normaliser - each.gather(1, gold).squeeze(1)).sum(1).double()
    sums[1] += (normaliser - torch.linalg.vecdot(p, each, dim=1)).sum(1).double()
    of_classes[0] += (p - p * p).sum(2).double().view(-1)
    p.scatter_add_(1, gold, p.new_full(gold.shape, -1.0))
    of_classes[1] += p.sum(2).double().view(-1)
    return logits.copy_(p.view(-1, rows))


@dataclass
class Penalties:
    """How the penalties of P probes enter a step, as rows of one table.

    The first two are gradients: `pull` times the weight, `sign` times its sign. The last two follow the gradient as a
    proximal step in Adam's metric: `lasso` moves weights towards zero and lets them stay there, `ridge` divides them.
    """

    table: Tensor
    """(4, P)."""

    @classmethod
    def none(cls, probes: int, device: torch.device | None = None) -> "Penalties":
        return cls(torch.zeros(4, probes, device=device))

    @property
    def pull(self) -> Tensor:
        return self.table[0]

    @property
    def sign(self) -> Tensor:
        return self.table[1]

    @property
    def lasso(self) -> Tensor:
        return self.table[2]

    @property
    def ridge(self) -> Tensor:
        return self.table[3]


@dataclass
class Moments:
    """What Adam remembers of the gradients of weights (P * classes, width)."""

    first: Tensor
    second: Tensor
    beta1: float
    beta2: float
    epsilon: float = 1e-8
    steps: int = 0

    @classmethod
    def of(cls, weights: Tensor, beta1: float, beta2: float, epsilon: float = 1e-8) -> "Moments":
        return cls(torch.zeros_like(weights), torch.zeros_like(weights), beta1, beta2, epsilon)

    def numbers(self, rate: float) -> tuple[float, ...]:
        """Shares of the new gradient and its square, the rate, and what makes up for having begun at zero."""
        grown, spread = 1 / (1 - self.beta1**self.steps), (1 - self.beta2**self.steps) ** -0.5
        return 1 - self.beta1, self.beta2, 1 - self.beta2, rate, grown, spread, self.epsilon


def adam(
    weights: Tensor,
    gradient: Tensor,
    moments: Moments,
    rate: float,
    classes: int,
    penalties: Penalties,
    widths: Tensor | None = None,
) -> None:
    """One update of weights (P * classes, width) in place.

    `widths` (P,): only the first so many columns of a probe are updated. The gradient may be overwritten.
    """
    moments.steps += 1
    numbers = moments.numbers(rate)
    loops = compiled()
    if loops is None or weights.device.type != "cpu":
        return _adam(weights, gradient, moments, numbers, classes, penalties, widths)
    probes = len(weights) // classes
    upto = np.full(probes, weights.shape[1]) if widths is None else widths.numpy()
    parts = (part.numpy() for part in (weights, moments.first, moments.second, gradient, penalties.table))
    loops.adam(*parts, upto, np.array(numbers, dtype=np.float32), classes)


def _adam(
    weights: Tensor,
    gradient: Tensor,
    moments: Moments,
    numbers: tuple[float, ...],
    classes: int,
    penalties: Penalties,
    widths: Tensor | None,
) -> None:
    new1, keep2, new2, rate, grown, spread, epsilon = numbers
    terms = penalties.table.repeat_interleave(classes, 1).unsqueeze(2)
    inside = None
    if widths is not None:
        upto = widths.to(weights.device).repeat_interleave(classes).unsqueeze(1)
        inside = torch.arange(weights.shape[1], device=weights.device) < upto
    rows_at_once = max(1, CACHED // weights.shape[1])
    for start in range(0, len(weights), rows_at_once):
        part = slice(start, start + rows_at_once)
        w, slope, first, second = weights[part], gradient[part], moments.first[part], moments.second[part]
        pull, sign, lasso, ridge = terms[:, part]
        slope.addcmul_(pull, w).addcmul_(sign, w.sign())
        if inside is not None:
            slope.mul_(inside[part])
        first.lerp_(slope, new1)
        second.mul_(keep2).addcmul_(slope, slope, value=new2)
        size = second.sqrt().mul_(spread).add_(epsilon).reciprocal_().mul_(rate)
        w.addcmul_(first, size, value=-grown)
        most = size * lasso
        w.sub_(torch.clamp(w, -most, most))
        w.div_(size.mul_(ridge).add_(1))


def gather(source: np.ndarray, columns: np.ndarray, out: np.ndarray, start: int) -> None:
    """Some columns of `source` (rows, width) go into `out` (rows, ...) in float32, from the column `start` on.

    The columns have to exist.
    """
    if len(out) != len(source) or start + len(columns) > out.shape[1]:
        raise ValueError(f"{len(source)} rows of {len(columns)} columns do not fit into {out.shape} from {start} on")
    loops = compiled()
    if loops is None or source.dtype != np.float32:
        picked = torch.from_numpy(np.take(source, columns, axis=1, mode="clip"))  # torch converts float16 fast
        out[:, start : start + len(columns)] = picked.float().numpy()
    else:
        loops.gather(source, columns.astype(np.uint32), out, start)


def largest(logits: Tensor, biases: Tensor) -> np.ndarray:
    """(sets, rows): the class of the largest logit (sets, classes, rows), its bias added; the first of equal ones."""
    loops = compiled()
    if loops is None or logits.device.type != "cpu":
        return (logits + biases.unsqueeze(1)).cpu().numpy().argmax(1)
    best = np.empty((logits.shape[0], logits.shape[2]), dtype=np.int32)
    loops.largest(logits.numpy(), biases.numpy(), best)
    return best
