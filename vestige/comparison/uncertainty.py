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

    def sources(self) -> tuple[list[np.ndarray], list[int]]:
        """Standard errors (columns,) of the difference beside that of sentences, and their degrees of freedom."""
        errors, freedom = self._seed_sources(self.base) if self.stochastic else self._shared_draws()
        tuned = np.moveaxis(self.tuned.mean(2), 0, -1) if self.runs > 1 else self.tuned[0]
        if self.runs > 1 or self.stochastic:
            mine, degrees = self._seed_sources(tuned)
            errors, freedom = [*errors, *mine], [*freedom, *degrees]
        return errors, freedom

    @staticmethod
    def _seed_sources(scores: np.ndarray) -> tuple[list[np.ndarray], list[int]]:
        count = scores.shape[-1]
        return [np.sqrt(_variance(scores) / count)], [max(count - 1, 1)]

    def _shared_draws(self) -> tuple[list[np.ndarray], list[int]]:
        draws = self.base.shape[1]
        if draws < 2 or draws != self.tuned.shape[2]:
            return [], []
        return [self.sd_probe_seed / draws**0.5], [draws - 1]


def _variance(scores: np.ndarray) -> np.ndarray:
    """Over the last axis; NaN of a single score."""
    if scores.shape[-1] < 2:
        return np.full(scores.shape[:-1], np.nan)
    return scores.var(-1, ddof=1)


@dataclass(frozen=True)
class Judged:
    """Interval and tests of every column's difference; NaN where it can only be described."""

    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    p_equivalence: np.ndarray


def judge_differences(
    scores: Scores,
    distribution: np.ndarray,
    sentences: int,
    exchange_p: Callable[[], np.ndarray],
    *,
    confidence: float,
    margin: float,
) -> Judged:
    """`distribution` (resamples, columns): the difference on sentences drawn anew; `exchange_p`: the exact test."""
    if scores.described_only:
        unknown = np.full(len(scores.base), np.nan)
        return Judged(unknown, unknown, unknown, unknown)
    errors, freedom = scores.sources()
    if not errors:
        low, high = interval(distribution, confidence)
        return Judged(low, high, exchange_p(), equivalence_p(distribution, margin))
    items = distribution.std(0, ddof=1)
    found = Student.of(scores.difference, [items, *errors], [max(sentences - 1, 1), *freedom])
    return Judged(*found.interval(confidence), found.p, found.outside(margin))


def level_interval(
    scores: np.ndarray, distribution: np.ndarray, sentences: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Interval of a level whose `scores` (columns, seeds or runs) were measured; over sentences alone with one."""
    count = scores.shape[-1]
    if count < 2:
        return interval(distribution, confidence)
    errors = [distribution.std(0, ddof=1), np.sqrt(_variance(scores) / count)]
    return Student.of(scores.mean(-1), errors, [max(sentences - 1, 1), count - 1]).interval(confidence)
