"""Intervals and tests over sentences, for many layers at once.

The statistic is always a share of words: the sum of per-sentence differences divided by the sum
of words. Resampling sentences is a product of a matrix of counts with the differences, so that
all layers are resampled together (and alike) at the price of one. SciPy's `bootstrap` and
`permutation_test` are the oracles of the tests.
"""

from collections.abc import Iterator

import numpy as np

_CHUNK = 1000


def bootstrap(differences: np.ndarray, words: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(resamples, layers): the statistic on resampled sentences, and runs where there are several.

    `differences` (runs, sentences, layers), `words` (sentences,). With one run this is the
    ordinary paired bootstrap; with several, runs and sentences are drawn jointly, as in the
    multi-bootstrap of Sellam et al. 2022.
    """
    runs, sentences, layers = differences.shape
    rng = np.random.default_rng(seed)
    flat = differences.transpose(1, 0, 2).reshape(sentences, runs * layers)
    found = []
    for size in _chunks(resamples):
        counts = _counts(rng, size, sentences)
        sums = (counts @ flat).reshape(size, runs, layers)
        if runs > 1:
            weights = _counts(rng, size, runs) / runs
            statistic = np.einsum("br,brl->bl", weights, sums)
        else:
            statistic = sums[:, 0]
        found.append(statistic / (counts @ words)[:, None])
    return np.concatenate(found)


def interval(distribution: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of a bootstrap distribution (resamples, layers)."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(distribution, [tail, 1 - tail], axis=0)
    return low, high


def sign_flip_p(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Two-sided p-values (layers,) of the hypothesis that a sentence's difference may have either sign.

    `differences` (sentences, layers). Signs are flipped for whole sentences, alike in all layers.
    """
    sentences, layers = differences.shape
    rng = np.random.default_rng(seed)
    observed = np.abs(differences.sum(0))
    slack = 1e-9 * np.maximum(1.0, np.abs(differences).sum(0))
    extreme = np.zeros(layers)
    for size in _chunks(resamples):
        signs = rng.integers(0, 2, size=(size, sentences), dtype=np.int8).astype(np.float64) * 2 - 1
        extreme += (np.abs(signs @ differences) >= observed - slack).sum(0)
    return (extreme + 1) / (resamples + 1)


def equivalence_p(distribution: np.ndarray, margin: float) -> np.ndarray:
    """Two one-sided tests: p-value (layers,) of the claim that the difference lies within +-margin."""
    count = len(distribution)
    above = ((distribution >= margin).sum(0) + 1) / (count + 1)
    below = ((distribution <= -margin).sum(0) + 1) / (count + 1)
    return np.maximum(above, below)


def _counts(rng: np.random.Generator, size: int, units: int) -> np.ndarray:
    """(size, units): how often each unit was drawn in `units` draws with replacement."""
    draws = rng.integers(0, units, size=(size, units))
    draws += units * np.arange(size)[:, None]
    return np.bincount(draws.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)


def _chunks(total: int) -> Iterator[int]:
    for start in range(0, total, _CHUNK):
        yield min(_CHUNK, total - start)
