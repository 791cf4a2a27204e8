"""Representational similarity analysis: do two models find the same items alike?

merchant2020 section 5.1 (after Kriegeskorte et al. 2008): the similarity of every two items in one
model is correlated with their similarity in the other. With cosines and Pearson's correlation this
takes time linear in the items (see `moments`); other kernels and ranks take all pairs (see `pairs`).

Cosines are invariant to orthogonal maps and to the length of every vector, not to translation: vectors
that share a large mean, as those of language models do, look alike whatever else they say. The centred
cosine takes the mean out.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from vestige.errors import AnalysisError
from vestige.measures.moments import Measure, Moments
from vestige.measures.pairs import Kernel, correlate_pairs
from vestige.measures.vectors import Array, Prepare, Vectors, all_alike, pair_of

Correlation = Literal["pearson", "spearman"]

_NOTHING = 1e-13
"""Share of the mean square below which a variance is rounding."""

_PREPARE: dict[str, Prepare] = {"cosine": "unit", "centred_cosine": "centred_unit", "euclidean": "centred"}


def rsa(x: Array, y: Array, kernel: Kernel = "cosine", correlation: Correlation = "pearson") -> float:
    """Correlation of the similarities of all pairs of items in x and in y, arrays (items, units).

    Cosine kernels with Pearson's correlation: exact, linear in the items, a matrix of units by units
    in memory. The rest is quadratic in time: about 40 MB of memory for Pearson, and for Spearman's
    correlation sorted ranks up to 5000 items (0.6 GB); beyond, ranks come from 4 million equal steps
    of the kernel's range, values within a step counting as ties (0.2 GB).
    """
    if kernel not in _PREPARE or correlation not in get_args(Correlation):
        raise AnalysisError(
            f"rsa: kernel {kernel!r} with correlation {correlation!r} is not known",
            fix=f"kernels: {', '.join(_PREPARE)}; correlations: {', '.join(get_args(Correlation))}",
        )
    first, second = pair_of(x, y)
    if correlation == "pearson" and kernel != "euclidean":
        return (COSINE if kernel == "cosine" else CENTRED_COSINE)(first, second)
    return rsa_of_pairs(first, second, kernel, correlation, [np.arange(len(first))])[0]


def rsa_of_pairs(
    x: Vectors, y: Vectors, kernel: Kernel, correlation: Correlation, groups: Sequence[np.ndarray]
) -> tuple[float, np.ndarray]:
    """RSA from all pairs, and (groups,) without each group of items."""
    first, second = (vectors.prepared(_PREPARE[kernel]) for vectors in (x, y))
    return correlate_pairs(first, second, kernel == "euclidean", correlation == "spearman", groups)


def _covariance(moments: Moments) -> float:
    """Of the kernels k_ij and l_ij over pairs i != j."""
    pairs = moments.items * (moments.items - 1)
    return moments.joint / pairs - (moments.kernel_x / pairs) * (moments.kernel_y / pairs)


def _own(moments: Moments, name: str) -> float:
    """The variance of the kernel over pairs."""
    variance = _covariance(moments)
    if variance <= _NOTHING * max(moments.joint / moments.items**2, _NOTHING):
        raise all_alike(name)
    return variance


def _between(moments: Moments, x: float, y: float) -> float:
    return float(np.clip(_covariance(moments) / np.sqrt(x * y), -1.0, 1.0))


COSINE = Measure("unit", _own, _between)
CENTRED_COSINE = Measure("centred_unit", _own, _between)
