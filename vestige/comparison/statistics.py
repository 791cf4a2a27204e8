"""Intervals and tests over sentences, for many layers at once.

The statistic is a share of words: the sum of per-sentence differences divided by the sum of
words. Where sentences are in strata (lengths, say), it is the mean over strata of the share in
each. Resampling sentences is a product of a matrix of counts with the differences, so that all
layers are resampled together (and alike) at the price of one. SciPy's `bootstrap` and
`permutation_test` are the oracles of the tests.
"""

import numpy as np

from vestige.measures.resampling import chunks, drawn_counts

_CHUNK = 1000


def bootstrap(
    sums: np.ndarray, words: np.ndarray, resamples: int, seed: int, strata: np.ndarray | None = None
) -> np.ndarray:
    """(resamples, columns): the statistic on sentences drawn anew, alike in all columns.

    `sums` (sentences, columns), `words` and `strata` (sentences,). A single sentence says nothing of others: NaN.
    """
    if len(sums) < 2:
        return np.full((resamples, sums.shape[1]), np.nan)
    rng = np.random.default_rng(seed)
    counts = (drawn_counts(rng, size, len(sums)) for size in chunks(resamples, _CHUNK))
    return np.concatenate([_shares(drawn, sums, words, strata) for drawn in counts])


def _shares(counts: np.ndarray, sums: np.ndarray, words: np.ndarray, strata: np.ndarray | None) -> np.ndarray:
    """(resamples, columns): the statistic of drawn sentences; a stratum of which none was drawn does not count."""
    if strata is None:
        return (counts @ sums) / (counts @ words)[:, None]
    total, seen = np.zeros((len(counts), sums.shape[1])), np.zeros((len(counts), 1))
    for name in np.unique(strata):
        mine = strata == name
        size = (counts[:, mine] @ words[mine])[:, None]
        total += np.divide(counts[:, mine] @ sums[mine], size, out=np.zeros_like(total), where=size > 0)
        seen += size > 0
    return total / seen


def sign_flip_p(differences: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Two-sided p-values (layers,) of the hypothesis that a sentence's difference may have either sign.

    `differences` (sentences, layers). Signs are flipped for whole sentences, alike in all layers.
    """
    sentences, layers = differences.shape
    rng = np.random.default_rng(seed)
    observed = np.abs(differences.sum(0))
    slack = 1e-9 * np.maximum(1.0, np.abs(differences).sum(0))
    extreme = np.zeros(layers)
    for size in chunks(resamples, _CHUNK):
        signs = rng.integers(0, 2, size=(size, sentences), dtype=np.int8).astype(np.float64) * 2 - 1
        extreme += (np.abs(signs @ differences) >= observed - slack).sum(0)
    return (extreme + 1) / (resamples + 1)


def equivalence_p(distribution: np.ndarray, margin: float) -> np.ndarray:
    """Two one-sided tests: p-value (layers,) of the claim that the difference lies within +-margin; 1 of NaN."""
    count = len(distribution)
    above = (count - (distribution < margin).sum(0) + 1) / (count + 1)
    below = (count - (distribution > -margin).sum(0) + 1) / (count + 1)
    return np.maximum(above, below)
