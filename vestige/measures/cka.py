"""Centred kernel alignment with a linear kernel (Kornblith et al. 2019), debiased, and over batches.

The plain estimate is far above zero for unrelated vectors unless items outnumber units many times;
the debiased one (Song et al. 2012; Nguyen et al. 2021) takes items paired with themselves out and is
zero on average there, so it may be slightly negative.
"""

from collections.abc import Iterable

import numpy as np

from vestige.errors import AnalysisError
from vestige.measures.moments import Measure, Moments
from vestige.measures.vectors import Array, all_alike, pair_of, warn_few_items

_NOTHING = 1e-13
"""Share of the mean square below which a variance is rounding."""


def cka(x: Array, y: Array, debiased: bool = True) -> float:
    """Linear CKA of two arrays (items, units) of the same items; linear in the number of items.

    Invariant to orthogonal maps, one scale for all and translation; not to scales per item or unit.
    """
    first, second = pair_of(x, y)
    if not debiased:
        warn_few_items(first, second, "cka(debiased=False)", "use debiased=True")
    return (DEBIASED if debiased else PLAIN)(first, second)


def minibatch_cka(batches: Iterable[tuple[Array, Array]]) -> float:
    """CKA from the unbiased HSIC of every batch of items, averaged over batches before dividing.

    For vectors that are never all there at once. Every batch needs at least four items; the size of
    batches biases neither part of the fraction.
    """
    sums, count = np.zeros(3), 0
    for x, y in batches:
        first, second = (vectors.prepared("centred") for vectors in pair_of(x, y))
        pairs = (first, second), (first, first), (second, second)
        sums += [hsic(Moments.of(*pair)) for pair in pairs]
        count += 1
    if not count:
        raise AnalysisError("minibatch_cka: no batches", fix="give at least one pair of arrays")
    if min(sums[1:]) <= 0:
        raise all_alike("x" if sums[1] <= 0 else "y")
    return float(sums[0] / np.sqrt(sums[1] * sums[2]))


def hsic(moments: Moments) -> float:
    """The unbiased estimate of the Hilbert-Schmidt independence criterion (Song et al. 2012, equation 5)."""
    n = moments.items
    return (
        moments.joint + moments.kernel_x * moments.kernel_y / ((n - 1) * (n - 2)) - 2 / (n - 2) * moments.chained
    ) / (n * (n - 3))


def _own_debiased(moments: Moments, name: str) -> float:
    value = hsic(moments)
    if value <= _NOTHING * (moments.k_self / moments.items) ** 2:
        raise all_alike(name)
    return value


def _between_debiased(moments: Moments, x: float, y: float) -> float:
    return float(hsic(moments) / np.sqrt(x * y))


def _own_plain(moments: Moments, name: str) -> float:
    covariance = moments.covariance
    return float(np.vdot(covariance, covariance))


def _between_plain(moments: Moments, x: float, y: float) -> float:
    return _own_plain(moments, "") / float(np.sqrt(x * y))


DEBIASED = Measure("centred", _own_debiased, _between_debiased)
PLAIN = Measure("centred", _own_plain, _between_plain)
