"""How sure a difference is: its interval, its test, and the sources of error that enter both.

Three things would come out differently if a comparison were made again: which sentences are scored, what
the training of the probes came to (their seeds, on *both* sides), and which checkpoint a fine-tuning run
ends in. Sentences alone are resampled: a bootstrap interval and a test by exchange. Every further source
adds its variance, and interval and test are then Student's, with the degrees of freedom of Welch and
Satterthwaite. Where training depends on the seed and a side has one seed only, that part of the error is
unknown: there is a description and no interval, no test, no verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vestige.comparison.statistics import equivalence_p
from vestige.measures.resampling import interval
from vestige.measures.student import Student


@dataclass(frozen=True)
class Scores:
    """The same score of base and tuned models, by seed of the probes and by run of fine-tuning."""

    base: np.ndarray
    """(columns, base seeds)."""
    tuned: np.ndarray
    """(runs, columns, tuned seeds)."""
    stochastic: bool
    """Whether seeds stand for trainings of the probe, independent of each other on the two sides. If not, they are
    draws that both sides share: control tasks."""

    @property
    def runs(self) -> int:
        return len(self.tuned)

    @property
    def difference(self) -> np.ndarray:
        """(columns,)."""
        return self.tuned.mean((0, 2)) - self.base.mean(1)

    @property
    def described_only(self) -> bool:
        """Whether the variance of training is unknown on one side; several runs hold that of the tuned side."""
        return self.stochastic and (self.base.shape[1] < 2 or (self.runs == 1 and self.tuned.shape[2] < 2))

    @property
    def sd_probe_seed(self) -> np.ndarray:
        """(columns,): standard deviation of the difference over seeds of the probes; NaN where it is unknown."""
        if self.stochastic:
            tuned = np.sqrt(np.mean(_variance(self.tuned), axis=0))
            return np.hypot(np.sqrt(_variance(self.base)), tuned)
        if self.base.shape[1] != self.tuned.shape[2]:
            return np.full(len(self.base), np.nan)
        return np.sqrt(_variance(self.tuned.mean(0) - self.base))

    @property
    def sd_tuning_run(self) -> np.ndarray:
        """(columns,): standard deviation over runs; NaN with one."""
        return np.sqrt(_variance(np.moveaxis(self.tuned.mean(2), 0, -1)))

    @property
    def by_run(self) -> np.ndarray:
        """(columns, runs) of the tuned side; with one run (columns, tuned seeds)."""
        return np.moveaxis(self.tuned.mean(2), 0, -1) if self.runs > 1 else self.tuned[0]

    def sources(self) -> list[tuple[np.ndarray, int]]:
        """Standard errors (columns,) of the difference beside that of sentences, each with its degrees of freedom."""
        found, draws = [], self.base.shape[1]
        if self.stochastic:
            found.append(_error_of_mean(self.base))
        elif draws > 1 and draws == self.tuned.shape[2]:
            found.append((self.sd_probe_seed / draws**0.5, draws - 1))
        if self.runs > 1 or self.stochastic:
            found.append(_error_of_mean(self.by_run))
        return found


def _variance(scores: np.ndarray) -> np.ndarray:
    """Over the last axis; NaN of a single score."""
    if scores.shape[-1] < 2:
        return np.full(scores.shape[:-1], np.nan)
    return scores.var(-1, ddof=1)


def _error_of_mean(scores: np.ndarray) -> tuple[np.ndarray, int]:
    """Standard error of the mean over the last axis, and its degrees of freedom."""
    count = scores.shape[-1]
    return np.sqrt(_variance(scores) / count), max(count - 1, 1)


def judge_differences(
    scores: Scores,
    distribution: np.ndarray,
    sentences: int,
    exchange_p: Callable[[], np.ndarray],
    *,
    confidence: float,
    margin: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ends of the interval, p and p of equivalence of every column's difference; NaN where it can only be described.

    `distribution` (resamples, columns): the difference on sentences drawn anew; `exchange_p`: the exact test.
    """
    if scores.described_only:
        unknown = np.full(len(scores.base), np.nan)
        return unknown, unknown, unknown, unknown
    sources = scores.sources()
    if not sources:
        low, high = interval(distribution, confidence)
        return low, high, exchange_p(), equivalence_p(distribution, margin)
    errors, freedom = zip((distribution.std(0, ddof=1), max(sentences - 1, 1)), *sources, strict=True)
    found = Student.of(scores.difference, errors, freedom)
    return *found.interval(confidence), found.p, found.outside(margin)


def level_interval(
    scores: np.ndarray, distribution: np.ndarray, sentences: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Interval of a level whose `scores` (columns, seeds or runs) were measured; over sentences alone with one."""
    if scores.shape[-1] < 2:
        return interval(distribution, confidence)
    error, freedom = _error_of_mean(scores)
    errors = [distribution.std(0, ddof=1), error]
    return Student.of(scores.mean(-1), errors, [max(sentences - 1, 1), freedom]).interval(confidence)
