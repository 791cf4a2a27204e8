"""Softmax regressions with a ridge, a few readings of the rows each, whatever the axes of the rows.

    F(W, b) = mean_i -log softmax(W'x_i + b)[y_i] + l2 * |W|^2

Some units of a layer are far larger than others, and which ones is an accident of training. Adam,
which has a step size for every weight, learns from such rows otherwise than from the same rows rotated
to other axes, and a probe that is not trained to the end shows that difference as if it were
knowledge. Here all weights of a class have one step size, Adam's for the root mean square of their
gradients: rotated rows give rotated weights, and the same predictions.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from vestige.probes.elastic_net.proximal import BETA1, BETA2, EPSILON
from vestige.probes.problem import log_shares
from vestige.probes.visit import refuse_diverged


class IsotropicProbes:
    """P probes in training, each (labels, ridge) by itself; their classes are the rows of one matrix."""

    def __init__(self, labels: Tensor, width: int, classes: int, l2: Tensor) -> None:
        """No weights, and biases that predict every label's share; labels (P, rows), l2 (P,)."""
        self.labels, self.classes = labels, classes
        self.biases = log_shares(labels, classes).view(-1)
        """(P * classes,)."""
        self.weights = self.biases.new_zeros(len(self.biases), width)
        """(P * classes, width)."""
        self.ridge = 2 * l2.repeat_interleave(classes)
        self.first, self.first_bias = torch.zeros_like(self.weights), torch.zeros_like(self.biases)
        self.second, self.second_bias = torch.zeros_like(self.biases), torch.zeros_like(self.biases)
        self.steps = 0

    def train(self, batches: Iterator[tuple[Tensor, np.ndarray]], steps: int, rate: float, last: float = 0.05) -> None:
        """So many mini-batches (rows, row numbers), the rate falling in a line to `last` of its beginning."""
        for step in range(steps):
            rows, which = next(batches)
            self._step(rows, which, rate * (1 - (1 - last) * step / steps))
            refuse_diverged(self.biases, rows, which)

    def _step(self, rows: Tensor, which: np.ndarray, rate: float) -> None:
        residual = self._residual(rows, which)
        gradient, bias_gradient = residual.T @ rows, residual.sum(0)
        self.steps += 1
        first, second = 1 - BETA1**self.steps, 1 - BETA2**self.steps
        self.second.lerp_(torch.linalg.vecdot(gradient, gradient).div_(gradient.shape[1]), 1 - BETA2)
        self.second_bias.lerp_(bias_gradient.square(), 1 - BETA2)
        self.first.lerp_(gradient, 1 - BETA1)
        self.first_bias.lerp_(bias_gradient, 1 - BETA1)
        size, bias_size = (rate / (s / second).sqrt_().add_(EPSILON) for s in (self.second, self.second_bias))
        self.weights.addcmul_(self.first, size.unsqueeze(1), value=-1 / first)
        self.weights.div_(1 + (size * self.ridge).unsqueeze(1))
        self.biases.addcmul_(self.first_bias, bias_size, value=-1 / first)

    def _residual(self, rows: Tensor, which: np.ndarray) -> Tensor:
        """(rows, P * classes): predictions minus labels, per row."""
        logits = torch.nn.functional.linear(rows, self.weights, self.biases)
        p = logits.view(len(rows), -1, self.classes).softmax(-1)
        gold = self.labels[:, which].T.unsqueeze(-1)
        p.scatter_add_(-1, gold, p.new_full((1, 1, 1), -1.0).expand(gold.shape))
        return p.view(len(rows), -1).div_(len(rows))

    def solution(self) -> Tensor:
        """(P, width + 1, classes): weights, and biases as the last row."""
        extended = torch.cat([self.weights, self.biases.unsqueeze(1)], dim=1)
        return extended.view(-1, self.classes, extended.shape[1]).transpose(1, 2).contiguous()
