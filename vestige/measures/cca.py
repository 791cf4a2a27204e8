"""Similarities that first rotate one set of units onto the other: SVCCA, PWCCA, orthogonal Procrustes.

All three follow from the covariances of the units. Canonical correlations are 1 for any vectors once
items are no more than units, and stay high until there are many times more: compare with cka.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh, svd

from vestige.errors import AnalysisError
from vestige.measures.moments import Measure, Moments
from vestige.measures.vectors import Array, pair_of, warn_few_items

KEPT_VARIANCE = 0.99
"""Of the variance that SVCCA keeps (Raghu et al. 2017)."""

_NOTHING = 1e-10
"""Share of the largest variance below which a direction is taken for rounding."""


@dataclass(frozen=True)
class Axes:
    """Principal directions that are kept and how far the items reach along them."""

    directions: np.ndarray
    """(units, kept)."""
    lengths: np.ndarray
    """(kept,) square roots of the sums of squares."""


def svcca(x: Array, y: Array, variance: float = KEPT_VARIANCE) -> float:
    """Mean canonical correlation of the principal directions that hold this share of the variance."""
    if not 0 < variance <= 1:
        raise AnalysisError(f"svcca: variance is {variance}, a share in (0, 1] was expected", fix="0.99 is usual")
    return _similarity(_svcca(variance), x, y, "svcca")


def pwcca(x: Array, y: Array) -> float:
    """Canonical correlations weighted by how much of x each explains (Morcos et al. 2018); not symmetric."""
    return _similarity(PWCCA, x, y, "pwcca")


def procrustes(x: Array, y: Array) -> float:
    """How well y, centred and scaled, can be rotated onto x: 1 - d^2 / 2 for the Procrustes distance d.

    1 for vectors equal up to translation, orthogonal map and scale; 0 for none in common. Widths may
    differ: the narrower is filled with zeros.
    """
    return _similarity(PROCRUSTES, x, y, "procrustes")


def _own_axes(moments: Moments, name: str, variance: float = 1.0) -> Axes:
    """The principal directions of the units that hold this share of the variance."""
    values, directions = eigh(moments.covariance)
    values, directions = values[::-1], directions[:, ::-1]
    values = np.where(values > _NOTHING * values[0], values, 0.0)
    before = np.concatenate([[0.0], np.cumsum(values)[:-1]]) / values.sum()
    kept = (values > 0) & (before < variance - 1e-12)
    return Axes(directions[:, kept], np.sqrt(values[kept]))


def _between_svcca(moments: Moments, x: Axes, y: Axes) -> float:
    return float(np.minimum(svd(_whitened(moments, x, y), compute_uv=False), 1.0).mean())


def _between_pwcca(moments: Moments, x: Axes, y: Axes) -> float:
    rotation, correlations, _ = svd(_whitened(moments, x, y), full_matrices=False)
    loadings = (rotation.T * x.lengths) @ x.directions.T
    weights = np.abs(loadings).sum(1)
    return float(np.minimum(correlations, 1.0) @ weights / weights.sum())


def _own_norm(moments: Moments, name: str) -> float:
    """Frobenius norm of the centred vectors."""
    square = float(np.trace(moments.covariance))
    return float(np.sqrt(square))


def _between_procrustes(moments: Moments, x: float, y: float) -> float:
    return float(svd(moments.covariance, compute_uv=False).sum() / (x * y))


def _similarity(measure: Measure, x: Array, y: Array, name: str) -> float:
    first, second = pair_of(x, y)
    warn_few_items(first, second, name, "use cka")
    return measure(first, second)


def _whitened(moments: Moments, x: Axes, y: Axes) -> np.ndarray:
    """(x kept, y kept): its singular values are the canonical correlations."""
    return x.directions.T @ moments.covariance @ y.directions / np.outer(x.lengths, y.lengths)


def _svcca(variance: float) -> Measure[Axes]:
    return Measure("centred", partial(_own_axes, variance=variance), _between_svcca)


SVCCA = _svcca(KEPT_VARIANCE)
PWCCA = Measure("centred", _own_axes, _between_pwcca)
PROCRUSTES = Measure("centred", _own_norm, _between_procrustes)
