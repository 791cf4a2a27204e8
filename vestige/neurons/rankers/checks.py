"""What every ranker asks of its input, and how scores become an order."""

from collections.abc import Sequence

import numpy as np

from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.matrix import Neurons


def checked_labels(neurons: Neurons, labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """The labels (rows,) as int64, if they are numbers of `classes` and every class has an example."""
    labels = np.asarray(labels, dtype=np.int64)
    if labels.shape != (len(neurons),):
        raise AnalysisError(
            f"{len(neurons)} rows of neurons, but labels of shape {labels.shape}", fix="give one label per row"
        )
    if len(classes) < 2:
        raise AnalysisError(
            f"neurons are ranked by how they separate labels; there is but {list(classes)}",
            fix="choose a task with at least two labels",
        )
    if len(labels) == 0 or labels.min() < 0 or labels.max() >= len(classes):
        raise AnalysisError(
            f"labels are numbers from 0 to {len(classes) - 1}, found {sorted(set(labels.tolist()))[:5]}",
            fix="rank on training rows; leave out rows whose label is not among the classes",
        )
    missing = np.flatnonzero(np.bincount(labels, minlength=len(classes)) == 0)
    if len(missing):
        raise AnalysisError(
            f"label {classes[missing[0]]!r} has no example among the {len(labels)} rows",
            fix="leave out labels that the training rows lack",
        )
    return labels


def refuse_not_finite(neurons: Neurons, rows: slice | np.ndarray) -> None:
    """Name the first neuron that is NaN or infinite in some of `rows`, if there is one."""
    for layer, array in enumerate(neurons.layers):
        bad = ~np.isfinite(array[rows]).all(0)
        if bad.any():
            raise RepresentationError(
                f"layer {layer}, unit {bad.argmax()}: activations are not finite",
                fix="extract the representations anew, in float32",
            )


def best_first(scores: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """Ids by falling score, equal ones by id, neurons that never change last."""
    return np.lexsort((np.arange(len(scores)), -scores, constant))
