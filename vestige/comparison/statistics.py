"""Intervals and tests over sentences, for many places at once.

A score is a ratio of sums over sentences: right words over words, twice the hits over predicted and gold labels. Where
sentences are in strata (lengths, say), it is the mean over strata of the ratio in each. Resampling sentences is a
product of a matrix of counts with the sums, so that all places are resampled together (and alike) at the cost of one.
SciPy's `bootstrap` and `permutation_test` are the oracles of the tests.
"""

import numpy as np

from vestige.measures.resampling import chunks, drawn_counts

_CHUNK = 1000


def bootstrap(
    sums: np.ndarray, units: np.ndarray, resamples: int, seed: int, strata: np.ndarray | None = None
) -> np.ndarray:
    """(resamples, columns): the score on sentences drawn anew, alike in all columns.

    `sums` (sentences, columns), `units` (sentences,) or as the sums, `strata` (sentences,). A single sentence says
    nothing of others: NaN.
    """
    if len(sums) < 2:
        return np.full((resamples, sums.shape[1]), np.nan)
    rng = np.random.default_rng(seed)
    units = units[:, None] if units.ndim == 1 else units
    counts = (drawn_counts(rng, size, len(sums)) for size in chunks(resamples, _CHUNK))
    return np.concatenate([_scores(drawn, sums, units, strata) for drawn in counts])


def _scores(counts: np.ndarray, sums: np.ndarray, units: np.ndarray, strata: np.ndarray | None) -> np.ndarray:
    """(resamples, columns): the score of drawn sentences; a stratum of which none was drawn does not count."""
    groups = [slice(None)] if strata is None else [strata == name for name in np.unique(strata)]
    total, seen = np.zeros((len(counts), sums.shape[1])), np.zeros((len(counts), 1))
    for mine in groups:
        size = counts[:, mine] @ units[mine]
        total += np.divide(counts[:, mine] @ sums[mine], size, out=np.zeros_like(total), where=size > 0)
        seen += (size > 0).any(1, keepdims=True)
    return total / seen


def exchange_p(before: np.ndarray, after: np.ndarray, units: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(places,): how often exchanging base and tuned of whole sentences gives as large a difference of scores.

    `before` and `after` (sentences, places) are sums, `units` (2, sentences, places) the denominators of both.
    """
    rng = np.random.default_rng(seed)
    middle, half = (before + after).sum(0) / 2, (after - before) / 2
    middle_units, half_units = units.sum((0, 1)) / 2, (units[1] - units[0]) / 2
    same = not half_units.any()

    def difference(moved: np.ndarray, moved_units: np.ndarray) -> np.ndarray:
        up, down = middle_units + moved_units, middle_units - moved_units
        return np.abs((middle + moved) / np.where(up, up, 1) - (middle - moved) / np.where(down, down, 1))

    observed = difference(half.sum(0), half_units.sum(0))
    slack = 1e-9 * np.maximum(1.0, 2 * np.abs(half).sum(0)) / np.where(middle_units, middle_units, 1)
    extreme = np.zeros(before.shape[1])
    for size in chunks(resamples, _CHUNK):
        signs = rng.integers(0, 2, size=(size, len(before)), dtype=np.int8).astype(np.float64) * 2 - 1
        found = difference(signs @ half, np.zeros(1) if same else signs @ half_units)
        extreme += (found >= observed - slack).sum(0)
    return (extreme + 1) / (resamples + 1)


def equivalence_p(distribution: np.ndarray, margin: float) -> np.ndarray:
    """Two one-sided tests: p-value (places,) of the claim that the difference lies within +-margin; 1 of NaN."""
    count = len(distribution)
    above = (count - (distribution < margin).sum(0) + 1) / (count + 1)
    below = (count - (distribution > -margin).sum(0) + 1) / (count + 1)
    return np.maximum(above, below)
