"""The affine map between two kinds of vectors that has the least squares: y = x W + b, by ridge regression."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vestige.errors import AnalysisError


@dataclass(frozen=True)
class Affine:
    """A map of rows (rows, from) to rows (rows, to)."""

    weights: Tensor
    """(from, to)."""
    bias: Tensor
    """(to,)."""

    def __call__(self, rows: Tensor) -> Tensor:
        """The mapped rows, in their own precision."""
        return rows @ self.weights.to(rows) + self.bias.to(rows)


class AffineFitter:
    """Takes rows batch by batch; only sums are kept, in double precision."""

    def __init__(self, width: int, target: int) -> None:
        self.count = 0
        self._sums = [torch.zeros(size, dtype=torch.float64) for size in (width, target)]
        self._products = [torch.zeros(width, size, dtype=torch.float64) for size in (width, target)]

    def update(self, rows: Tensor, targets: Tensor) -> None:
        """More rows (rows, from) and what they should be mapped to (rows, to)."""
        both = [one.to("cpu", torch.float64) for one in (rows, targets)]
        self.count += len(rows)
        for total, product, one in zip(self._sums, self._products, both, strict=True):
            total += one.sum(0)
            product += both[0].T @ one

    def fit(self, penalty: float) -> Affine:
        """The ridge solution; `penalty` in units of the mean variance of the rows' units, the bias is not penalised."""
        if self.count < 2:
            raise AnalysisError("an affine map is fitted on at least two rows", fix="use more text")
        means = [total / self.count for total in self._sums]
        inner, outer = (
            product / self.count - means[0][:, None] * mean for product, mean in zip(self._products, means, strict=True)
        )
        ridge = penalty * inner.diagonal().mean() * torch.eye(len(inner), dtype=torch.float64)
        weights = torch.linalg.lstsq(inner + ridge, outer, driver="gelsd").solution
        return Affine(weights, means[1] - means[0] @ weights)
