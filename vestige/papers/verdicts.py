"""Whether the numbers of a run support what a paper says: one rule for all papers.

A claim has parts, each a quantity with its interval and the region in which the paper has it. The whole interval in
that region supports the part; the whole interval outside of it, widened for as many tests as the claim has parts,
speaks against it. A claim 'agrees' if all its parts are supported (or the share of them that it speaks of), 'differs'
if one part too many speaks against it, and otherwise cannot be told. Where all parts must be supported, none needs a
wider interval (all of them together are at most as often supported by chance as each); where a share of them is
enough, each is widened as well. A number without an interval decides nothing, however large it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, inf, isnan, log, nan

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq

from vestige.comparison.differences import FAILED
from vestige.measures.student import Student

CONFIDENCE = 0.95
VERDICTS = {True: "Agrees", False: "Differs", None: "Cannot be told"}
MOST_LISTED = 8
"""Parts that are written out one by one; of more the numbers are given."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; NaN ends where there is none."""

    value: float
    low: float = nan
    high: float = nan
    degrees: float = inf
    """Of freedom: how well the error itself is known."""

    @classmethod
    def of_row(cls, row: pd.Series) -> "Estimate":
        """A row of a table of comparisons; one that is only described, or of a failed probe, has no interval."""
        value, low, high = (float(row[name]) for name in ("difference", "low", "high"))
        if row["verdict"] in ("described", FAILED):
            return cls(value)
        return cls(value, low, high, _degrees(value, (high - low) / 2, float(row["p"]), int(row["runs"])))

    @classmethod
    def of_runs(cls, values: Sequence[float], sentence_error: float = 0.0, sentences: int = 2) -> "Estimate":
        """The mean over runs (or over held-out sets), with the standard error that sentences add to it."""
        return cls.of_groups([values], sentence_error, sentences)

    @classmethod
    def of_groups(
        cls, groups: Sequence[Sequence[float]], sentence_error: float = 0.0, sentences: int = 2
    ) -> "Estimate":
        """The mean over groups of the mean over their runs: these groups, other runs and other sentences.

        Runs that all come out the same (as counts may) do not show how far another would lie: no interval.
        """
        value = np.asarray(np.mean([np.mean(runs) for runs in groups]))
        if min(map(len, groups)) < 2:
            return cls(float(value))
        errors = [np.std(runs, ddof=1) / len(runs) ** 0.5 / len(groups) for runs in groups]
        if max(sentence_error, *errors) <= 1e-12 * abs(float(value)):
            return cls(float(value))
        found = Student.of(value, [sentence_error, *errors], [max(sentences - 1, 1), *(len(r) - 1 for r in groups)])
        low, high = found.interval(CONFIDENCE)
        return cls(float(value), float(low), float(high), float(found.degrees))

    @classmethod
    def mean_of(cls, estimates: Sequence["Estimate"]) -> "Estimate":
        """The mean of estimates whose errors may be one and the same: intervals do not shrink."""
        value, low, high = (
            float(np.mean([getattr(estimate, name) for estimate in estimates])) for name in ("value", "low", "high")
        )
        return cls(value, low, high, min(e.degrees for e in estimates))

    def __sub__(self, other: "Estimate") -> "Estimate":
        """The difference; errors are taken as independent."""
        value = self.value - other.value
        below = hypot(self.value - self.low, other.high - other.value)
        above = hypot(self.high - self.value, other.value - other.low)
        return Estimate(value, value - below, value + above, min(self.degrees, other.degrees))

    def times(self, factor: float) -> "Estimate":
        """In another unit, or seen from the other side."""
        low, high = sorted((factor * self.low, factor * self.high)) if self.known else (nan, nan)
        return Estimate(factor * self.value, low, high, self.degrees)

    def widened(self, tests: int) -> "Estimate":
        """The interval that covers with so many others at once (Bonferroni)."""
        alone, together = (stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / k, self.degrees) for k in (1, tests))
        low, high = (self.value + float(together / alone) * (end - self.value) for end in (self.low, self.high))
        return Estimate(self.value, low, high, self.degrees)

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not (isnan(self.low) or isnan(self.high))

    def text(self, decimals: int = 1, signed: bool = True) -> str:
        """'+5.6 (+2.8 to +8.5)'; of what is no difference '5.6 (2.8 to 8.5)'."""
        how = f"{'+' if signed else ''}.{decimals}f"
        if not self.known:
            return f"{self.value:{how}} (no interval)"
        return f"{self.value:{how}} ({self.low:{how}} to {self.high:{how}})"


