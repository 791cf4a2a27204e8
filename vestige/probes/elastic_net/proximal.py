"""Many elastic-net softmax probes in one pass over the rows, with true zeros.

    F(W, b) = mean_i -log softmax(W'x_i + b)[y_i] + l1 * |W|_1 + l2 * |W|^2        (form "squared")
                                                  + l1 * |W|_1 + l2 * |W|          (form "norm", NeuroX's)

P probes (other penalties, other labels, other sets of columns) are the columns of one weight
matrix (width, P * classes): a step is two products and one update. The update is Adam's for the
smooth part; the penalties follow as a proximal step in Adam's metric, so that weights that the
data does not hold up become exactly zero. It is applied to a few rows of the matrix at a time,
small enough to stay in the processor's cache.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.problem import log_shares
from vestige.probes.visit import Frame, refuse_diverged

Form = Literal["squared", "norm"]

BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8
CACHED = 1 << 15
"""Weights updated at a time."""
_STATE = ("weights", "biases", "l1", "first", "second", "first_bias", "second_bias", "steps")


@dataclass
class Probes:
    """P probes in training: weights, biases and what Adam remembers of their gradients."""

    weights: Tensor
    """(width, P * classes)."""
    biases: Tensor
    """(P * classes,)."""
    classes: int
    l1: Tensor
    """(P,)."""
    l2: Tensor
    form: Form = "squared"
    frame: Frame | None = None
    """What the rows were freed of; its size divides the rate at which weights move. None: neither."""
    mask: Tensor | None = None
    """(width, P * classes) of ones and zeros: columns that a probe may not use."""

    def __post_init__(self) -> None:
        for name, strengths in (("l1", self.l1), ("l2", self.l2)):
            if not bool((strengths >= 0).all() & strengths.isfinite().all()):
                raise AnalysisError(
                    f"{name} is a number from 0 on, not {strengths.tolist()}", fix="0 is no penalty at all"
                )
        self.first, self.second = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.first_bias, self.second_bias = torch.zeros_like(self.biases), torch.zeros_like(self.biases)
        self.steps = 0

    @property
    def count(self) -> int:
        return len(self.l1)

    @classmethod
    def at_zero(
        cls,
        labels: Tensor,
        width: int,
        classes: int,
        l1: list[float],
        l2: list[float],
        form: Form = "squared",
        frame: Frame | None = None,
    ) -> "Probes":
        """No weights, and biases that predict every label's share; labels (P or 1, rows)."""
        biases = log_shares(labels, classes).expand(len(l1), -1).reshape(-1).clone()
        weights = torch.zeros(width, len(l1) * classes)
        return cls(weights, biases, classes, torch.tensor(l1), torch.tensor(l2), form, frame)

    def residual(self, rows: Tensor, labels: Tensor) -> Tensor:
        """(rows, P * classes): predictions minus labels (P or 1, rows), per row."""
        logits = torch.addmm(self.biases, rows, self.weights).view(len(rows), self.count, self.classes)
        p = logits.softmax(-1)
        gold = labels.T.unsqueeze(-1).expand(-1, self.count, -1)
        p.scatter_add_(-1, gold, p.new_full((1, 1, 1), -1.0).expand(gold.shape))
        return p.view(len(rows), -1).div_(len(rows))

    def step(self, rows: Tensor, labels: Tensor, rate: float) -> None:
        """One mini-batch."""
        residual = self.residual(rows, labels)
        gradient = rows.T @ residual
        self.steps += 1
        first, second = 1 - BETA1**self.steps, (1 - BETA2**self.steps) ** 0.5
        self._step_biases(residual.sum(0), rate / first, second)
        rate /= 1.0 if self.frame is None else self.frame.size
        ridge, divisor = self._ridge()
        lasso = self.l1.repeat_interleave(self.classes) if bool(self.l1.any()) else None
        rows_at_once = max(1, CACHED // self.weights.shape[1])
        for start in range(0, len(self.weights), rows_at_once):
            part = slice(start, start + rows_at_once)
            weights, slope = self.weights[part], gradient[part]
            if ridge is not None:
                slope.addcmul_(weights, ridge)
            self.first[part].lerp_(slope, 1 - BETA1)
            self.second[part].mul_(BETA2).addcmul_(slope, slope, value=1 - BETA2)
            size = self.second[part].sqrt().div_(second).add_(EPSILON).reciprocal_().mul_(rate)
            weights.addcmul_(self.first[part], size, value=-1 / first)
            if lasso is not None:
                threshold = size * lasso
                weights.sub_(torch.clamp(weights, -threshold, threshold))
            if divisor is not None:
                weights.div_(size.mul_(divisor).add_(1))
            if self.mask is not None:
                weights.mul_(self.mask[part])

    def _step_biases(self, gradient: Tensor, rate: float, second: float) -> None:
        self.first_bias.lerp_(gradient, 1 - BETA1)
        self.second_bias.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        self.biases.addcdiv_(self.first_bias, self.second_bias.sqrt().div_(second).add_(EPSILON), value=-rate)

    def _ridge(self) -> tuple[Tensor | None, Tensor | None]:
        """The L2 term: as a slope (form "norm"), or as a divisor of the proximal step (form "squared")."""
        if not bool(self.l2.any()):
            return None, None
        if self.form == "squared":
            return None, (2 * self.l2).repeat_interleave(self.classes)
        size = self.weights.view(len(self.weights), self.count, self.classes).square().sum((0, 2)).sqrt()
        return (self.l2 / size.clamp(min=1e-6)).repeat_interleave(self.classes), None

    def state(self) -> dict[str, Tensor | int]:
        """Where training stands, to be taken up by `restore`."""
        return {name: getattr(self, name) for name in _STATE}

    def restore(self, state: Mapping[str, Tensor | int]) -> None:
        """Go on from where `state` was taken."""
        for name in _STATE:
            setattr(self, name, state[name])

    def solution(self, probe: int) -> tuple[Tensor, Tensor]:
        """Copies of a probe's weights (width, classes) and biases (classes,), for rows as they are."""
        part = slice(probe * self.classes, (probe + 1) * self.classes)
        weights, biases = self.weights[:, part].clone(), self.biases[part].clone()
        return weights, biases - self._at_centre(weights)

    def start_from(self, probe: int, weights: Tensor, biases: Tensor) -> None:
        """Go on from a solution."""
        part = slice(probe * self.classes, (probe + 1) * self.classes)
        self.weights[:, part] = weights
        self.biases[part] = biases + self._at_centre(weights)

    def _at_centre(self, weights: Tensor) -> Tensor:
        """(classes,): what the weights make of the centre."""
        if self.frame is None:
            return weights.new_zeros(self.classes)
        return (self.frame.centre.double() @ weights.double()).float()


def train(
    probes: Probes,
    batches: Iterator[tuple[Tensor, np.ndarray]],
    labels: Tensor,
    steps: int,
    rate: float,
    last: float = 0.05,
) -> None:
    """So many steps, the rate falling in a line to `last` of its beginning; labels (P or 1, rows)."""
    for step in range(steps):
        rows, which = next(batches)
        probes.step(rows, labels[:, which], rate * (1 - (1 - last) * step / steps))
        refuse_diverged(probes.biases, rows, which)
