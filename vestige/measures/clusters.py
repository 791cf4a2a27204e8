"""Clusters of vectors, and how far two clusterings of the same items, or a clustering and labels, say the same.

Clusters are numbers 0, 1, ... of every item. Two clusters match if enough of the items of either are in the other;
a cluster is pure if enough of its items carry one label (Durrani et al. 2022, section 3, with words as items).
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

BATCH = 1024
"""Items of a mini-batch."""
PASSES = 5
"""Over all items, in mini-batches."""
POLISH = 20
"""Passes of Lloyd's algorithm after them. On MiniLM's words (100 clusters of 5,000) the loss falls by 2 to 3 %, and
two seeds agree better: adjusted mutual information 0.75 instead of 0.72 at layer 3, 0.52 instead of 0.44 at layer 6."""
NONE = -1
"""Instead of a label: the cluster has none."""


@dataclass(frozen=True)
class Clusters:
    """A clustering."""

    of: np.ndarray
    """(items,): number of the item's cluster."""
    inertia: float = 0.0
    """Sum of squared distances of items to the mean of their cluster."""

    @property
    def count(self) -> int:
        """How many there are, with empty ones below the last that is not."""
        return int(self.of.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """(clusters,)."""
        return np.bincount(self.of)


def k_means(rows: np.ndarray, count: int, seed: int) -> Clusters:
    """`count` clusters of the rows (items, units): mini-batches from k-means++, then `POLISH` passes of Lloyd's.

    First centres are rows, drawn by their distances, so that nothing depends on the axes: a rotated copy of the rows
    has the same clusters under the same seed, but for rounding. Rows that are equal can leave clusters empty. One
    thread, so that sums are rounded alike everywhere.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = np.ascontiguousarray(rows, dtype=np.float64)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        rough = MiniBatchKMeans(count, batch_size=BATCH, n_init=1, max_iter=PASSES, random_state=seed).fit(rows)
        found = KMeans(count, init=rough.cluster_centers_, n_init=1, max_iter=POLISH).fit(rows)
    return Clusters(found.labels_.astype(np.int64), float(found.inertia_))


def shared(one: Clusters, other: Clusters) -> np.ndarray:
    """(clusters of one, clusters of the other): how many items are in both."""
    cells = scipy.sparse.coo_array((np.ones(len(one.of)), (one.of, other.of)), shape=(one.count, other.count))
    return cells.toarray()


def found_in(one: Clusters, other: Clusters, overlap: float, *, mutual: bool = True, least: int = 1) -> np.ndarray:
    """(clusters of one,): which of them match a cluster of the other clustering.

    At least the share `overlap` of its items is in one cluster of the other and, if `mutual`, at least that share of
    the other cluster's items is in it: clusters that were merged or split are then not found. Clusters of fewer than
    `least` items are never found.
    """
    common = shared(one, other)
    sizes = common.sum(1, keepdims=True)
    among = np.maximum(sizes, common.sum(0, keepdims=True)) if mutual else sizes
    shares = np.divide(common, among, out=np.zeros_like(common), where=among > 0)
    return (shares.max(1) >= overlap) & (sizes[:, 0] >= least)


def pure_labels(clusters: Clusters, labels: np.ndarray, purity: float, *, least: int = 1) -> np.ndarray:
    """(clusters,): the label (a whole number) of at least the share `purity` of a cluster's items, or `NONE`.

    Clusters of fewer than `least` items have none: one item is always pure.
    """
    table = shared(clusters, Clusters(labels))
    sizes = table.sum(1)
    found = (sizes >= max(least, 1)) & (table.max(1) >= purity * sizes)
    return np.where(found, table.argmax(1), NONE)


def agreement(one: Clusters, other: Clusters, items: np.ndarray | None = None) -> float:
    """Adjusted mutual information (Vinh et al. 2010) on all or some items: 1 of equal clusterings, 0 by chance."""
    from sklearn.metrics import adjusted_mutual_info_score

    chosen = slice(None) if items is None else items
    return float(adjusted_mutual_info_score(one.of[chosen], other.of[chosen]))
