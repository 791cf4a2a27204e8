"""Redundant neurons: clusters of correlated ones, and one representative for each.

After the correlation clustering of Dalvi et al. 2020 ("Analyzing Redundancy in Pretrained
Transformer Models"): hierarchical clustering under the distance 1 - |r|, cut at a threshold.

Distances are kept as one float32 matrix. A flat cluster of average linkage cut at t is held
together by pairs no further apart than t, and what is merged in one part of the graph of such pairs
changes nothing in another: the parts are clustered one by one, with the same outcome as all at
once, and only the largest part needs the memory of SciPy's float64 distances.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.matrix import Neurons
from vestige.neurons.spread import checked_ids

PANEL = 1024
"""Neurons whose products with all others are accumulated at once, in float64."""

_SLACK = 1e-6
"""Above the rounding of a float32 correlation."""


def correlations(neurons: Neurons) -> np.ndarray:
    """(neurons, neurons) float32: Pearson correlations over all rows.

    Two passes (means first), products summed in float64, a panel of neurons at a time. Constant
    neurons correlate with nothing: 0, and 1 with themselves.
    """
    if len(neurons) < 2:
        raise AnalysisError(
            f"{neurons.width} neurons and {len(neurons)} rows: nothing correlates", fix="give at least two rows"
        )
    mean, constant = _means(neurons)
    norm = np.empty(neurons.width)
    found = np.empty((neurons.width, neurons.width), dtype=np.float32)
    for start in range(0, neurons.width, PANEL):
        stop = min(start + PANEL, neurons.width)
        products = torch.zeros(stop - start, stop, dtype=torch.float64)
        for rows in _rows(neurons, stop):
            centred = rows.double().sub_(mean[:stop])
            products.addmm_(centred[:, start:].T, centred)
        panel = products.numpy()
        norm[start:stop] = np.sqrt(panel[:, start:].diagonal())
        norm[start:stop][constant[start:stop]] = np.inf
        panel /= norm[start:stop, None]
        panel /= norm[:stop]
        np.clip(panel, -1, 1, out=panel)
        found[start:stop, :stop] = panel
        found[:stop, start:stop] = panel.T
    np.fill_diagonal(found, 1)
    return found


@dataclass(frozen=True)
class Clusters:
    """Neurons in clusters, numbered from 0 in the order of their first neuron."""

    ids: np.ndarray
    """The neurons, in the order they were given."""
    of: np.ndarray
    """(ids,): the cluster of each."""

    @property
    def count(self) -> int:
        """How many clusters there are: so many neurons say different things."""
        return int(self.of.max()) + 1

    def layers(self, offsets: ArrayLike) -> np.ndarray:
        """(clusters,): over how many layers each cluster reaches; 1 where it stays within one."""
        layers = np.searchsorted(np.asarray(offsets), self.ids, side="right") - 1
        pairs = np.unique(np.stack([self.of, layers]), axis=1)
        return np.bincount(pairs[0])


def clusters_of(correlation: np.ndarray, threshold: float, apart: np.ndarray | None = None) -> np.ndarray:
    """(neurons,): clusters, from a matrix of correlations, whose distance is on average at most `threshold`.

    Neurons marked `apart` stay alone.
    """
    free = np.ones(len(correlation), dtype=bool) if apart is None else ~apart
    near = 1 - threshold - _SLACK
    edges = [_edges(row, near, free, at) for at, row in enumerate(correlation)]
    starts = np.cumsum([0, *map(len, edges)])
    graph = csr_array((np.ones(starts[-1], dtype=np.int8), np.concatenate(edges), starts), shape=correlation.shape)
    _, part = connected_components(graph, directed=False)
    order = np.argsort(part, kind="stable")
    of = np.empty(len(part), dtype=np.int64)
    taken = 0
    for members in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if len(members) == 1:
            of[members] = taken
        else:
            tree = linkage(_condensed(correlation, members), method="average")
            of[members] = taken + fcluster(tree, threshold, criterion="distance") - 1
        taken = int(of[members].max()) + 1
    return _in_order(of)


def representatives(clusters: Clusters, order: ArrayLike) -> np.ndarray:
    """The best neuron of every cluster, best first; `order` ranks neurons, best first.

    A cluster without a ranked neuron has no representative.
    """
    number = dict(zip(clusters.ids.tolist(), clusters.of.tolist(), strict=True))
    seen: set[int] = set()
    best = []
    for neuron in checked_ids(order, np.iinfo(np.int64).max, "the ranking").tolist():
        if neuron not in number:
            raise AnalysisError(f"neuron {neuron} of the ranking is in no cluster", fix="cluster all ranked neurons")
        if number[neuron] not in seen:
            seen.add(number[neuron])
            best.append(neuron)
    return np.array(best, dtype=np.int64)


def _rows(neurons: Neurons, stop: int) -> Iterator[Tensor]:
    """Blocks of rows of the neurons before `stop`; only their layers are read."""
    some = Neurons(neurons.layers[: int(neurons.layer_of(np.array(stop - 1))) + 1])
    for _, rows in some.blocks():
        yield rows[:, :stop]


def _means(neurons: Neurons) -> tuple[Tensor, np.ndarray]:
    """Means in float64, and which neurons always say the same."""
    total = torch.zeros(neurons.width, dtype=torch.float64)
    low = torch.full((neurons.width,), torch.inf)
    high = -low
    for rows in _rows(neurons, neurons.width):
        total += rows.sum(0, dtype=torch.float64)
        low, high = torch.minimum(low, rows.amin(0)), torch.maximum(high, rows.amax(0))
    bad = np.flatnonzero(~torch.isfinite(total).numpy())
    if len(bad):
        raise RepresentationError(
            f"neuron {bad[0]} (layer {neurons.layer_of(bad)[0]}, unit {neurons.unit_of(bad)[0]}) has NaN or infinite "
            f"activations, as have {len(bad) - 1} others",
            fix="leave them out, or check the model and extract its representations again",
        )
    return total / len(neurons), (low == high).numpy()


def _edges(row: np.ndarray, near: float, free: np.ndarray, at: int) -> np.ndarray:
    """The free neurons after the one at `at` that are near it."""
    if not free[at]:
        return np.empty(0, dtype=np.int32)
    close = np.abs(row[at + 1 :]) >= near
    return (np.flatnonzero(close & free[at + 1 :]) + at + 1).astype(np.int32)


def _condensed(correlation: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Distances of all pairs of members, as SciPy's `linkage` takes them."""
    found = np.empty(len(members) * (len(members) - 1) // 2)
    start = 0
    for place, member in enumerate(members[:-1], start=1):
        row = correlation[member, members[place:]]
        found[start : start + len(row)] = 1 - np.abs(row)
        start += len(row)
    return found


def _in_order(of: np.ndarray) -> np.ndarray:
    """The same clusters, numbered in the order of their first neuron."""
    _, first, number = np.unique(of, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]
