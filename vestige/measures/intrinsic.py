"""The intrinsic dimension of a cloud of vectors by two nearest neighbours (TwoNN, Facco et al. 2017).

Where vectors lie evenly in d dimensions, as far as their second neighbours, the ratio m of the distances to the second
and the first neighbour has the distribution P(m <= x) = 1 - x^-d, whatever the density. The recipe of the paper:
sort the n ratios, discard the tenth of them that is largest (they are those of sparse places, where vectors do not
lie evenly), and fit -log(1 - i/n) = d log m_i by a line through the origin.

Copies break it: a word before the first block has the vector of every other occurrence (in its position), and ratios
of such distances are those of rounding. Vectors that are the same but for rounding, or much closer (`NEAR`)
than neighbours usually are, count as one point.

A point that is left out changes the neighbours of others, so that intervals by the delete-a-group jackknife are wide:
on Gaussian clouds of 2 to 15 dimensions its error is 1.2 to 1.7 times the true one. The dimension falls with the
number of points, where it is high; base and tuned have the same words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

NEAR = 0.02
"""Vectors closer than this share of the distance that nine tenths have their first neighbour within count as one.

Of MiniLM's embeddings a third are copies; the others are at least seven times as far apart, and copies with 1 % noise
half as far. Vectors on a line lose 5 % of their points by this rule, on a plane one in a thousand."""
ROUNDING = 1e-5
"""Vectors closer than this share of the usual distance of any two are one but for rounding."""
DISCARDED = 0.1
"""Share of the ratios, the largest, that the fit leaves out (Facco et al. 2017)."""
LEAST_POINTS = 20
"""Fewer points have no dimension."""
_SPARE = 10
"""Neighbours that are kept at hand, to step in for those of a group that is left out."""
_BLOCK = 512
"""Points whose distances to all others are held at a time."""


@dataclass(frozen=True)
class Dimension:
    """The intrinsic dimension of some vectors."""

    values: np.ndarray
    """(1 + groups,): of all points, then without each group; empty where there are too few, or on a grid."""
    points: int
    """How many different vectors there are."""


def intrinsic_dimension(vectors: np.ndarray, groups: Sequence[np.ndarray] = ()) -> Dimension:
    """TwoNN of vectors (items, units), and what it would be without the items of each group.

    Left out, items are nobody's neighbours. Time grows with the square of the items.
    """
    member = np.full(len(vectors), -1)
    for number, items in enumerate(groups):
        member[items] = number
    points = np.asarray(vectors, dtype=np.float64)
    points = points - points.mean(0)
    typical = np.sqrt(2 * np.einsum("ij,ij->", points, points) / max(len(points), 1))
    nearest = _Nearest(points)
    for rule in (lambda first: ROUNDING * typical, lambda first: NEAR * np.quantile(first, 0.9)):
        kept = _distinct(nearest, rule(nearest.distances[:, 0])) if nearest.able else np.arange(len(points))
        if len(kept) < len(points):
            points, member = points[kept], member[kept]
            nearest = _Nearest(points)
    largest = np.bincount(member, minlength=len(groups)).max() if groups else 0
    if len(points) - largest < LEAST_POINTS:
        return Dimension(np.empty(0), len(points))
    found = [nearest.first(), *(nearest.without(member == group) for group in range(len(groups)))]
    values = np.array([two_nn(*pair) for pair in found])
    return Dimension(values if np.isfinite(values).all() else np.empty(0), len(points))


def two_nn(first: np.ndarray, second: np.ndarray) -> float:
    """The dimension from distances (points,) to the first and the second neighbour; of a grid there is none."""
    ratios = np.sort(np.log(second / first))
    count = len(ratios)
    kept = int(count * (1.0 - DISCARDED))
    height = -np.log1p(-np.arange(1, kept + 1) / count)
    x = ratios[:kept]
    return float(x @ height / (x @ x)) if x.any() else np.nan


def _distinct(nearest: "_Nearest", reach: float) -> np.ndarray:
    """Numbers of the points that have no earlier one within reach."""
    everyone = np.arange(len(nearest.points))
    close = np.flatnonzero(nearest.distances[:, 0] <= reach)
    if not len(close):
        return everyone
    earliest = [
        np.where(squares <= reach**2, np.arange(len(close)), len(close)).min(1)
        for squares in _squared_distances(nearest.points[close])
    ]
    return np.delete(everyone, close[np.concatenate(earliest) < np.arange(len(close))])


def _squared_distances(points: np.ndarray) -> Iterator[np.ndarray]:
    """Those of some points to all, some after the other; to itself a point has inf.

    They come from products, and have half the digits where points are close.
    """
    squares = np.einsum("ij,ij->i", points, points)
    for start in range(0, len(points), _BLOCK):
        block = slice(start, start + _BLOCK)
        found = points[block] @ points.T
        found *= -2
        found += squares
        found += squares[block, None]
        rows = np.arange(len(found))
        found[rows, start + rows] = np.inf
        yield found


class _Nearest:
    """Distances of every point to its nearest others."""

    def __init__(self, points: np.ndarray) -> None:
        self.points, self.able = points, len(points) > 1
        if not self.able:
            return
        count = min(2 + _SPARE, len(points) - 1)
        nearest = (np.argpartition(squares, count - 1)[:, :count] for squares in _squared_distances(points))
        near = np.concatenate(list(nearest))
        exact = np.empty(near.shape)
        for column, others in enumerate(near.T):  # not by products: of close vectors those lose half their digits
            exact[:, column] = np.linalg.norm(points - points[others], axis=1)
        order = np.argsort(exact, axis=1, kind="stable")
        self.near, self.distances = np.take_along_axis(near, order, 1), np.take_along_axis(exact, order, 1)

    def first(self) -> tuple[np.ndarray, np.ndarray]:
        """To the first and the second neighbour."""
        return self.distances[:, 0], self.distances[:, 1]

    def without(self, left_out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of the points that are not marked, among themselves."""
        asked = np.flatnonzero(~left_out)
        gone = left_out[self.near[asked]]
        places = np.argsort(gone, axis=1, kind="stable")[:, :2]
        two = np.take_along_axis(self.distances[asked], places, 1)
        short = np.flatnonzero((~gone).sum(1) < 2)
        if len(short):
            others = scipy.spatial.distance.cdist(self.points[asked[short]], self.points[asked])
            others[np.arange(len(short)), short] = np.inf
            two[short] = np.sort(others, axis=1)[:, :2]
        return two[:, 0], two[:, 1]
