"""Linguistic Correlation Analysis: neurons ranked by the weights of a linear probe (dalvi2019, durrani2020).

For a label and a share p of mass, the label's neurons are the shortest run of its weights,
largest first, that holds p of the sum of |weights|; at p = 0 that is the one largest. The ranking
is the order in which the union over labels takes up neurons while p grows. No p needs to be
tried: a neuron's *key* is the mass above it, the smallest over labels, and the union at p is every
neuron whose key is below p.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.steps import compiled

_BLOCK_BYTES = 1 << 18
"""Labels are sorted so many bytes of masses at a time: small arrays stay in the processor's cache."""
_BELOW_ONE = np.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Ranking:
    """All neurons of a probe, the most telling first."""

    order: np.ndarray
    """Ids of all neurons, best first; those without any weight last, in a seeded order."""
    key: np.ndarray
    """Per neuron, the mass (0 to 1) beyond which it is selected; inf without any weight."""
    magnitudes: np.ndarray = field(repr=False)
    """|weights|, (labels, neurons)."""

    @property
    def ranked(self) -> int:
        """How many neurons have a weight for some label."""
        return int(np.isfinite(self.key).sum())


def rank(weights: Tensor | np.ndarray, *, seed: int = 0) -> Ranking:
    """Rank the neurons of a probe by its weights (neurons, labels), biases left out, read as float32.

    Neurons with one key follow each other by their largest share of a label's mass, then by id;
    equal weights of one label are taken by id. Neurons without any weight, of which the probe says
    nothing, come last in an order drawn with `seed`.
    """
    sizes = magnitudes(weights)
    count = sizes.shape[1]
    key, share = np.full(count, np.inf), np.zeros(count)
    loops = compiled()
    for span, packed in _sorted(sizes):
        if loops is not None:
            loops.mass_keys(packed, sizes[span], _BELOW_ONE, key, share)
            continue
        order, masses, total = _masses(packed, sizes[span])
        placed = np.empty_like(masses)
        np.put_along_axis(placed, order, masses, axis=1)
        np.minimum(key, placed.min(0), out=key)
        np.maximum(share, (sizes[span] / total).max(0), out=share)
    known = np.isfinite(key)
    if not known.any():
        raise AnalysisError(
            "all weights of the probe are zero: no neuron can be ranked", fix="train it with a smaller l1 penalty"
        )
    best = np.lexsort((-share, key))[: known.sum()]
    rest = np.random.default_rng(seed).permutation(np.flatnonzero(~known))
    return Ranking(np.concatenate([best, rest]), key, sizes)


def top(ranking: Ranking, count: int) -> np.ndarray:
    """The first `count` neurons of the ranking."""
    return ranking.order[: _existing(count, len(ranking.order))]


def bottom(ranking: Ranking, count: int) -> np.ndarray:
    """The last `count` neurons of the ranking, those without weight among them."""
    return ranking.order[len(ranking.order) - _existing(count, len(ranking.order)) :]


def per_label(ranking: Ranking, count: int) -> list[np.ndarray]:
    """Each label's neurons, best first, at the mass where the union over labels reaches `count`.

    The union is larger than `count` where several neurons have one key, as the first of every
    label have, and smaller where fewer neurons than `count` have a weight.
    """
    count = min(_existing(count, len(ranking.order)), ranking.ranked)
    if count == 0:
        return [ranking.order[:0] for _ in ranking.magnitudes]
    mass = np.partition(ranking.key, count - 1)[count - 1]
    return [
        neurons[: np.searchsorted(keys, mass, side="right")]
        for span, packed in _sorted(ranking.magnitudes)
        for neurons, keys in zip(*_masses(packed, ranking.magnitudes[span])[:2], strict=True)
    ]


def share_to_count(share: float, neurons: int) -> int:
    """How many neurons are `share` (0 to 1) of `neurons`, rounded to the nearest."""
    if not share >= 0:
        raise AnalysisError(f"a share of neurons is a number from 0 to 1, not {share}", fix="0.2 is 20 %")
    return _existing(round(share * neurons), neurons)


def _existing(count: int, neurons: int) -> int:
    if not 0 <= count <= neurons:
        raise AnalysisError(
            f"{count} neurons were asked for, but there are {neurons}",
            fix=f"ask for 0 to {neurons}, or a share from 0 to 1",
        )
    return count


def magnitudes(weights: Tensor | np.ndarray) -> np.ndarray:
    """|weights| of a probe (neurons, labels) as (labels, neurons) in float32, if all are finite."""
    array = weights.detach().cpu().numpy() if isinstance(weights, Tensor) else np.asarray(weights)
    if array.ndim != 2 or 0 in array.shape:
        raise AnalysisError(
            f"a ranking needs weights (neurons, labels), not of shape {array.shape}",
            fix="give the weights of one probe, without its biases",
        )
    found = np.abs(np.ascontiguousarray(array.T, dtype=np.float32))
    bad = ~np.isfinite(found)
    if bad.any():
        label, neuron = np.argwhere(bad)[0]
        raise AnalysisError(
            f"the weight of neuron {neuron} for label {label} is not finite", fix="train the probe with a lower rate"
        )
    return found


def _sorted(magnitudes: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """(labels, packed): numbers whose lower half are neurons, sorted by weight, equal ones by id.

    The bits of a float that is not negative sort like the float; with the id below them one integer sort is both
    stable and fast.
    """
    labels, count = magnitudes.shape
    size = max(1, _BLOCK_BYTES // (8 * count))
    for start in range(0, labels, size):
        span = slice(start, min(start + size, labels))
        packed = (0x7FFFFFFF - magnitudes[span].view(np.int32)).astype(np.int64)
        packed <<= 32
        packed |= np.arange(count)
        packed.sort(axis=1)
        yield span, packed


def _masses(packed: np.ndarray, magnitudes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order, masses, total): neurons by falling weight, the share of mass before each, and a label's whole mass.

    Weights of zero have mass inf; a label without any weight has 1 for its mass.
    """
    order = packed & 0xFFFFFFFF
    sizes = np.take_along_axis(magnitudes, order, axis=1).astype(np.float64)
    masses = np.zeros_like(sizes)
    np.cumsum(sizes[:, :-1], axis=1, out=masses[:, 1:])
    total = masses[:, -1:] + sizes[:, -1:]
    total[total == 0] = 1.0
    masses = np.minimum(masses / total, _BELOW_ONE)
    masses[sizes == 0] = np.inf
    return order, masses, total
