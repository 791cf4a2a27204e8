"""Erasing a property from hidden states.

LEACE (Belrose et al. 2023, section 4): among all affine maps after which no linear probe
reads the property better than by guessing, the one that changes the states least in the mean square.
With W the inverse square root of the states' covariance and U an orthonormal basis of what W makes of
their covariance with the labels,

    x -> x - W^-1 U U' W (x - mean).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.measures.precision import in_float64
from vestige.representations.store import row_blocks

BLOCK = 4096
"""Rows read from a (possibly memory-mapped) array at once."""

SMALLEST = 1e-4
"""A correlation of states and labels below this is taken for the rounding of float32 states."""


@dataclass(frozen=True)
class Eraser:
    """x -> x - left right (x - mean), computed in float64."""

    left: Tensor
    """(width, rank)."""
    right: Tensor
    """(rank, width)."""
    mean: Tensor
    """(width,)."""

    @property
    def rank(self) -> int:
        """How many directions are taken away."""
        return self.left.shape[1]

    def __call__(self, states: Tensor) -> Tensor:
        """States (..., width) without what is erased, in their own precision."""
        exact = in_float64(states)
        left, right, mean = (part.to(exact.device) for part in (self.left, self.right, self.mean))
        return (exact - (exact - mean) @ right.T @ left.T).to(states.device, states.dtype)

    def rows(self, array: np.ndarray) -> np.ndarray:
        """The same of an array (rows, width), block by block, as float32."""
        made = np.empty(array.shape, dtype=np.float32)
        for span, block in _blocks(array):
            made[span] = self(block).numpy()
        return made

    def change(self, array: np.ndarray) -> float:
        """Mean squared change of the rows, as a share of their mean squared distance from the mean."""
        moved = total = 0.0
        for _, block in _blocks(array):
            moved += float((self(block) - block).square().sum())
            total += float((block - self.mean).square().sum())
        return moved / total if total else 0.0


def leace(array: np.ndarray, labels: np.ndarray, classes: int) -> Eraser:
    """The eraser of class numbers `labels` (rows,) from rows (rows, width)."""
    if len(array) != len(labels) or not len(array):
        raise AnalysisError(f"{len(labels)} labels for {len(array)} rows", fix="give one label per row")
    mean = sum(block.sum(0) for _, block in _blocks(array)) / len(array)
    width = array.shape[1]
    covariance = torch.zeros(width, width, dtype=torch.float64)
    crossed = torch.zeros(width, classes, dtype=torch.float64)
    numbers = torch.from_numpy(np.asarray(labels, dtype=np.int64))
    for span, block in _blocks(array):
        centred = block - mean
        covariance += centred.T @ centred
        crossed.index_add_(1, numbers[span], centred.T)
    values, axes = torch.linalg.eigh(covariance / len(array))
    there = values > values[-1] * width * torch.finfo(torch.float32).eps ** 2
    spread, axes = values[there].sqrt(), axes[:, there]
    shares = torch.bincount(numbers, minlength=classes).double() / len(array)
    crossed /= (shares * (1 - shares)).sqrt().clamp(min=1 / len(array)) * len(array)
    basis, sizes, _ = torch.linalg.svd((axes / spread).T @ crossed, full_matrices=False)
    basis = basis[:, sizes > SMALLEST]
    return Eraser((axes * spread) @ basis, ((axes / spread) @ basis).T, mean)


def random_eraser(like: Eraser, seed: int) -> Eraser:
    """As many directions as `like` takes away, drawn at random and orthogonal; the mean stays as there."""
    drawn = torch.randn(*like.left.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    basis, _ = torch.linalg.qr(drawn)
    return Eraser(basis, basis.T, like.mean)


@dataclass(frozen=True)
class Variant:
    """A layer of which something is erased, and what its rows are called; an eraser of None erases nothing."""

    subset: str
    eraser: Eraser | None = None
    draw: int | None = None

    @property
    def where(self) -> dict[str, Any]:
        """The columns of its rows."""
        return {"subset": self.subset, **({} if self.draw is None else {"probe_seed": self.draw})}

    def rows(self, array: np.ndarray) -> np.ndarray:
        """Rows of the layer as this variant has them."""
        return array if self.eraser is None else self.eraser.rows(array)

    def change(self, array: np.ndarray) -> float:
        """How far its rows are from those of the layer."""
        return 0.0 if self.eraser is None else self.eraser.change(array)


def variants(found: Eraser, draws: int, seed: int) -> Iterator[Variant]:
    """The layer itself, the erased one, and those that lose random directions."""
    yield Variant("none")
    yield Variant("erased", found)
    for draw in range(draws):
        yield Variant("random", random_eraser(found, seed + draw), draw)


def _blocks(array: np.ndarray) -> Iterator[tuple[slice, Tensor]]:
    for span in row_blocks(len(array), BLOCK):
        yield span, torch.from_numpy(np.array(array[span], dtype=np.float64))
