"""How well predicted distances and depths meet dependency trees, sentence by sentence.

Hewitt & Manning 2019: DSpr is the rank correlation of every word's distances to the words of its
sentence, UUAS the share of gold edges in the minimum spanning tree of predicted distances, NSpr
the rank correlation of a sentence's depths, and the root is the word of least predicted depth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestige.measures.trees import adjacency, mean_over_lengths, spanning_trees, spearman


@dataclass(frozen=True)
class DistanceScores:
    """Of P probes on S sentences of one length n, with their words that are no punctuation."""

    with_self: np.ndarray
    """(P, S, n): rank correlation per word, its distance 0 to itself among the values, as the papers have it."""
    without_self: np.ndarray
    """(P, S, n): the same without it; NaN for a word that is equally far from all others."""
    gold_parents: np.ndarray
    """(S, n): per word the other end of its gold edge; -1 where it has none of its own."""
    found: np.ndarray
    """(P, S, n): whether the word's gold edge was predicted."""
    parents: np.ndarray
    """(P, S, n): the predicted edges, like `gold_parents`."""


@dataclass(frozen=True)
class DepthScores:
    """Of P probes on S sentences of one length."""

    correlation: np.ndarray
    """(P, S); NaN for sentences of one word."""
    root: np.ndarray
    """(P, S): the word taken for the root."""
    root_right: np.ndarray
    """(P, S)."""


def score_distances(predicted: np.ndarray, gold: np.ndarray, words: np.ndarray) -> DistanceScores:
    """predicted (P, S, n, n), gold (S, n, n), words (S, n): which are no punctuation.

    Gold edges are those of the spanning tree of gold distances among these words: where
    punctuation has dependents, they are joined by what remains.
    """
    probes, sentences, n, _ = predicted.shape
    mine = spanning_trees(predicted.reshape(-1, n, n), np.broadcast_to(words, (probes, sentences, n)).reshape(-1, n))
    theirs = spanning_trees(gold, words)
    joined = adjacency(mine).reshape(probes, sentences, n, n)
    other = np.broadcast_to(theirs.clip(min=0)[None, :, :, None], (probes, sentences, n, 1))
    found = np.take_along_axis(joined, other, axis=-1)[..., 0] & (theirs >= 0)
    away = ~np.eye(n, dtype=bool)
    without = (values[..., away].reshape(*values.shape[:-2], n, max(n - 1, 0)) for values in (predicted, gold))
    return DistanceScores(
        spearman(predicted, gold),
        spearman(*without) if n > 1 else np.full((probes, sentences, n), np.nan),
        theirs,
        found,
        mine.reshape(probes, sentences, n),
    )


def score_depths(predicted: np.ndarray, gold: np.ndarray, words: np.ndarray) -> DepthScores:
    """predicted (P, S, n), gold (S, n), words (S, n): which are no punctuation (if none is, all may be the root)."""
    may = words | ~words.any(-1, keepdims=True)
    root = np.where(may, predicted, np.inf).argmin(-1)
    return DepthScores(spearman(predicted, gold), root, root == gold.argmin(-1))


class Averages:
    """Gathers correlations of many lengths and averages them as the papers do: per length, then over lengths."""

    def __init__(self) -> None:
        self._values: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []

    def add(self, values: np.ndarray, length: int) -> None:
        """(P, ...) correlations of sentences of one length."""
        flat = values.reshape(len(values), -1)
        self._values.append(flat)
        self._lengths.append(np.full(flat.shape[1], length))

    def mean(self) -> np.ndarray:
        """(P,); NaN if no sentence has a length from 5 to 50."""
        return mean_over_lengths(np.concatenate(self._values, axis=1), np.concatenate(self._lengths))


def words_of(tags: Sequence[str], punctuation: frozenset[str]) -> np.ndarray:
    """Which words have a tag that is not among those of punctuation."""
    return np.array([tag not in punctuation for tag in tags], dtype=bool)
