"""Dependency trees as arrays: distances, depths, spanning trees, and how well predictions meet them.

Heads are a number per word, counted from 1; the root has 0. Everything takes a batch of trees of
one length, so that a thousand sentences are a handful of array operations. Hewitt & Manning 2019
say how predictions are scored; merchant2020 section 4 uses the two correlations.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
import scipy

from vestige.errors import CorpusError

LENGTHS = range(5, 51)
"""Sentence lengths over which the papers average correlations."""

PUNCTUATION_TAGS = frozenset({"''", ",", ".", ":", "``", "-LRB-", "-RRB-"})
"""Penn Treebank tags of words that the papers leave out of spanning trees; $ and # are no such tags."""

_NO_PUNCTUATION = frozenset("#%&@*")
"""Characters that Unicode counts as punctuation but that stand for words."""


def tree_problem(heads: Sequence[int] | np.ndarray) -> str | None:
    """Why the heads of a sentence do not make one tree over its words; None if they do."""
    words = len(heads)
    array = np.asarray(heads, dtype=np.int64)
    if words == 0:
        return "no words"
    if array.min() < 0 or array.max() > words:
        return "a head outside the sentence"
    if (roots := int((array == 0).sum())) != 1:
        return "no root" if roots == 0 else "more than one root"
    return "a cycle" if _steps_to_root(array[None]) is None else None


def ancestors(heads: np.ndarray) -> np.ndarray:
    """(..., words, words): whether word j lies on the way from word i to the root, ends included."""
    heads = np.asarray(heads, dtype=np.int64)
    flat = heads.reshape(-1, heads.shape[-1])
    ways = _steps_to_root(flat)
    if ways is None:
        bad = next(problem for row in flat if (problem := tree_problem(row)))
        raise CorpusError(f"heads that make no tree: {bad}", fix="leave such sentences out, or repair their heads")
    trees, words = flat.shape
    found = np.zeros((trees, words, words + 1), dtype=bool)
    tree, word = np.arange(trees)[:, None], np.arange(words)[None]
    for at in ways:
        found[tree, word, at] = True
    return found[:, :, 1:].reshape(*heads.shape, words)


def _steps_to_root(heads: np.ndarray) -> list[np.ndarray] | None:
    """For every step towards the root, where each word has come to (0: beyond the root); None if some never do.

    heads (trees, words).
    """
    trees, words = heads.shape
    if heads.size and (heads.min() < 0 or heads.max() > words or ((heads == 0).sum(-1) != 1).any()):
        return None
    up = np.concatenate([np.zeros((trees, 1), dtype=np.int64), heads], axis=1)
    at = np.broadcast_to(np.arange(1, words + 1), (trees, words))
    steps: list[np.ndarray] = []
    while at.any():
        if len(steps) == words:
            return None
        steps.append(at)
        at = np.take_along_axis(up, at, axis=1)
    return steps


def tree_depths(heads: np.ndarray) -> np.ndarray:
    """(..., words): arcs between every word and the root."""
    return ancestors(heads).sum(-1) - 1


def tree_distances(heads: np.ndarray) -> np.ndarray:
    """(..., words, words): arcs between every two words.

    Two words share the ancestors of their lowest common one, so the count of shared ancestors
    gives its depth.
    """
    above = ancestors(heads).astype(np.float32)
    shared = above @ above.swapaxes(-1, -2)
    own = above.sum(-1)
    return (own[..., :, None] + own[..., None, :] - 2 * shared).astype(np.int64)


def adjacency(parents: np.ndarray) -> np.ndarray:
    """(trees, words, words): whether two words are joined in a spanning tree."""
    trees, words = parents.shape
    found = np.zeros((trees, words, words), dtype=bool)
    tree, word = np.nonzero(parents >= 0)
    found[tree, word, parents[tree, word]] = True
    return found | found.swapaxes(1, 2)


def spanning_trees(distances: np.ndarray, taking_part: np.ndarray | None = None) -> np.ndarray:
    """Minimum spanning trees of distances (trees, words, words); `taking_part` (trees, words) leaves words out.

    (trees, words): the word that each was joined to; -1 for the first word, and for words that take no part.

    Of equal distances the one first in row-major order of the upper triangle is preferred, as
    Kruskal's method does with a stable sort. Prim's method, all trees at once, on the ranks of the
    distances: with no two ranks alike there is but one minimum.
    """
    trees, words, _ = distances.shape
    part = np.ones((trees, words), dtype=bool) if taking_part is None else taking_part
    keys = _edge_order(distances)
    keys[~(part[:, :, None] & part[:, None, :])] = np.iinfo(np.int64).max
    parents = np.full((trees, words), -1, dtype=np.int64)
    if not trees or not words:
        return parents
    everyone = np.arange(trees)
    latest = part.argmax(1)
    outside = part.copy()
    outside[everyone, latest] = False
    nearest, best = np.broadcast_to(latest[:, None], parents.shape).copy(), keys[everyone, latest].copy()
    for _ in range(int(part.sum(1).max()) - 1):
        best[~outside] = np.iinfo(np.int64).max
        latest = best.argmin(1)
        grows = outside[everyone, latest]
        parents[everyone[grows], latest[grows]] = nearest[everyone[grows], latest[grows]]
        outside[everyone, latest] = False
        offered = keys[everyone, latest]
        closer = (offered < best) & outside & grows[:, None]
        best = np.where(closer, offered, best)
        nearest = np.where(closer, latest[:, None], nearest)
    return parents


def _edge_order(distances: np.ndarray) -> np.ndarray:
    """(trees, words, words): the place of every edge in the order of distances, ties row-major; symmetric."""
    trees, words, _ = distances.shape
    rows, columns = np.triu_indices(words, 1)
    upper = distances[:, rows, columns]
    order = np.argsort(upper, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    keys = np.zeros((trees, words, words), dtype=np.int64)
    keys[:, rows, columns] = places
    keys[:, columns, rows] = places
    return keys


def spearman(predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Rank correlation along the last axis, of arrays whose other axes broadcast.

    NaN where all gold values are equal (there is no order to be met), 0 where all predicted ones
    are and gold ones are not.
    """
    ranks = (scipy.stats.rankdata(values, axis=-1) for values in (predicted, gold))
    mine, theirs = (r - r.mean(-1, keepdims=True) for r in ranks)
    sizes = (mine**2).sum(-1), (theirs**2).sum(-1)
    product = (mine * theirs).sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = product / np.sqrt(sizes[0] * sizes[1])
    return np.where(sizes[1] == 0, np.nan, np.where(sizes[0] == 0, 0.0, found))


def mean_over_lengths(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The papers' average: mean per sentence length, then over the lengths that occur; NaN values are left out.

    values (..., items), lengths (items,).
    """
    usual = np.unique(lengths[np.isin(lengths, LENGTHS)])
    means = [_mean_of_known(values[..., lengths == length]) for length in usual]
    return _mean_of_known(np.stack(means, axis=-1)) if means else np.full(values.shape[:-1], np.nan)


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(-1) / known.sum(-1)


def is_punctuation(word: str) -> bool:
    """Whether a word is nothing but punctuation marks; its characters alone decide."""
    return all(c == "`" or (unicodedata.category(c)[0] == "P" and c not in _NO_PUNCTUATION) for c in word)
