"""The shape of a cloud of vectors: how alike their directions are, how long they are, how many dimensions they fill.

Everything here follows from sums over vectors, so that what a number would be without a group of sentences is the same
formula on sums less the group's (the delete-a-group jackknife, see `vestige.measures.jackknife`). The intrinsic
dimension, which asks for neighbours, is in `vestige.measures.intrinsic`.

- **Mean cosine** of two different vectors (Ethayarajh 2019, section 4.1: anisotropy), and the same of vectors around
  their mean. One direction that all vectors share makes the first large; the second does not see it.
- **Participation ratio** (tr C)^2 / tr C^2 of the covariance C: as many dimensions as there would be if all had the
  same variance. With n vectors it is too low by about the factor 1 + ratio / n, in base and tuned alike.
- **IsoScore*** (Rudman & Eickhoff 2024): isotropy from 0 (a line) to 1 (all directions alike). See `isoscore`.
- **Outlier dimensions**: units whose variance is more than `OUTLIER` times the mean unit's (Rudman, Chen & Eickhoff
  2023). Probes shrink only units that are far larger (`vestige.probes.problem.OUTLIER`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

OUTLIER = 5.0
"""A unit with more than so many times the mean variance is an outlier dimension."""


@dataclass(frozen=True)
class Cloud:
    """Vectors (items, units), and the groups that are left out one by one.

    Every measure has 1 + groups numbers: of all items, then without each group.
    """

    vectors: np.ndarray
    """(items, units) in float64; none of them is zero."""
    groups: Sequence[np.ndarray] = ()
    """Item numbers of every group; each item is in one."""

    @cached_property
    def kept(self) -> np.ndarray:
        """(1 + groups, items): 1 where an item is kept."""
        kept = np.ones((1 + len(self.groups), len(self.vectors)))
        for number, items in enumerate(self.groups, start=1):
            kept[number, items] = 0.0
        return kept

    @cached_property
    def items(self) -> np.ndarray:
        """How many are kept."""
        return self.kept.sum(1)

    @cached_property
    def lengths(self) -> np.ndarray:
        """(items,)."""
        return np.linalg.norm(self.vectors, axis=1)

    @cached_property
    def centred(self) -> np.ndarray:
        """(items, units): around the mean of all, whoever is kept, so that products lose no digits."""
        return self.vectors - self.vectors.mean(0)

    @cached_property
    def means(self) -> np.ndarray:
        """(1 + groups, units): the means of those that are kept, from the mean of all."""
        return self.kept @ self.centred / self.items[:, None]

    @cached_property
    def squares(self) -> np.ndarray:
        """(1 + groups, items): squared distances from the mean of those that are kept."""
        own = np.einsum("ij,ij->i", self.centred, self.centred)
        shift = np.einsum("ij,ij->i", self.means, self.means)
        return np.maximum(own - 2 * self.means @ self.centred.T + shift[:, None], 0.0)

    def norm(self) -> np.ndarray:
        """The mean Euclidean length."""
        return self.kept @ self.lengths / self.items

    def log_norm(self) -> np.ndarray:
        """The mean logarithm of the length: 0.01 more is one percent longer, whatever the scale of the model."""
        return self.kept @ np.log(self.lengths) / self.items

    def mean_cosine(self) -> np.ndarray:
        """Of all pairs of different items: the squared length of the sum of unit vectors holds them all."""
        return self._pairs((self.kept / self.lengths) @ self.vectors)

    def mean_cosine_centred(self) -> np.ndarray:
        """The same of vectors around the mean of those that are kept."""
        shares = self.kept / np.maximum(np.sqrt(self.squares), np.finfo(float).tiny)
        return self._pairs(shares @ self.centred - shares.sum(1, keepdims=True) * self.means)

    def _pairs(self, sums: np.ndarray) -> np.ndarray:
        """The mean cosine of two different items, from sums (1 + groups, units) of unit vectors."""
        return (np.einsum("ij,ij->i", sums, sums) - self.items) / (self.items * (self.items - 1))

    def spectra(self) -> "Spectra":
        """What the covariances tell; the products of each group are subtracted from those of all."""
        total = self.centred.T @ self.centred
        variances, powers = [], []
        for items, count, mean in zip([np.empty(0, dtype=np.intp), *self.groups], self.items, self.means, strict=True):
            product = total - self.centred[items].T @ self.centred[items] if len(items) else total
            covariance = product / count - np.outer(mean, mean)
            variances.append(np.maximum(np.diagonal(covariance), 0.0))
            powers.append(float(np.vdot(covariance, covariance)))
        fourth = (self.kept * self.squares**2).sum(1)
        return Spectra(self.items, np.stack(variances), np.array(powers), fourth)


@dataclass(frozen=True)
class Spectra:
    """Sums over the eigenvalues of covariances, of all items and without each group; no eigenvalue is computed."""

    items: np.ndarray
    """(1 + groups,)."""
    variances: np.ndarray
    """(1 + groups, units)."""
    power: np.ndarray
    """(1 + groups,): tr C^2, the sum of squared eigenvalues."""
    fourth: np.ndarray
    """(1 + groups,): sum over items of the fourth power of their distance from the mean."""

    @property
    def total(self) -> np.ndarray:
        """tr C, the sum of eigenvalues."""
        return self.variances.sum(1)

    def participation_ratio(self) -> np.ndarray:
        """(tr C)^2 / tr C^2: from 1 (a line) to the number of units."""
        return self.total**2 / self.power

    def isoscore(self) -> np.ndarray:
        """IsoScore* of the covariance shrunk to a multiple of the identity, by `shrinkage`."""
        units = self.variances.shape[1]
        kept = 1.0 - self.shrinkage()
        power = kept**2 * self.power + (1.0 - kept**2) * self.total**2 / units
        return isoscore(self.total, power, units)

    def shrinkage(self) -> np.ndarray:
        """The share of the target in the shrunk covariance that Ledoit & Wolf (2004) find best.

        Rudman & Eickhoff shrink the covariance of a mini-batch towards that of a larger sample, by a share of 0.2.
        There is one sample here. It is shrunk to its mean variance times the identity: without that, few vectors of
        many units look anisotropic because they are few. Where vectors outnumber units the share is near 0.
        """
        units = self.variances.shape[1]
        apart = self.power - self.total**2 / units
        chance = (self.fourth / self.items - self.power) / self.items
        share = np.divide(chance, apart, out=np.ones_like(apart), where=apart > 1e-12 * self.power)
        return np.clip(share, 0.0, 1.0)

    def outlier_dimensions(self) -> np.ndarray:
        """How many units have more than `OUTLIER` times the mean variance."""
        return (self.variances > OUTLIER * self.variances.mean(1, keepdims=True)).sum(1).astype(np.float64)

    def largest_share(self) -> np.ndarray:
        """The share of the largest unit in the variance of all."""
        return self.variances.max(1) / self.total


def isoscore(total: np.ndarray, power: np.ndarray, units: int) -> np.ndarray:
    """IsoScore (Rudman et al. 2022, algorithm 1) from the sum and the sum of squares of the eigenvalues l_1 ... l_d.

    The recipe: bring l to the length of the vector 1 of d ones, l' = sqrt(d) l / |l|; the defect is
    D = |l' - 1| / sqrt(2 (d - sqrt(d))); the share of dimensions that are used is F = (d - D^2 (d - sqrt(d)))^2 / d^2;
    the score is (d F - 1) / (d - 1). As |l' - 1|^2 = 2d - 2 sqrt(d) sum(l) / |l|, F is (sum l)^2 / (d |l|^2), and the
    score is (P - 1) / (d - 1) with P the participation ratio. One unit has no score; it is given 1.
    """
    if units == 1:
        return np.ones_like(total)
    return np.clip((total**2 / power - 1.0) / (units - 1), 0.0, 1.0)
