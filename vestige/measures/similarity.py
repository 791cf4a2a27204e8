"""Similarity of all layers of two models at once, with intervals over sentences.

What belongs to one layer is found once, and measures that want the same moments share them.
Intervals (see `jackknife`) are from the same moments, less those of a group of sentences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np

from vestige.errors import AnalysisError
from vestige.measures.cca import PROCRUSTES, PWCCA, SVCCA
from vestige.measures.cka import DEBIASED, PLAIN
from vestige.measures.jackknife import GROUPS, Estimate, deal
from vestige.measures.moments import Measure, Moments
from vestige.measures.neighbours import overlap_of_groups
from vestige.measures.robust_cka import extremes_of_groups, outliers_of_groups
from vestige.measures.rsa import CENTRED_COSINE, COSINE, Correlation, Kernel, rsa_of_pairs
from vestige.measures.vectors import (
    RESIDENT,
    Array,
    Prepare,
    UndefinedSimilarityError,
    Vectors,
    check_items,
    warn_few_items,
)

BY_MOMENTS: dict[str, Measure] = {
    "rsa": COSINE,
    "rsa_centred": CENTRED_COSINE,
    "cka": DEBIASED,
    "cka_biased": PLAIN,
    "svcca": SVCCA,
    "pwcca": PWCCA,
    "procrustes": PROCRUSTES,
}
"""Linear in the items."""

BY_PAIRS: dict[str, tuple[Kernel, Correlation]] = {
    "rsa_spearman": ("cosine", "spearman"),
    "rsa_euclidean": ("euclidean", "pearson"),
}
"""Quadratic in the items."""

ROBUST: dict[str, Callable[[Vectors, Vectors, Sequence[np.ndarray]], tuple[float, np.ndarray]]] = {
    "cka_without_extremes": extremes_of_groups,
    "cka_without_outliers": outliers_of_groups,
}
"""Linear in the items, from moments of their own."""

MEASURES = (*BY_MOMENTS, *ROBUST, *BY_PAIRS, "neighbour_overlap")
BY_COSINES = ("rsa", "rsa_spearman", "neighbour_overlap")
"""Undefined for a vector that is zero."""
BIASED = ("cka_biased", "svcca", "pwcca", "procrustes")
"""High even for unrelated vectors unless items outnumber units many times."""


def similarities(
    x: Sequence[Array],
    y: Sequence[Array],
    measures: Sequence[str] = ("rsa", "cka"),
    *,
    all_pairs: bool = False,
    sentences: np.ndarray | None = None,
    rows: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
    neighbours: int = 10,
    groups: int = GROUPS,
    seed: int = 0,
) -> dict[str, dict[tuple[int, int], Estimate]]:
    """By measure and (layer of x, layer of y): corresponding layers as far as both go, or all pairs.

    `x` and `y` hold an array (items, units) per layer, memory-mapped or not; `rows` picks their rows.
    `sentences` (items,) says which sentence an item is from; without it, and for pairs of different
    layers, there is only the value. Memory beyond the arrays: per pair of layers, `groups` matrices
    of units by units, three times.
    """
    unknown = [name for name in measures if name not in MEASURES]
    if unknown:
        raise AnalysisError(f"unknown measure {unknown[0]!r}", fix=f"choose from {', '.join(MEASURES)}")
    first, second = (
        [Vectors.of(array, f"{side}, layer {number}", chosen) for number, array in enumerate(arrays)]
        for side, arrays, chosen in zip("xy", (x, y), rows, strict=True)
    )
    if not first or not second:
        raise AnalysisError(f"x has {len(first)} layers, y has {len(second)}", fix="give an array per layer of both")
    for vectors in (*first, *second):
        check_items(first[0], vectors)
    for name in (name for name in measures if name in BIASED):
        warn_few_items(max(first, key=attrgetter("width")), max(second, key=attrgetter("width")), name, "use cka")
    if sentences is not None and len(sentences) != len(first[0]):
        raise AnalysisError(
            f"x has {len(first[0])} items, the sentences of {len(sentences)} are given",
            fix="name every item's sentence",
        )
    parts = deal(sentences, groups, seed) if sentences is not None else [np.arange(len(first[0]))]
    found: dict[str, dict[tuple[int, int], Estimate]] = {name: {} for name in measures}
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        for name, estimate in _corresponding(one, other, measures, parts, neighbours):
            found[name][number, number] = estimate
    if all_pairs:
        for name, where, estimate in _grid(first, second, measures, neighbours):
            found[name][where] = estimate
    return {name: dict(sorted(estimates.items())) for name, estimates in found.items()}


def _corresponding(
    x: Vectors, y: Vectors, measures: Sequence[str], parts: Sequence[np.ndarray], neighbours: int
) -> Iterator[tuple[str, Estimate]]:
    for prepare in dict.fromkeys(BY_MOMENTS[name].prepare for name in measures if name in BY_MOMENTS):
        named = [name for name in measures if name in BY_MOMENTS and BY_MOMENTS[name].prepare == prepare]
        try:
            a, b = (vectors.prepared(prepare).resident() for vectors in (x, y))
        except UndefinedSimilarityError as error:
            yield from ((name, Estimate(np.nan, undefined=error.problem)) for name in named)
            continue
        moments = [[Moments.of(*pair, part) for part in parts] for pair in ((a, a), (b, b), (a, b))]
        for name in named:
            yield name, _from_moments(BY_MOMENTS[name], x.name, y.name, moments)
    for name in measures:
        if name not in BY_MOMENTS:
            yield name, _from_pairs(name, x, y, parts, neighbours)


def _from_moments(measure: Measure, x: str, y: str, moments: list[list[Moments]]) -> Estimate:
    totals = [sum(parts[1:], parts[0]) for parts in moments]

    def score(of_x: Moments, of_y: Moments, between: Moments) -> float:
        return measure.between(between, measure.own(of_x, x), measure.own(of_y, y))

    try:
        value = score(*totals)
    except UndefinedSimilarityError as error:
        return Estimate(np.nan, undefined=error.problem)
    if len(moments[0]) == 1:
        return Estimate(value)
    try:
        without = [score(*(t - p for t, p in zip(totals, parts, strict=True))) for parts in zip(*moments, strict=True)]
    except UndefinedSimilarityError:
        return Estimate(value)
    return Estimate(value, np.array(without))


def _from_pairs(name: str, x: Vectors, y: Vectors, parts: Sequence[np.ndarray], neighbours: int) -> Estimate:
    try:
        if name in ROBUST:
            value, without = ROBUST[name](x, y, parts)
        elif name in BY_PAIRS:
            value, without = rsa_of_pairs(x, y, *BY_PAIRS[name], parts)
        else:
            value, without = overlap_of_groups(x, y, neighbours, parts)
    except UndefinedSimilarityError as error:
        return Estimate(np.nan, undefined=error.problem)
    return Estimate(value, without if len(parts) > 1 and np.isfinite(without).all() else np.empty(0))


def _grid(
    x: Sequence[Vectors], y: Sequence[Vectors], measures: Sequence[str], neighbours: int
) -> Iterator[tuple[str, tuple[int, int], Estimate]]:
    for prepare in dict.fromkeys(BY_MOMENTS[name].prepare for name in measures if name in BY_MOMENTS):
        named = {name: m for name, m in BY_MOMENTS.items() if name in measures and m.prepare == prepare}
        budget = 2 * RESIDENT // (len(x) + len(y))
        ready = [[_ready(vectors, prepare, named, budget) for vectors in layers] for layers in (x, y)]
        for (i, (a, owns)), (j, (b, others)) in product(enumerate(ready[0]), enumerate(ready[1])):
            if i == j:
                continue
            moments = Moments.of(a, b) if a is not None and b is not None else None
            for name, measure in named.items():
                why = next((own for own in (owns[name], others[name]) if isinstance(own, str)), "")
                value = np.nan if why or moments is None else measure.between(moments, owns[name], others[name])
                yield name, (i, j), Estimate(value, undefined=why)
    for name in measures:
        if name not in BY_MOMENTS:
            for (i, first), (j, second) in product(enumerate(x), enumerate(y)):
                if i != j:
                    yield name, (i, j), _from_pairs(name, first, second, [np.arange(len(first))], neighbours)


def _ready(
    vectors: Vectors, prepare: Prepare, measures: Mapping[str, Measure], budget: int
) -> tuple[Vectors | None, dict[str, Any]]:
    """The vectors prepared, and what each measure wants to know of them alone (or why it cannot be had)."""
    try:
        made = vectors.prepared(prepare).resident(budget)
    except UndefinedSimilarityError as error:
        return None, dict.fromkeys(measures, error.problem)
    moments, owns = Moments.of(made, made), {}
    for name, measure in measures.items():
        try:
            owns[name] = measure.own(moments, vectors.name)
        except UndefinedSimilarityError as error:
            owns[name] = error.problem
    return made, owns
