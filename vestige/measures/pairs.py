"""Correlations over all pairs of items where no shortcut exists: distances, and ranks.

Kernels are made block by block, so memory does not grow with the square of the items; time does.
Sums are kept apart for every two groups of items, so that the correlation without one group follows
by subtraction.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy

from vestige.measures.vectors import UndefinedSimilarityError, Vectors

Kernel = Literal["cosine", "centred_cosine", "euclidean"]

BLOCK_ITEMS = 1024
"""A block of pairs is this many items by this many (8 MB)."""

SORTED_PAIRS = 12_500_000
"""As many pairs are ranked by sorting (5000 items; 0.6 GB); more are ranked by counting."""

TIED = 10
"""Digits, of the largest value, in which kernels must differ to be ranked apart."""

FLAT = 1e-13
"""Similarities that vary by a smaller share of their mean square do not vary: sums are subtracted from each other."""
ROUNDING = 1e-14
"""Share of the squared lengths up to which a squared distance is none."""

BINS = 2**22
"""Ranks by counting take values within the range of the kernel in so many equal steps for ties."""


class Block(NamedTuple):
    """The pairs of some items with some others, each pair once: their groups and both kernels."""

    group: int
    other: int
    x: np.ndarray
    y: np.ndarray


def correlate_pairs(
    x: Vectors, y: Vectors, euclidean: bool, ranks: bool, groups: Sequence[np.ndarray]
) -> tuple[float, np.ndarray]:
    """The correlation over all pairs, and (groups,) without each group of items.

    Ranks are those among all pairs, with and without a group.
    """

    def blocks() -> Iterator[Block]:
        return _blocks(x, y, euclidean, groups)

    if ranks:
        few = len(x) * (len(x) - 1) // 2 <= SORTED_PAIRS
        found = _ranked_by_sorting(blocks) if few else _ranked_by_counting(blocks, x, y, euclidean)
    else:
        found = blocks()
    sums = np.zeros((6, len(groups), len(groups)))
    for group, other, a, b in found:
        sums[:, group, other] += len(a), a.sum(), b.sum(), a @ a, b @ b, a @ b
    total = sums.sum((1, 2))
    alone = np.diagonal(sums, axis1=1, axis2=2)
    without = total[:, None] - sums.sum(1) - sums.sum(2) + alone
    with np.errstate(invalid="ignore", divide="ignore"):
        return _correlation(total, x.name, y.name), _ratio(without, total)


def _correlation(sums: np.ndarray, *names: str) -> float:
    for name, spread in zip(names, _spreads(sums, sums), strict=True):
        if np.isnan(spread):
            raise UndefinedSimilarityError(
                f"{name}: all pairs of its items are equally similar, so nothing can be correlated with them",
                fix="leave this layer out, or give more items",
            )
    return float(_ratio(sums, sums))


def _spreads(sums: np.ndarray, whole: np.ndarray) -> Iterator[np.ndarray]:
    """Variances of either side; NaN where they are no more than the rounding of the sums over all pairs."""
    for mean, square, everything in zip(sums[1:3], sums[3:5], whole[3:5], strict=True):
        spread = square / sums[0] - (mean / sums[0]) ** 2
        yield np.where(spread > FLAT * everything / whole[0], spread, np.nan)


def _ratio(sums: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The correlation; NaN where a side does not vary."""
    count, a, b, _, _, ab = sums
    first, second = _spreads(sums, whole)
    found: np.ndarray = (ab / count - a / count * (b / count)) / np.sqrt(first * second)
    return found


def _blocks(x: Vectors, y: Vectors, euclidean: bool, groups: Sequence[np.ndarray]) -> Iterator[Block]:
    parts = [
        (number, items[start : start + BLOCK_ITEMS])
        for number, items in enumerate(groups)
        for start in range(0, len(items), BLOCK_ITEMS)
    ]
    for place, (group, items) in enumerate(parts):
        for other, others in parts[place:]:
            first = _kernel(x, items, others, euclidean)
            second = _kernel(y, items, others, euclidean)
            if others is items:
                once = np.triu_indices(len(items), 1)
                yield Block(group, other, first[once], second[once])
            else:
                yield Block(group, other, first.ravel(), second.ravel())


def _kernel(vectors: Vectors, items: np.ndarray, others: np.ndarray, euclidean: bool) -> np.ndarray:
    a, b = vectors.block(items), vectors.block(others)
    products = a @ b.T
    if not euclidean:
        return products
    lengths = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)
    squares = lengths - 2 * products
    return np.sqrt(np.where(squares > ROUNDING * lengths, squares, 0.0))


def _ranked_by_sorting(blocks: Callable[[], Iterator[Block]]) -> Iterator[Block]:
    kept = list(blocks())
    first, second = (_ranks(np.concatenate([getattr(block, side) for block in kept])) for side in ("x", "y"))
    start = 0
    for block in kept:
        end = start + len(block.x)
        yield Block(block.group, block.other, first[start:end], second[start:end])
        start = end


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, values that differ by no more than rounding being tied."""
    return scipy.stats.rankdata(np.round(values, TIED - int(np.ceil(np.log10(np.abs(values).max() or 1.0)))))


def _ranked_by_counting(
    blocks: Callable[[], Iterator[Block]], x: Vectors, y: Vectors, euclidean: bool
) -> Iterator[Block]:
    ranges = [(0.0, 2 * _radius(vectors)) if euclidean else (-1.0, 1.0) for vectors in (x, y)]
    counts = np.zeros((2, BINS), dtype=np.int64)
    for block in blocks():
        for side, values in enumerate((block.x, block.y)):
            counts[side] += np.bincount(_bins(values, *ranges[side]), minlength=BINS)
    ranks = np.cumsum(counts, axis=1) - (counts - 1) / 2
    for block in blocks():
        first, second = (ranks[side][_bins(values, *ranges[side])] for side, values in enumerate((block.x, block.y)))
        yield Block(block.group, block.other, first, second)


def _bins(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.clip((values - low) * (BINS / (high - low)), 0, BINS - 1).astype(np.int64)


def _radius(vectors: Vectors) -> float:
    return max(float(np.linalg.norm(vectors.block(items), axis=1).max()) for items in vectors.chunks())
