"""Maps between two kinds of vectors that have the least squares: y = x W + b.

W is any matrix (ridge regression), or a rotation, a reflection and one scale (orthogonal Procrustes, Schoenemann 1966).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.representations.store import row_blocks

BLOCK = 4096
"""Rows read from a (possibly memory-mapped) array at once."""

TIE = 1e-9
"""Of two orthogonal maps that fit equally well, the one closer to no map is taken: by a pull of this relative size."""


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

    def of_array(self, array: np.ndarray) -> np.ndarray:
        """The same of an array (rows, from), block by block in double precision, as float32."""
        made = np.empty((len(array), self.weights.shape[1]), dtype=np.float32)
        for span in row_blocks(len(array), BLOCK):
            made[span] = self(torch.from_numpy(np.array(array[span], dtype=np.float64))).numpy()
        return made


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

    def update_all(self, rows: np.ndarray, targets: np.ndarray) -> "AffineFitter":
        """All rows of two arrays, block by block; the fitter itself."""
        for span in row_blocks(len(rows), BLOCK):
            self.update(*(torch.from_numpy(np.array(one[span], dtype=np.float64)) for one in (rows, targets)))
        return self

    def fit(self, penalty: float) -> Affine:
        """The ridge solution; `penalty` in units of the mean variance of the rows' units, the bias is not penalised."""
        inner, outer = self._covariances()
        ridge = penalty * inner.diagonal().mean() * torch.eye(len(inner), dtype=torch.float64)
        return self._centred(torch.linalg.lstsq(inner + ridge, outer, driver="gelsd").solution)

    def fits(self, penalties: Sequence[float], around: Affine | None = None) -> Iterator[Affine]:
        """The ridge solution under every penalty, each above 0, from one eigendecomposition.

        What is penalised is the distance of the weights from those of `around`, or their size where it is None.
        """
        inner, outer = self._covariances()
        origin = torch.zeros_like(outer) if around is None else around.weights
        values, axes = torch.linalg.eigh(inner)
        missing = axes.T @ (outer - inner @ origin)
        for penalty in penalties:
            ridge = (penalty * inner.diagonal().mean()).clamp(min=torch.finfo(torch.float64).tiny)
            yield self._centred(origin + axes @ (missing / (values.clamp(min=0) + ridge)[:, None]))

    def orthogonal(self) -> Affine:
        """Orthogonal Procrustes with a translation and one scale: W = s R with R'R = 1.

        R has the singular vectors of the cross-covariance. Rows that do not span the space leave some directions
        open; there R is as close to the identity as can be.
        """
        inner, outer = self._covariances()
        if outer.shape[0] != outer.shape[1]:
            raise AnalysisError(
                f"vectors {outer.shape[0]} wide cannot be rotated onto vectors {outer.shape[1]} wide",
                fix="fit an affine map",
            )
        spread = inner.diagonal().sum()
        if spread <= 0:
            return self._centred(torch.zeros_like(outer))
        pull = TIE * outer.norm() / len(outer) ** 0.5
        left, _, right = torch.linalg.svd(outer + pull * torch.eye(len(outer), dtype=torch.float64))
        rotation = left @ right
        return self._centred(rotation * ((rotation * outer).sum() / spread))

    def _covariances(self) -> tuple[Tensor, Tensor]:
        """Of the rows (from, from), and of rows and targets (from, to)."""
        if self.count < 2:
            raise AnalysisError("a map is fitted on at least two rows", fix="use more text")
        means = self._means
        inner, outer = (
            product / self.count - means[0][:, None] * mean for product, mean in zip(self._products, means, strict=True)
        )
        return inner, outer

    @property
    def _means(self) -> list[Tensor]:
        return [total / self.count for total in self._sums]

    def _centred(self, weights: Tensor) -> Affine:
        """With the translation that takes mean to mean."""
        rows, targets = self._means
        return Affine(weights, targets - rows @ weights)
