"""Means whose error has several sources, such as sentences and runs of fine-tuning.

The errors of the sources add up in squares, and Student's distribution has the degrees of freedom that
Welch and Satterthwaite found for such a sum. A bootstrap that draws three runs anew finds an interval
that is far too narrow: three runs say little of how far the next will lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy


@dataclass(frozen=True)
class Student:
    """Values, each with its standard error and the degrees of freedom of its distribution; all of one shape."""

    value: np.ndarray
    error: np.ndarray
    degrees: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray, errors: Sequence[np.ndarray | float], degrees: Sequence[int]) -> "Student":
        """From the standard error that every source makes alone, and its degrees of freedom."""
        value = np.asarray(value, dtype=np.float64)
        squares = np.stack([np.broadcast_to(np.square(error), value.shape) for error in errors])
        total = squares.sum(0)
        inverse = np.tensordot(1 / np.asarray(degrees, dtype=np.float64), squares**2, axes=1)
        freedom = np.divide(total**2, inverse, out=np.full(value.shape, float(sum(degrees))), where=inverse > 0)
        return cls(value, np.sqrt(total), freedom)

    @classmethod
    def over_runs(cls, by_run: np.ndarray, sentence_error: np.ndarray | float, sentences: int) -> "Student":
        """The mean over runs (runs, ...) that all read the same sentences.

        `sentence_error` is that of the mean over runs. What a sentence does differently in every run is in
        both sources, so that the error is rather too large than too small.
        """
        runs = len(by_run)
        errors = [sentence_error, by_run.std(0, ddof=1) / runs**0.5]
        return cls.of(by_run.mean(0), errors, [max(sentences - 1, 1), runs - 1])

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Low and high."""
        reach = scipy.stats.t.ppf(0.5 + confidence / 2, self.degrees) * self.error
        return self.value - reach, self.value + reach

    @property
    def p(self) -> np.ndarray:
        """Two-sided, of the hypothesis that the value is 0; 1 where the error is not known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = 2 * scipy.stats.t.sf(np.abs(self.value) / self.error, self.degrees)
        return np.where(self.error == 0, (self.value == 0).astype(np.float64), np.nan_to_num(found, nan=1.0))

    def outside(self, margin: float) -> np.ndarray:
        """p of the hypothesis that the value is as large as the margin, on either side of zero; 1 where unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = scipy.stats.t.sf((margin - np.abs(self.value)) / self.error, self.degrees)
        beyond = (np.abs(self.value) >= margin).astype(np.float64)
        return np.where(self.error == 0, beyond, np.nan_to_num(found, nan=1.0))
