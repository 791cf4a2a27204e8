"""How sure a similarity is, over sentences, at little more than the cost of the value.

Sentences are dealt at random into some twenty groups, and a measure is computed again without each
of them, from sums from which the group's are subtracted (the delete-a-group jackknife, Kott 2001).
Sentences, not words, are the unit: words of one sentence are not independent. And no item is ever
drawn twice, as a bootstrap would: copies of an item are pairs of equal vectors, which every measure
of pairs counts as agreement.

What the interval is about is the mean of the measure over corpora of this size. Words of one sentence
are alike in both models, so similarities are higher the fewer the sentences that the words are from:
corpora to be compared are to be sampled alike, with as many words of as many sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from vestige.errors import AnalysisError
from vestige.measures.student import Student

GROUPS = 20
LEAST_GROUPS = 5
"""Fewer sentences have no interval."""
LEAST_ITEMS = 4
"""Fewer items have no debiased similarity, and too few pairs to correlate."""


@dataclass(frozen=True)
class Estimate:
    """One measure of one pair of layers; what it would be without each group of sentences."""

    value: float
    without: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(groups,); empty where there were no sentences to leave out."""
    undefined: str = ""
    """Why there is no value, where there is none."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """By Student's distribution on Fisher's z scale, where values near 1 are not squeezed."""
        if len(self.without) < LEAST_GROUPS:
            return np.nan, np.nan
        z, others = _fisher(self.value), _fisher(self.without)
        reach = scipy.stats.t.ppf(0.5 + confidence / 2, len(others) - 1) * jackknife_error(others)
        return float(np.tanh(z - reach)), float(np.tanh(z + reach))


def mean_difference(ones: Sequence[Estimate], others: Sequence[Estimate]) -> Student:
    """The difference of one measure on two corpora that share no sentence (Welch's t over their jackknifes).

    It is the mean over runs of fine-tuning, which all read the same sentences of a corpus. With several runs there is
    a third source of error beside the sentences of either corpus: how far the runs differ.
    """
    if min(len(estimate.without) for estimate in (*ones, *others)) < LEAST_GROUPS:
        raise AnalysisError(
            "a difference between corpora needs what was found without each group of sentences",
            fix=f"give the sentence of every item, at least {LEAST_GROUPS} sentences a corpus",
        )
    without = [np.mean([estimate.without for estimate in side], axis=0) for side in (ones, others)]
    errors, freedom = [jackknife_error(mine) for mine in without], [len(mine) - 1 for mine in without]
    by_run = np.array([one.value - other.value for one, other in zip(ones, others, strict=True)])
    if len(by_run) > 1:
        errors.append(float(by_run.std(ddof=1)) / len(by_run) ** 0.5)
        freedom.append(len(by_run) - 1)
    return Student.of(by_run.mean(), errors, freedom)


def deal(sentences: np.ndarray, groups: int = GROUPS, seed: int = 0) -> list[np.ndarray]:
    """Item numbers of every group; a sentence is in one group only. One group where sentences are few."""
    names, number = np.unique(sentences, return_inverse=True)
    count = min(groups, len(names))
    places = np.random.default_rng(seed).permutation(len(names)) % max(count, 1)
    dealt = [np.flatnonzero(places[number] == group) for group in range(count)]
    if count < LEAST_GROUPS or len(sentences) - max(map(len, dealt)) < LEAST_ITEMS:
        return [np.arange(len(sentences))]
    return dealt


def jackknife_error(without: np.ndarray) -> np.ndarray:
    """Standard error from estimates (..., groups) that each leave one group out."""
    count = without.shape[-1]
    away = without - without.mean(-1, keepdims=True)
    return np.sqrt((count - 1) / count * (away**2).sum(-1))


def _fisher(values: float | np.ndarray) -> np.ndarray:
    return np.arctanh(np.clip(values, -1 + 1e-15, 1 - 1e-15))
