"""Intervals by drawing sentences anew: of means, and of ratios of sums."""

from collections.abc import Iterator

import numpy as np

_CHUNK = 250


def bootstrap_interval(
    sums: np.ndarray, weights: np.ndarray | None = None, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval (columns,), (columns,) of sum(sums) / sum(weights) over drawn units.

    `sums` (units, columns), `weights` (units,), ones if not given: the statistic is then the mean.
    All columns see the same draws; draws without any weight are left out.
    """
    units = len(sums)
    weights = np.ones(units) if weights is None else np.asarray(weights, dtype=np.float64)
    rng = np.random.default_rng(seed)
    drawn = []
    for size in chunks(resamples, _CHUNK):
        counts = drawn_counts(rng, size, units)
        counts = counts[counts @ weights > 0]
        drawn.append((counts @ sums) / (counts @ weights)[:, None])
    return interval(np.concatenate(drawn), confidence)


def interval(distribution: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of a bootstrap distribution (resamples, columns)."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(distribution, [tail, 1 - tail], axis=0)
    return low, high


def drawn_counts(rng: np.random.Generator, size: int, units: int) -> np.ndarray:
    """(size, units): how often each unit was drawn in `units` draws with replacement."""
    draws = rng.integers(0, units, size=(size, units))
    draws += units * np.arange(size)[:, None]
    return np.bincount(draws.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)


def chunks(total: int, most: int) -> Iterator[int]:
    """Sizes of at most `most` that make up a total."""
    for start in range(0, total, most):
        yield min(most, total - start)
