"""Do two models give a word the same neighbours? A local similarity, blind to the space at large."""

from collections.abc import Sequence

import numpy as np

from vestige.errors import AnalysisError
from vestige.measures.vectors import Array, Vectors, pair_of

NEIGHBOURS = 10

_BLOCK_ITEMS = 512
_SPARE = 10
"""Neighbours beyond the k nearest that are kept at hand, to step in for those of a group that is left out."""


def neighbour_overlap(x: Array, y: Array, k: int = NEIGHBOURS) -> float:
    """Mean share of an item's k nearest others, by cosine, that x and y have in common.

    (k / (items - 1) is what chance gives.) Time grows with the square of the items, memory does not.
    """
    first, second = pair_of(x, y)
    return overlap_of_groups(first, second, k, [np.arange(len(first))])[0]


def overlap_of_groups(x: Vectors, y: Vectors, k: int, groups: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
    """The mean share, and (groups,) what it would be without the items of each group.

    Left out, items are neither asked nor anybody's neighbours. NaN where too few are left for k neighbours.
    """
    if not 0 < k < len(x):
        raise AnalysisError(
            f"neighbour_overlap: {k} neighbours of {len(x)} items are not to be had", fix=f"1 <= k < {len(x)}"
        )
    for vectors in (x, y):
        vectors.must_differ()
    first, second = x.prepared("unit"), y.prepared("unit")
    member = np.empty(len(x), dtype=np.intp)
    for number, items in enumerate(groups):
        member[items] = number
    total, sums = 0.0, np.zeros(len(groups))
    for start in range(0, len(x), _BLOCK_ITEMS):
        items = np.arange(start, min(len(x), start + _BLOCK_ITEMS))
        near = [_Nearest(vectors, items, k) for vectors in (first, second)]
        total += _shares(*(one.first() for one in near)).sum()
        for group in range(len(groups)) if len(groups) > 1 else ():
            asked = np.flatnonzero(member[items] != group)
            sums[group] += _shares(*(one.without(asked, member == group) for one in near)).sum()
    left = len(x) - np.bincount(member, minlength=len(groups))
    return total / len(x), np.where(left > k, sums / np.maximum(left, 1), np.nan)


def _shares(near: np.ndarray, also: np.ndarray) -> np.ndarray:
    """(items,): how much two lists of neighbours (items, k) have in common."""
    return (near[:, :, None] == also[:, None, :]).sum((1, 2)) / near.shape[1]


class _Nearest:
    """The others that are most alike to some items, nearest first."""

    def __init__(self, vectors: Vectors, items: np.ndarray, k: int) -> None:
        mine = vectors.block(items)
        self.k = k
        self.cosines = np.concatenate([mine @ vectors.block(others).T for others in vectors.chunks()], axis=1)
        self.cosines[np.arange(len(items)), items] = -np.inf
        self.order = _sorted(self.cosines, min(k + _SPARE, len(vectors) - 1))

    def first(self) -> np.ndarray:
        """(items, k)."""
        return self.order[:, : self.k]

    def without(self, asked: np.ndarray, left_out: np.ndarray) -> np.ndarray:
        """(asked, k): of the items at these places, when the items marked in `left_out` are not there."""
        order = self.order[asked]
        gone = left_out[order]
        found = np.take_along_axis(order, np.argsort(gone, axis=1, kind="stable")[:, : self.k], axis=1)
        short = np.flatnonzero((~gone).sum(1) < self.k)
        if len(short):
            found[short] = _sorted(np.where(left_out, -np.inf, self.cosines[asked[short]]), self.k)
        return found


def _sorted(cosines: np.ndarray, count: int) -> np.ndarray:
    """(rows, count): numbers of the largest values of every row, the largest first."""
    found = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
    order = np.argsort(-np.take_along_axis(cosines, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)
