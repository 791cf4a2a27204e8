"""Sums over items from which whole families of similarities follow, in time linear in the items.

The kernel of two items is the product of their vectors, k_ij = x_i.x_j and l_ij = y_i.y_j. The sum of
k_ij l_ij over all pairs is the squared Frobenius norm of X'Y, so no matrix of items by items is ever
made. Everything is summed in float64, and items paired with themselves are taken out: where all
cosines are near 1, sums in float32 would be wrong in the second decimal.

Moments of disjoint sets of items add up, and a set is taken out by subtraction.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from vestige.measures.vectors import Prepare, Vectors

T = TypeVar("T")


@dataclass(frozen=True)
class Moments:
    """Sums over items i of two lists of vectors x_i and y_i."""

    items: int
    x: np.ndarray
    """Sum of x_i."""
    y: np.ndarray
    xy: np.ndarray
    """(x units, y units): sum of x_i y_i'."""
    k_self: float
    """Sum of k_ii."""
    l_self: float
    """Sum of l_ii."""
    joint_self: float
    """Sum of k_ii l_ii."""
    x_by_l: np.ndarray
    """Sum of x_i l_ii."""
    y_by_k: np.ndarray
    """Sum of y_i k_ii."""

    @classmethod
    def of(cls, x: Vectors, y: Vectors, items: np.ndarray | None = None) -> "Moments":
        """Of all items, or of those given."""
        total = None
        for chunk in x.chunks(items):
            a = x.block(chunk)
            b = a if y is x else y.block(chunk)
            if np.array_equal(a[0], b[0]) and np.array_equal(a, b):
                b = a  # equal vectors have equal sums, to the last bit
            part = _of_block(a, b)
            total = part if total is None else total + part
        assert total is not None, "no items"
        return total

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: "Moments") -> "Moments":
        return Moments(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    @property
    def covariance(self) -> np.ndarray:
        """(x units, y units): sum of (x_i - mean)(y_i - mean)'."""
        return self.xy - np.outer(self.x, self.y) / self.items

    @property
    def joint(self) -> float:
        """Sum of k_ij l_ij over pairs i != j, each counted twice."""
        return float(np.vdot(self.xy, self.xy) - self.joint_self)

    @property
    def kernel_x(self) -> float:
        """Sum of k_ij over pairs i != j, each counted twice."""
        return float(self.x @ self.x - self.k_self)

    @property
    def kernel_y(self) -> float:
        """Sum of l_ij over pairs i != j, each counted twice."""
        return float(self.y @ self.y - self.l_self)

    @property
    def chained(self) -> float:
        """Sum of k_ij l_iq over i != j and i != q."""
        return float(self.x @ self.xy @ self.y - self.x @ self.x_by_l - self.y @ self.y_by_k + self.joint_self)


def _of_block(x: np.ndarray, y: np.ndarray) -> Moments:
    same = y is x
    k_ii, x_sum = np.einsum("ij,ij->i", x, x), x.sum(0)
    l_ii, y_sum = (k_ii, x_sum) if same else (np.einsum("ij,ij->i", y, y), y.sum(0))
    x_by_l = l_ii @ x
    y_by_k = x_by_l if same else k_ii @ y
    return Moments(len(x), x_sum, y_sum, x.T @ y, k_ii.sum(), l_ii.sum(), k_ii @ l_ii, x_by_l, y_by_k)


@dataclass(frozen=True)
class Measure(Generic[T]):
    """A similarity that follows from moments: what is found for each layer once, and then for each pair."""

    prepare: Prepare
    own: Callable[[Moments, str], T]
    """From the moments of vectors with themselves, and their name."""
    between: Callable[[Moments, T, T], float]

    def __call__(self, x: Vectors, y: Vectors) -> float:
        x, y = x.prepared(self.prepare).resident(), y.prepared(self.prepare).resident()
        owns = self.own(Moments.of(x, x), x.name), self.own(Moments.of(y, y), y.name)
        return self.between(Moments.of(x, y), *owns)
