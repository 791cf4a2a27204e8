"""How much of a change is there: where a number lies on the way from one model's to another's.

R = (m - m_base) / (m_tuned - m_base), all three of the same sentences. Its interval is Fieller's (1954): all values of
R that a test of m - m_base = R (m_tuned - m_base) does not reject, variances and covariance being those of the
delete-a-group jackknife. It is bounded where m_tuned differs from m_base at the same level, and nowhere else: dividing
by a difference that may be 0 says nothing.
"""

from typing import NamedTuple

import numpy as np
import scipy

from vestige.measures.jackknife import LEAST_GROUPS
from vestige.measures.student import Student


class Recovered(NamedTuple):
    """The share of a change, with its 95 % interval."""

    value: float
    low: float
    high: float


def nothing_to_recover(base: np.ndarray, tuned: np.ndarray, margin: float, confidence: float = 0.95) -> str:
    """Why there is no change of which a share could be there, as the end of a sentence; empty where there is one.

    `base` and `tuned` (1 + groups,): the number of all sentences first, then without each group of them.
    """
    change = tuned - base
    if len(change) - 1 < LEAST_GROUPS:
        return f"there are fewer than {LEAST_GROUPS} sentences, too few for an interval"
    if not change.any():
        return "base and tuned score the same on every group of sentences, so there is no change to recover"
    found = Student.of(change[0], [_spread(change[1:], change[1:]) ** 0.5], [len(change) - 2])
    low, high = found.interval(confidence)
    if low <= 0 <= high:
        return (
            f"base and tuned are not shown to differ ({change[0]:+.3g}, {low:.3g} to {high:.3g}), so there is no "
            "change to recover"
        )
    if max(abs(low), abs(high)) < margin:
        return f"base and tuned differ by less than {margin:g} ({change[0]:+.3g}), so there is no change to recover"
    return ""


def recovered(patched: np.ndarray, base: np.ndarray, tuned: np.ndarray, confidence: float = 0.95) -> Recovered:
    """The share of the change from `base` to `tuned` that `patched` has; each (1 + groups,), as above.

    Only where there is something to recover.
    """
    part, whole = patched - base, tuned - base
    reach = scipy.stats.t.ppf(0.5 + confidence / 2, len(part) - 2) ** 2
    of_part, of_whole, of_both = (
        reach * _spread(one[1:], other[1:]) for one, other in ((part, part), (whole, whole), (part, whole))
    )
    bounded = whole[0] ** 2 - of_whole
    middle = part[0] * whole[0] - of_both
    root = np.sqrt(max(middle**2 - bounded * (part[0] ** 2 - of_part), 0.0))
    return Recovered(
        *(float(value) for value in (part[0] / whole[0], (middle - root) / bounded, (middle + root) / bounded))
    )


def _spread(one: np.ndarray, other: np.ndarray) -> float:
    """Covariance of two estimates from what they are without each group (the delete-a-group jackknife)."""
    groups = len(one)
    return float((groups - 1) / groups * ((one - one.mean()) * (other - other.mean())).sum())
