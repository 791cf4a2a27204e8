"""Rankers that read one neuron at a time: average precision, intersection over union, mutual information.

The first two read a neuron as a detector of a label: rows by falling activation, the label's rows
should come first. Both need the same two numbers at each row of the label: how many rows are at
least as active, and how many of these have the label. A detector may fire downwards, as a probe's
weight may be negative, so a neuron counts as itself or as its negative, whichever is better.
"""

from collections.abc import Callable, Sequence

import numpy as np

from vestige.neurons.matrix import BLOCK_BYTES, Neurons
from vestige.neurons.rankers.checks import best_first, checked_labels, refuse_not_finite

BINS = 10
"""Quantile bins of a neuron whose mutual information with the label is wanted."""


def average_precision(neurons: Neurons, labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Neurons by average precision for the label they detect best, above what guessing gives."""
    return _by_best_label(neurons, labels, classes, average_precisions)


def iou(neurons: Neurons, labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Neurons by intersection over union with the label they detect best, above what guessing gives.

    The rows a neuron selects are those above a threshold; of all thresholds the best counts.
    """
    return _by_best_label(neurons, labels, classes, best_ious)


def mutual_information(neurons: Neurons, labels: np.ndarray, classes: Sequence[str], *, bins: int = BINS) -> np.ndarray:
    """Neurons by their mutual information with the label, each cut into quantile bins."""
    information, constant = mutual_informations(neurons, labels, classes, bins=bins)
    return best_first(information, constant)


def mutual_informations(
    neurons: Neurons, labels: np.ndarray, classes: Sequence[str], *, bins: int = BINS
) -> tuple[np.ndarray, np.ndarray]:
    """Per neuron the bits it shares with the label, and whether it is constant (then 0 bits).

    Bins hold equally many rows, except that equal values are never parted; a value that fills
    more than a bin has one of its own.

    Plain counts: about (bins - 1)(labels - 1) / (2 ln 2 rows) bits too much, alike for all neurons.
    """
    labels = checked_labels(neurons, labels, classes)
    cuts = np.maximum(np.arange(1, bins) * len(labels) // bins - 1, 0)

    def information(column: np.ndarray) -> float:
        upper = np.partition(column, cuts)[cuts]
        heavy = upper[1:][upper[1:] == upper[:-1]]
        bin_of = np.searchsorted(np.unique(np.concatenate([upper, np.nextafter(heavy, -np.inf)])), column)
        table = np.bincount(bin_of * len(classes) + labels, minlength=bins * len(classes)).reshape(bins, -1)
        joint = table / len(labels)
        chance = joint.sum(1, keepdims=True) * joint.sum(0)
        seen = joint > 0
        return float((joint[seen] * np.log2(joint[seen] / chance[seen])).sum())

    return _score_columns(neurons, information)


def average_precisions(column: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """(2, labels): average precision of a neuron and of its negative for each label."""
    sizes = np.bincount(labels, minlength=count)
    starts = np.cumsum(sizes) - sizes
    return np.stack([np.add.reduceat(hits / reach, starts) / sizes for hits, reach in _detections(column, labels)])


def best_ious(column: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """(2, labels): the best intersection over union, over thresholds, of a neuron and of its negative."""
    sizes = np.bincount(labels, minlength=count)
    starts, size = np.cumsum(sizes) - sizes, np.repeat(sizes, sizes)
    return np.stack(
        [np.maximum.reduceat(hits / (reach + size - hits), starts) for hits, reach in _detections(column, labels)]
    )


def _detections(column: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per direction (hits, reach) at every row, rows sorted by label and then as the neuron sorts them.

    `reach` rows are at least as active as this one, `hits` of them have its label.
    """
    rising = np.argsort(column)
    found = []
    for order in (rising[::-1], rising):
        values = column[order]
        reach = _run_ends(values[1:] != values[:-1])
        sorted_labels = labels[order].astype(np.int16 if labels.max() < 1 << 15 else np.int64)
        by_label = np.argsort(sorted_labels, kind="stable")
        sorted_labels, reach = sorted_labels[by_label], reach[by_label]
        new = sorted_labels[1:] != sorted_labels[:-1]
        before = np.concatenate([[0], np.flatnonzero(new) + 1])
        hits = _run_ends(new | (reach[1:] != reach[:-1])) - np.repeat(before, np.diff(before, append=len(labels)))
        found.append((hits, reach))
    return found


def _run_ends(changes: np.ndarray) -> np.ndarray:
    """For each item of a list the number of items up to the end of its run of equal ones."""
    ends = np.append(np.flatnonzero(changes), len(changes)) + 1
    return np.repeat(ends, np.diff(ends, prepend=0))


def _by_best_label(
    neurons: Neurons,
    labels: np.ndarray,
    classes: Sequence[str],
    detect: Callable[[np.ndarray, np.ndarray, int], np.ndarray],
) -> np.ndarray:
    labels = checked_labels(neurons, labels, classes)
    guess = np.bincount(labels, minlength=len(classes)) / len(labels)

    def score(column: np.ndarray) -> float:
        return float(((detect(column, labels, len(classes)) - guess) / (1 - guess)).max())

    return best_first(*_score_columns(neurons, score))


def _score_columns(neurons: Neurons, score: Callable[[np.ndarray], float]) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all neurons and which are constant (score 0), read by blocks of columns."""
    scores, constant = np.zeros(neurons.width), np.zeros(neurons.width, dtype=bool)
    size = max(1, BLOCK_BYTES // (4 * len(neurons)))
    for start in range(0, neurons.width, size):
        ids = np.arange(start, min(start + size, neurons.width))
        block = np.ascontiguousarray(neurons.columns(ids).T)
        if not np.isfinite(block).all():
            refuse_not_finite(neurons, slice(None))
        for neuron, column in zip(ids, block, strict=True):
            constant[neuron] = (column == column[0]).all()
            if not constant[neuron]:
                scores[neuron] = score(column)
    return scores, constant
