"""CKA without what may move it alone: a few words far from all others, a few units with most of the variance.

Linear CKA weighs words and units by their size. A hundredth of the words that is moved far away, all in one direction,
makes it fall though nothing else changed (Davari et al. 2023), and one huge unit that both models have keeps it high
whatever the others do. Beside the plain value there are two more:

- without **extreme words**: those among the hundredth farthest from the mean in either model;
- without **outlier dimensions**: units of either model with many times the mean variance
  (`vestige.measures.geometry.OUTLIER`). What they tell, linearly, is taken off the vectors of both models. So their own
  units are empty, and a rotation of one model, which has other units, leaves the value as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vestige.measures.cka import DEBIASED
from vestige.measures.geometry import OUTLIER
from vestige.measures.jackknife import LEAST_ITEMS
from vestige.measures.moments import Moments
from vestige.measures.vectors import Array, Items, UndefinedSimilarityError, Vectors, pair_of

EXTREME = 0.01
"""Share of the words of either model that are left out as extreme, rounded up."""
_DEPENDENT = 1e-10
"""Share of the largest variance below which a direction of outlier units is one of the others."""

Pair = tuple[Vectors, Vectors]
Triple = tuple[Moments, Moments, Moments]
"""Of x with itself, of y with itself, of both."""


def cka_without_extremes(x: Array, y: Array) -> float:
    """Debiased CKA of two arrays (items, units) without the items that are far from the mean in either."""
    first, second = pair_of(x, y)
    return extremes_of_groups(first, second, [np.arange(len(first))])[0]


def cka_without_outliers(x: Array, y: Array) -> float:
    """Debiased CKA of two arrays (items, units) without what their outlier units tell."""
    first, second = pair_of(x, y)
    return outliers_of_groups(first, second, [np.arange(len(first))])[0]


def extremes_of_groups(x: Vectors, y: Vectors, groups: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
    """The value and (groups,) what it would be without each group, where extremes are those of the rest."""
    pair = x.prepared("centred").resident(), y.prepared("centred").resident()
    left_out = [np.empty(0, dtype=np.intp), *(groups if len(groups) > 1 else ())]
    dropped = [np.union1d(*both) for both in zip(*(_farthest(one, left_out) for one in pair), strict=True)]
    sometimes = np.unique(np.concatenate(dropped))
    always = [np.setdiff1d(items, sometimes) for items in groups]
    parts = [_moments(pair, items) for items in always]
    total = _added(parts)
    found = []
    for number, (gone, without) in enumerate(zip(left_out, dropped, strict=True)):
        extra = _moments(pair, np.setdiff1d(np.setdiff1d(sometimes, without), gone))
        rest = _less(total, parts[number - 1] if number else None)
        found.append(_score(pair, _added([rest, extra])))
    return found[0], np.array(found[1:])


def outliers_of_groups(x: Vectors, y: Vectors, groups: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
    """The value and (groups,) what it would be without each group; outlier units are those of all items."""
    pair = x.prepared("centred"), y.prepared("centred")
    factors = np.concatenate([_outliers(one) for one in pair], axis=1)
    if factors.shape[1]:
        pair = _without(pair[0], factors), _without(pair[1], factors)
    pair = pair[0].resident(), pair[1].resident()
    parts = [_moments(pair, items) for items in groups]
    total = _added(parts)
    without = [_score(pair, _less(total, part)) for part in parts] if len(parts) > 1 else []
    return _score(pair, total), np.array(without)


@dataclass(frozen=True)
class _Residuals(Vectors):
    """Vectors less what a few numbers of every item tell of them."""

    factors: np.ndarray | None = None
    """(items, factors)."""
    weights: np.ndarray | None = None
    """(factors, units)."""

    def block(self, items: Items) -> np.ndarray:
        assert self.factors is not None and self.weights is not None
        return super().block(items) - self.factors[items] @ self.weights


def _without(vectors: Vectors, factors: np.ndarray) -> Vectors:
    """The residuals of a regression on the factors, all of which are around their means."""
    products = sum(factors[items].T @ vectors.block(items) for items in vectors.chunks())
    inverse = np.linalg.pinv(factors.T @ factors, rcond=_DEPENDENT, hermitian=True)
    return _Residuals(
        vectors.array, vectors.name, vectors.rows, vectors.centre, vectors.lengths, factors, inverse @ products
    )


def _outliers(vectors: Vectors) -> np.ndarray:
    """(items, outlier units): the activations of outlier units around their means."""
    blocks = (vectors.block(items) for items in vectors.chunks())
    variances = sum(np.einsum("ij,ij->j", block, block) for block in blocks)
    units = np.flatnonzero(variances > OUTLIER * np.mean(variances))
    return np.concatenate([vectors.block(items)[:, units] for items in vectors.chunks()])


def _farthest(vectors: Vectors, left_out: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each set that is left out, the items of the rest that are farthest from the mean of the rest."""
    kept = np.ones((len(left_out), len(vectors)))
    for number, items in enumerate(left_out):
        kept[number, items] = 0.0
    means = sum(kept[:, items] @ vectors.block(items) for items in vectors.chunks()) / kept.sum(1, keepdims=True)
    shift = np.einsum("ij,ij->i", means, means)[:, None]
    squares = np.empty_like(kept)
    for chunk in vectors.chunks():
        block = vectors.block(chunk)
        squares[:, chunk] = np.einsum("ij,ij->i", block, block) - 2 * means @ block.T + shift
    squares[kept == 0] = -np.inf
    counts = np.ceil(EXTREME * kept.sum(1)).astype(int)
    return [np.argsort(-row, kind="stable")[:count] for row, count in zip(squares, counts, strict=True)]


def _moments(pair: Pair, items: np.ndarray) -> Triple | None:
    x, y = pair
    return (Moments.of(x, x, items), Moments.of(y, y, items), Moments.of(x, y, items)) if len(items) else None


def _added(parts: Sequence[Triple | None]) -> Triple | None:
    there = [part for part in parts if part is not None]
    if not there:
        return None
    first, *rest = there
    for part in rest:
        first = first[0] + part[0], first[1] + part[1], first[2] + part[2]
    return first


def _less(total: Triple | None, part: Triple | None) -> Triple | None:
    if total is None or part is None:
        return total
    return total[0] - part[0], total[1] - part[1], total[2] - part[2]


def _score(pair: Pair, moments: Triple | None) -> float:
    items = 0 if moments is None else moments[0].items
    if moments is None or items < LEAST_ITEMS:
        raise UndefinedSimilarityError(
            f"{pair[0].name}: {items} items are left, but a similarity needs at least {LEAST_ITEMS}",
            fix="give more items",
        )
    of_x, of_y, between = moments
    return DEBIASED.between(between, DEBIASED.own(of_x, pair[0].name), DEBIASED.own(of_y, pair[1].name))
