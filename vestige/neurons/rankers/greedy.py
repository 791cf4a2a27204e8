"""Greedy selection by a Gaussian per label (torroba hennigen2020, intrinsic probing).

Neurons are picked one by one: each time the one that, with those picked before, gives the true
label the highest mean log-posterior. The prior on a label's Gaussian is the paper's, of the weight
of one row, and the covariance is the posterior's mean: (scatter + v) / (rows + 1) with v the
variance within labels, on the diagonal. (The posterior's mode, which the paper takes, divides by
rows + 2 * neurons + 4: among many neurons the variances of rare labels then all but vanish.)

A neuron's density given those picked follows from a Cholesky factor per label that grows by one
column a pick; no covariance of all neurons is ever made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.neurons.matrix import BLOCK_BYTES, Neurons
from vestige.neurons.rankers.checks import best_first, checked_labels
from vestige.neurons.rankers.means import Moments, moments
from vestige.representations.store import row_blocks

MOST, CANDIDATES, ROWS = 16, 512, 2000
_CHUNK_BYTES = 4 << 20
_FLOOR = 1e-6
"""The least variance within labels, as a share of a neuron's whole variance."""


@dataclass(frozen=True)
class _Scale:
    """Brings a neuron to mean 0 and variance 1 over all rows, where float32 is exact enough."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, found: Moments) -> "_Scale":
        weight = found.counts[:, None] / found.counts.sum()
        mean = (weight * found.means).sum(0)
        spread = (weight * (found.means - mean) ** 2).sum(0) + found.scatters.sum(0) / found.counts.sum()
        return cls(mean, np.where(found.constant, 1.0, np.sqrt(spread)))

    def columns(self, neurons: Neurons, rows: slice | np.ndarray, ids: np.ndarray) -> Tensor:
        part = Neurons(tuple(layer[rows] for layer in neurons.layers)).columns(ids)
        return torch.from_numpy((part - self.mean[ids]) / self.deviation[ids]).float()


def gaussian(
    neurons: Neurons,
    labels: np.ndarray,
    classes: Sequence[str],
    *,
    most: int = MOST,
    candidates: int = CANDIDATES,
    rows: int = ROWS,
) -> np.ndarray:
    """The first `most` neurons by greedy selection, the rest by how well each predicts the label alone.

    Picks are made among the `candidates` best single neurons; posteriors are averaged over at most
    `rows` evenly spaced rows (means and covariances are those of all rows). With as many candidates
    as neurons and as many rows as there are, the search is the whole greedy search.
    """
    labels = checked_labels(neurons, labels, classes)
    found = moments(neurons, labels, classes, scatters=True)
    scale = _Scale.of(found)
    sample = np.unique(np.linspace(0, len(labels) - 1, min(rows, len(labels))).round().astype(np.int64))
    alone = _alone(neurons, labels, found, scale, sample)
    order = best_first(alone, found.constant)
    if found.constant.all():
        return order
    pool = np.sort(order[: min(max(most, candidates), int((~found.constant).sum()))])
    picked = pool[_greedy(neurons, labels, found, scale, sample, pool, min(most, len(pool)))]
    return np.concatenate([picked, order[~np.isin(order, picked)]])


def _alone(neurons: Neurons, labels: np.ndarray, found: Moments, scale: _Scale, sample: np.ndarray) -> np.ndarray:
    """Per neuron the mean log-posterior of the true label."""
    joint = _log_shares(found).expand(len(sample), -1)
    scores = []
    for layer, width in zip(neurons.offsets, np.diff(neurons.offsets), strict=False):
        ids = np.arange(layer, layer + width)
        gaussians = _Gaussians.of(found, scale, ids)
        scores.append(gaussians.scores(scale.columns(neurons, sample, ids), labels[sample], joint))
    return np.concatenate(scores)


def _greedy(
    neurons: Neurons, labels: np.ndarray, found: Moments, scale: _Scale, sample: np.ndarray, pool: np.ndarray, most: int
) -> np.ndarray:
    """Places in `pool` of the neurons picked, in order."""
    gaussians = _Gaussians.of(found, scale, pool)
    values, of_sample = scale.columns(neurons, sample, pool), labels[sample]
    joint = _log_shares(found).expand(len(sample), -1)
    picked: list[int] = []
    while True:
        scores = gaussians.scores(values, of_sample, joint)
        scores[picked] = -np.inf
        best = int(scores.argmax())
        joint = joint + gaussians.lines([best]).log_densities(values[:, [best]], values[:, picked])[..., 0]
        picked.append(best)
        if len(picked) == most:
            return np.array(picked)
        products = torch.zeros_like(gaussians.means)
        for span in row_blocks(len(labels), max(1, BLOCK_BYTES // (8 * len(pool)))):
            block = scale.columns(neurons, span, pool).double()
            products.index_add_(0, torch.from_numpy(labels[span]), block * block[:, best : best + 1])
        gaussians = gaussians.given(best, products)


def _log_shares(found: Moments) -> Tensor:
    return torch.from_numpy(np.log(found.counts / found.counts.sum())).float()


@dataclass(frozen=True)
class _Gaussians:
    """Per label the density of each neuron given the neurons picked so far."""

    counts: Tensor
    """(labels, 1)"""
    means: Tensor
    """(labels, neurons), before any pick."""
    prior: Tensor
    """(neurons,): the variance within labels."""
    variances: Tensor
    """(labels, neurons), given the picks."""
    factor: Tensor
    """(labels, neurons, picks): columns of the Cholesky factor of the covariance."""
    picks: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: Moments, scale: _Scale, ids: np.ndarray) -> "_Gaussians":
        deviation = scale.deviation[ids]
        counts = torch.from_numpy(found.counts[:, None].astype(np.float64))
        means = torch.from_numpy((found.means[:, ids] - scale.mean[ids]) / deviation).contiguous()
        scatters = torch.from_numpy(found.scatters[:, ids] / deviation**2).contiguous()
        prior = (scatters.sum(0) / counts.sum()).clamp_min(_FLOOR)
        factor = torch.empty(*means.shape, 0, dtype=torch.float64)
        return cls(counts, means, prior, (scatters + prior) / (counts + 1), factor)

    def given(self, pick: int, products: Tensor) -> "_Gaussians":
        """The densities once neuron `pick` is known; `products` (labels, neurons) are sums of x * x[pick]."""
        scatter = products - self.counts * self.means * self.means[:, pick : pick + 1]
        scatter[:, pick] += self.prior[pick]
        explained = (self.factor @ self.factor[:, pick, :, None])[..., 0]
        column = (scatter / (self.counts + 1) - explained) / self.variances[:, pick : pick + 1].sqrt()
        variances = torch.maximum(self.variances - column**2, _FLOOR * self.prior / (self.counts + 1))
        factor = torch.cat([self.factor, column[..., None]], dim=2)
        return _Gaussians(self.counts, self.means, self.prior, variances, factor, (*self.picks, pick))

    def lines(self, neurons: list[int] | slice = slice(None)) -> "_Lines":
        """What the picks let one expect of each neuron, as lines through the picks."""
        picks = list(self.picks)
        inverse = self.variances[:, neurons].rsqrt()
        slopes = torch.linalg.solve_triangular(
            self.factor[:, picks], self.factor[:, neurons], upper=False, left=False
        ).permute(2, 0, 1)
        centre = self.means[:, neurons] - (slopes * self.means[:, picks].T[..., None]).sum(0)
        peak = (inverse / np.sqrt(2 * np.pi)).log()
        steep = (slopes * inverse).float().flatten(1)
        return _Lines(inverse.float(), (centre * inverse).float(), steep, peak.float())

    def scores(self, values: Tensor, labels: np.ndarray, joint: Tensor) -> np.ndarray:
        """Per neuron the mean log-posterior of `labels`, `joint` (rows, labels) being what the picks give."""
        classes, width = self.means.shape
        lines, picks, of_row = self.lines(), list(self.picks), torch.from_numpy(labels)
        total = torch.zeros(width, dtype=torch.float64)
        size = max(1, _CHUNK_BYTES // (4 * classes * width))
        for start in range(0, len(values), size):
            rows = values[start : start + size]
            both = lines.log_densities(rows, rows[:, picks]).add_(joint[start : start + size, :, None])
            true = both[torch.arange(len(rows)), of_row[start : start + size]]
            total += (true - both.logsumexp(1)).sum(0)
        return (total / len(values)).numpy()


@dataclass(frozen=True)
class _Lines:
    """In units of the conditional deviation, (labels, neurons)."""

    inverse: Tensor
    centre: Tensor
    slopes: Tensor
    """(picks, labels * neurons)"""
    peak: Tensor
    """The log-density at the expected value."""

    def log_densities(self, values: Tensor, picked: Tensor) -> Tensor:
        """(rows, labels, neurons) for `values` (rows, neurons), given the values of the picks (rows, picks)."""
        away = torch.addcmul(-self.centre, values[:, None], self.inverse)
        if picked.shape[1]:
            away.view(len(values), -1).addmm_(picked, self.slopes, alpha=-1)
        return away.square_().mul_(-0.5).add_(self.peak)
