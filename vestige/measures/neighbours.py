"""Do two models give a word the same neighbours? A local similarity, blind to the space at large."""

import numpy as np

from vestige.errors import AnalysisError
from vestige.measures.vectors import Array, Vectors, pair_of

NEIGHBOURS = 10

_BLOCK_ITEMS = 512


def neighbour_overlap(x: Array, y: Array, k: int = NEIGHBOURS) -> float:
    """Mean share of an item's k nearest others, by cosine, that x and y have in common.

    (k / (items - 1) is what chance gives.) Time grows with the square of the items, memory does not.
    """
    return float(overlap_of_items(*pair_of(x, y), k).mean())


def overlap_of_items(x: Vectors, y: Vectors, k: int = NEIGHBOURS) -> np.ndarray:
    """(items,) shares of the k nearest others that x and y have in common."""
    if not 0 < k < len(x):
        raise AnalysisError(
            f"neighbour_overlap: {k} neighbours of {len(x)} items are not to be had", fix=f"1 <= k < {len(x)}"
        )
    for vectors in (x, y):
        vectors.must_differ()
    first, second = x.prepared("unit"), y.prepared("unit")
    shares = np.empty(len(x))
    for start in range(0, len(x), _BLOCK_ITEMS):
        items = np.arange(start, min(len(x), start + _BLOCK_ITEMS))
        near, also = _nearest(first, items, k), _nearest(second, items, k)
        shares[items] = (near[:, :, None] == also[:, None, :]).sum((1, 2)) / k
    return shares


def _nearest(vectors: Vectors, items: np.ndarray, k: int) -> np.ndarray:
    """(items, k) numbers of the others that are most alike, in no order."""
    mine = vectors.block(items)
    cosines = np.concatenate([mine @ vectors.block(others).T for others in vectors.chunks()], axis=1)
    cosines[np.arange(len(items)), items] = -np.inf
    return np.argpartition(-cosines, k - 1, axis=1)[:, :k]
