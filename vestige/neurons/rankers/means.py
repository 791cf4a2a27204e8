"""Probeless ranking: how far apart a neuron's means over the labels are (antverg2022, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from vestige.neurons.matrix import Neurons
from vestige.neurons.rankers.checks import best_first, checked_labels, refuse_not_finite


@dataclass(frozen=True)
class Moments:
    """Sums over the rows of each label, in one pass and in float64."""

    counts: np.ndarray
    """(labels,)"""
    means: np.ndarray
    """(labels, neurons)"""
    scatters: np.ndarray
    """(labels, neurons): the summed squared distance to the label's mean; empty where not asked for."""
    constant: np.ndarray
    """(neurons,): true where all rows are equal."""


def moments(neurons: Neurons, labels: np.ndarray, classes: Sequence[str], *, scatters: bool = False) -> Moments:
    """Means, and on demand scatters, of every neuron for every label."""
    labels = checked_labels(neurons, labels, classes)
    first = neurons.rows(slice(0, 1))[0]
    sums = torch.zeros(len(classes), neurons.width, dtype=torch.float64)
    squares = torch.zeros_like(sums) if scatters else sums[:0]
    constant = torch.ones(neurons.width, dtype=torch.bool)
    for span, rows in neurons.blocks():
        of_row = torch.from_numpy(labels[span])
        constant &= (rows == first).all(0)
        exact = rows.double()
        sums.index_add_(0, of_row, exact)
        if scatters:
            squares.index_add_(0, of_row, exact.square_())
        if not torch.isfinite(rows.sum()):
            refuse_not_finite(neurons, span)
    counts = np.bincount(labels, minlength=len(classes))
    means = sums.numpy() / counts[:, None]
    spread = np.maximum(squares.numpy() - counts[:, None] * means**2, 0.0) if scatters else squares.numpy()
    return Moments(counts, means, spread, constant.numpy())


def distances_to_other_labels(means: np.ndarray) -> np.ndarray:
    """(labels, neurons): the sum over the other labels of |mean - other mean|.

    Sorted means make it a matter of running sums: labels * log(labels) instead of their square.
    """
    order = np.argsort(means, axis=0)
    ascending = np.take_along_axis(means, order, axis=0)
    below = np.cumsum(ascending, axis=0)
    place = np.arange(len(means))[:, None]
    sums = ascending * (2 * place + 2 - len(means)) - 2 * below + below[-1]
    found = np.empty_like(sums)
    np.put_along_axis(found, order, sums, axis=0)
    return np.maximum(found, 0.0)


def probeless(neurons: Neurons, labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Neurons by the sum over pairs of labels of the distance between their means."""
    found = moments(neurons, labels, classes)
    return best_first(distances_to_other_labels(found.means).sum(0) / 2, found.constant)
