"""Where selected neurons lie: over layers, over labels, and what fine-tuning moves (Durrani et al. 2020, 2021).

Everything takes neuron ids and `offsets`, the first id of every layer followed by the number of
all neurons (`Neurons.offsets`). A selection is a set: its order plays no role.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import AnalysisError

STATISTICS = ("earth_mover", "total_variation", "mean_layer")
"""Distances of two histograms over layers, in layers and in shares; and the signed move of the mean layer."""


def checked_ids(ids: ArrayLike, neurons: int, what: str = "the selection") -> np.ndarray:
    """The ids as a one-dimensional array of integers, all different and within 0 ... neurons - 1."""
    found = np.asarray(ids)
    if found.size == 0:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise AnalysisError(
            f"{what}: expected a list of neuron ids, found an array of {found.dtype} of shape {found.shape}",
            fix="give whole numbers (np.flatnonzero turns a mask into ids)",
        )
    outside = found[(found < 0) | (found >= neurons)]
    if len(outside):
        raise AnalysisError(
            f"{what}: neuron {outside[0]}, but there are {neurons}, counted from 0",
            fix="take ids that belong to this model: they count through its layers, embeddings first",
        )
    values, counts = np.unique(found, return_counts=True)
    if len(values) < len(found):
        raise AnalysisError(f"{what}: neuron {values[counts > 1][0]} occurs twice", fix="name every neuron once")
    return found.astype(np.int64)


def by_layer(ids: ArrayLike, offsets: ArrayLike) -> np.ndarray:
    """(layers,): how many of the selected neurons lie in each layer."""
    edges = _checked_offsets(offsets)
    layers = np.searchsorted(edges, checked_ids(ids, int(edges[-1])), side="right") - 1
    return np.bincount(layers, minlength=len(edges) - 1)


def by_layer_share(ids: ArrayLike, offsets: ArrayLike) -> np.ndarray:
    """(layers,): the share of the selection that lies in each layer."""
    counts = by_layer(ids, offsets)
    if not counts.sum():
        raise AnalysisError("shares of an empty selection", fix="select at least one neuron")
    return counts / counts.sum()


def dominant_layer(ids: ArrayLike, offsets: ArrayLike) -> int | None:
    """The layer with most of the neurons, the lowest of several; None of an empty selection."""
    counts = by_layer(ids, offsets)
    return int(counts.argmax()) if counts.any() else None


@dataclass(frozen=True)
class Overlap:
    """Which labels share neurons."""

    shared: np.ndarray
    """The neurons of more than one label, in the order of ids."""
    exclusive: dict[str, np.ndarray]
    """By label, the neurons of no other label, in the order of ids."""


def overlap(label_sets: Mapping[str, ArrayLike]) -> Overlap:
    """The overlap of the neurons of labels."""
    checked = _checked_labels(label_sets)
    everything = np.unique(np.concatenate([*checked.values(), np.empty(0, dtype=np.int64)]))
    member = np.zeros((len(checked), len(everything)), dtype=bool)
    for row, ids in zip(member, checked.values(), strict=True):
        row[np.searchsorted(everything, ids)] = True
    owners = member.sum(0)
    exclusive = {label: everything[row & (owners == 1)] for label, row in zip(checked, member, strict=True)}
    return Overlap(everything[owners > 1], exclusive)


class Exchange(NamedTuple):
    """What became of the neurons of a selection, each in the order of ids."""

    entered: np.ndarray
    left: np.ndarray
    stayed: np.ndarray


def entered_left(base_ids: ArrayLike, tuned_ids: ArrayLike) -> Exchange:
    """The neurons that only the tuned model selects, those that only the base does, and those of both."""
    base, tuned = (_checked_labels({name: ids})[name] for name, ids in (("base", base_ids), ("tuned", tuned_ids)))
    return Exchange(np.setdiff1d(tuned, base), np.setdiff1d(base, tuned), np.intersect1d(base, tuned))


@dataclass(frozen=True)
class Shift:
    """How far a selection moved over the layers; keys are `STATISTICS`."""

    base: np.ndarray
    tuned: np.ndarray
    """(layers,): shares of the two selections."""
    distance: dict[str, float]
    expected: dict[str, float]
    """Their means when chance alone decides: distances are never negative, and not zero by chance either."""
    p: dict[str, float]


def spread_shift(
    base_ids: ArrayLike, tuned_ids: ArrayLike, offsets: ArrayLike, resamples: int = 9999, seed: int = 0
) -> Shift:
    """Distance between the layers of two selections, with a permutation test.

    What is exchanged: neurons in both selections stay in both; those in only one are dealt out
    anew to base and tuned, all ways of keeping the two sizes being equally likely. That is exact
    if every neuron has a chance of its own to be selected, whatever the others, and the same one
    in both models. Dealing touches only the number of neurons per layer, which makes it one draw
    from a multivariate hypergeometric distribution. Two-sided; p counts the observed dealing.

    The test speaks of two selections. That another run of fine-tuning, or another fit of the probe,
    would select otherwise it cannot know: see `vestige.neurons.moves`.
    """
    entered, left, stayed = entered_left(base_ids, tuned_ids)
    for name, alone in (("base", left), ("tuned", entered)):
        if not len(alone) + len(stayed):
            raise AnalysisError(f"{name}: an empty selection lies in no layer", fix="select at least one neuron")
    gone, came, both = (by_layer(ids, offsets) for ids in (left, entered, stayed))
    rng = np.random.default_rng(seed)
    dealt = rng.multivariate_hypergeometric(gone + came, len(left), size=resamples, method="marginals")
    base, tuned = _shares(both + gone), _shares(both + came)
    observed = shift_statistics(base, tuned)
    drawn = shift_statistics(_shares(both + dealt), _shares(both + gone + came - dealt))
    p = {
        name: float(((np.abs(drawn[name]) >= abs(observed[name]) - 1e-9).sum() + 1) / (resamples + 1))
        for name in STATISTICS
    }
    expected = {name: float(drawn[name].mean()) for name in STATISTICS}
    return Shift(base, tuned, {name: float(observed[name]) for name in STATISTICS}, expected, p)


def shift_statistics(base: np.ndarray, tuned: np.ndarray) -> dict[str, np.ndarray]:
    """`STATISTICS` of shares (..., layers); neighbouring layers are one apart."""
    change = tuned - base
    return {
        "earth_mover": np.abs(change.cumsum(-1)).sum(-1),
        "total_variation": np.abs(change).sum(-1) / 2,
        "mean_layer": change @ np.arange(change.shape[-1]),
    }


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum(-1, keepdims=True)


def _checked_labels(label_sets: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    return {label: checked_ids(ids, np.iinfo(np.int64).max, f"{label}") for label, ids in label_sets.items()}


def _checked_offsets(offsets: ArrayLike) -> np.ndarray:
    edges = np.asarray(offsets)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or (np.diff(edges) <= 0).any():
        raise AnalysisError(
            f"offsets should rise from 0, one entry per layer and one more, found {edges.tolist()}",
            fix="take Neurons.offsets",
        )
    return edges