def _degrees(value: float, half: float, p: float, runs: int) -> float:
    """Degrees of freedom of Student's interval that goes with p; of one run, intervals are resampled instead.

    An interval without width, where no sentence and no run differs, has no error whose degrees could be told.
    """
    if runs < 2 or half == 0:
        return inf

    def excess(log_degrees: float) -> float:
        degrees = exp(log_degrees)
        return float(2 * stats.t.sf(abs(value) / half * stats.t.ppf(0.5 + CONFIDENCE / 2, degrees), degrees)) - p

    ends = log(runs - 1), log(1e6)
    return exp(brentq(excess, *ends)) if excess(ends[0]) * excess(ends[1]) < 0 else float(runs - 1)


@dataclass(frozen=True)
class Part:
    """One quantity that a claim speaks of, and where the paper has it: above one bound, below another, or both."""

    what: str
    estimate: Estimate
    above: float = -inf
    below: float = inf

    def supported(self, tests: int = 1) -> bool:
        """Whether the whole interval, widened for so many tests, is where the paper has it."""
        wide = self.estimate.widened(tests)
        return wide.known and wide.low > self.above and wide.high < self.below

    def refuted(self, tests: int = 1) -> bool:
        """Whether the whole interval, widened for so many tests, is where the paper does not have it."""
        wide = self.estimate.widened(tests)
        return wide.known and (wide.high < self.above or wide.low > self.below)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, held against the numbers of a run."""

    paper: str
    parts: Sequence[Part]
    lead: str = ""
    """What the numbers are."""
    unit: str = "points"
    scale: float = 100
    decimals: int = 1
    signed: bool = True
    """Whether the numbers are differences, which have a sign."""
    share: float = 1.0
    """How many of its parts the claim needs: all, unless it speaks of most."""
    note: str = ""
    """Further numbers, and what the intervals do not cover."""

    @property
    def agrees(self) -> bool | None:
        """None: it cannot be told."""
        if not self.parts:
            return None
        against = sum(part.refuted(len(self.parts)) for part in self.parts) / len(self.parts)
        if against > 1 - self.share + 1e-9:
            return False
        return True if self._supported(self.parts) / len(self.parts) >= self.share else None

    @property
    def verdict(self) -> str:
        """In words: agrees, differs, cannot be told."""
        return VERDICTS[self.agrees].lower()

    def _supported(self, parts: Sequence[Part]) -> int:
        """How many; where the claim does not need all of them, each is one test of many."""
        tests = len(self.parts) if self.share < 1 else 1
        return sum(part.supported(tests) for part in parts)

    def text(self) -> str:
        """What the paper says, the verdict, and the numbers it is derived from."""
        return f"*{self.paper}* {self.judged()}"

    def judged(self) -> str:
        """The verdict, and the numbers it is derived from."""
        return " ".join(filter(None, [f"**{VERDICTS[self.agrees]}.**", self._numbers(), self.note]))

    def _numbers(self) -> str:
        if not self.parts:
            return ""
        lead = f"{self.lead}: " if self.lead else ""
        if len(self.parts) > MOST_LISTED:
            return lead + self._counts()
        told = "; ".join(
            f"{part.what} {part.estimate.times(self.scale).text(self.decimals, self.signed)}" for part in self.parts
        )
        return f"{lead}{told} {self.unit}.".replace(" .", ".")

    def _counts(self) -> str:
        known = [part for part in self.parts if part.estimate.known]
        supported = self._supported(known)
        against = sum(part.refuted(len(self.parts)) for part in known)
        told = [
            f"of {len(known)} intervals {supported} are where the paper has them, {against} are wholly elsewhere "
            f"(corrected for {len(self.parts)} tests), {len(known) - supported - against} decide neither"
        ]
        lacking = f"{len(self.parts) - len(known)} of {len(self.parts)} numbers have no interval"
        return "; ".join([*told[: len(known)], *([lacking] if len(known) < len(self.parts) else [])]) + "."
