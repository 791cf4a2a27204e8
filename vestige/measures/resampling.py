"""Intervals by drawing sentences anew: of means, and of ratios of sums."""

import numpy as np

_CHUNK = 250


def bootstrap_interval(
    sums: np.ndarray, weights: np.ndarray | None = None, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval (columns,), (columns,) of sum(sums) / sum(weights) over drawn units.

    `sums` (units, columns), `weights` (units,), ones if not given: the statistic is then the mean.
    All columns see the same draws.
    """
    units = len(sums)
    weights = np.ones(units) if weights is None else np.asarray(weights, dtype=np.float64)
    rng = np.random.default_rng(seed)
    drawn = []
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        picks = rng.integers(0, units, size=(size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(picks.ravel(), minlength=size * units).reshape(size, units).astype(np.float64)
        drawn.append((counts @ sums) / (counts @ weights)[:, None])
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(drawn), [tail, 1 - tail], axis=0)
    return low, high
