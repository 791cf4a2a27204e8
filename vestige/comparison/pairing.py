"""Pairing: what base and tuned models scored, sentence by sentence, on the same items.

Words of a sentence are not independent; the sentence is the unit that is resampled and that is exchanged between
models. Everything later works on sums per sentence, whatever the estimator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vestige.comparison.estimators import F1, Difference, Estimator, Mean, Ratio, Share, StrataMean, Within
from vestige.errors import AnalysisError


@dataclass(frozen=True)
class Paired:
    """Base and tuned runs on the items they share; the score of a place is a ratio of sums over sentences."""

    places: pd.DataFrame
    """A row per place that all have: its layer, input, share of neurons ..."""
    base: np.ndarray
    """(sentences, places, base seeds): numerators."""
    tuned: np.ndarray
    """(runs, sentences, places, tuned seeds)."""
    units: np.ndarray
    """(sentences,): denominators that all models share."""
    own_units: tuple[np.ndarray, np.ndarray] | None
    """Denominators of base and tuned, shaped like the numerators, where every model has its own (F1)."""
    sentences: np.ndarray
    """(sentences,): their ids."""
    items: int
    dropped: int
    """Items that not all have (a tokenizer or a limit that differs) and that are left out."""
    strata: np.ndarray | None = None
    """(sentences,): where given, the score is the mean over strata."""

    @property
    def weights(self) -> np.ndarray:
        """(sentences,): how much a unit of each sentence counts."""
        if self.strata is None:
            return np.ones(len(self.units))
        _, codes = np.unique(self.strata, return_inverse=True)
        return 1 / np.bincount(codes, weights=self.units)[codes]

    def score(self, numerators: np.ndarray, units: np.ndarray | None = None) -> np.ndarray:
        """Scores (places, seeds) from sums (sentences, places, seeds); `units` where they are not the shared ones."""
        if units is not None:
            totals = units.sum(0)
            return np.divide(numerators.sum(0), totals, out=np.zeros(totals.shape), where=totals > 0)
        weights = self.weights
        return np.tensordot(weights, numerators, axes=1) / (weights @ self.units)


def pair(
    estimator: Estimator, base: pd.DataFrame, tuned: Sequence[pd.DataFrame], places: Sequence[str] = ("layer",)
) -> list[Paired]:
    """Pair the tables of one base and its tuned runs; `places` are names of columns that may say where a score lies.

    Only items that every place, seed and model has are compared; the others are left out and counted. Places that
    were scored under other seeds than the rest (a set of neurons that is searched once) are paired by themselves.
    """
    columns = [name for name in places if name in base and name not in estimator.selecting]
    if isinstance(estimator, Within):
        sides = [_side(estimator, column) for column in (estimator.before, estimator.after)]
        frames = [_summed(side, table, columns) for side in sides for table in tuned]
    else:
        frames = [_summed(estimator, table, columns) for table in (base, *tuned)]
    frames, uncounted = _alike(frames) if "count" in frames[0] else (frames, 0)
    tables = [_by_probe(frame, columns) for frame in frames]
    alike: dict[tuple, list[tuple]] = {}
    grouped = isinstance(estimator, Within) and bool(estimator.count)
    for place in tables[0]:
        if all(place in table for table in tables[1:]):
            seeds = tuple(tuple(sorted(table[place])) for table in tables)
            apart = [value for name, value in zip(columns, place, strict=True) if name != "layer"] if grouped else []
            alike.setdefault((seeds, *apart), []).append(place)
    groups = [[{place: table[place] for place in some} for table in tables] for some in alike.values()]
    if not groups:
        raise _nothing_in_common()
    return [_paired(estimator, group, columns, uncounted) for group in groups]


def _side(estimator: Within, column: str) -> Mean | Ratio:
    """One of the two scores of a contrast: a mean of items, or of sums over groups of them."""
    if estimator.count:
        return Ratio(estimator.table, estimator.where, column, estimator.count)
    return Mean(estimator.table, estimator.where, column)


def _paired(estimator: Estimator, tables: Sequence["_ByProbe"], columns: Sequence[str], uncounted: int) -> Paired:
    """Of tables that have the same places, each scored under the same seeds."""
    shared, everything = _shared_items(tables)
    if len(shared) == 0:
        raise _nothing_in_common()
    codes, names = pd.factorize(shared.get_level_values(0))
    first = next(iter(next(iter(tables[0].values())).values())).reindex(shared)
    units = np.bincount(codes, weights=first["units"])
    numerators = [_sums(table, "value", shared, codes) for table in tables]
    own = [_sums(table, "units", shared, codes) for table in tables] if isinstance(estimator, F1) else None
    counted = int(first["count"].sum()) if "count" in first else len(shared)
    if isinstance(estimator, Within) and estimator.count:
        counted = int(units.sum())
    before, after = _contrasted(numerators) if isinstance(estimator, Within) else (numerators[0], numerators[1:])
    return Paired(
        pd.DataFrame([*tables[0]], columns=columns, dtype=object),
        before,
        np.stack(after),
        units,
        None if own is None else (own[0], np.stack(own[1:])),
        np.asarray(names),
        counted,
        uncounted or everything - len(shared),
        first["stratum"].to_numpy()[np.unique(codes, return_index=True)[1]] if "stratum" in first else None,
    )


def _contrasted(numerators: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of both scores of every run (first all of one, then all of the other): the first, and it with each run's change.

    Runs and seeds then differ in what is asked for, the difference, and in nothing else.
    """
    runs = len(numerators) // 2
    first, second = numerators[:runs], numerators[runs:]
    level = np.broadcast_to(np.mean(first, axis=0).mean(-1, keepdims=True), first[0].shape)
    return level, [level + (after - before) for before, after in zip(first, second, strict=True)]


def _nothing_in_common() -> AnalysisError:
    return AnalysisError(
        "base and tuned were scored on different sentences or at different places: nothing can be paired",
        fix="run both on the same corpus and split, with the same parameters",
    )


def _summed(estimator: Estimator, table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Rows that count: sentence, word, place, probe_seed, value, units and, where they matter, count and stratum."""
    if isinstance(estimator, Difference):
        first, second = (_summed(part, table, columns) for part in (estimator.first, estimator.second))
        keys = [*_ITEM, *columns]
        means = first.groupby(keys, sort=False, dropna=False, observed=True)["value"].mean().rename("first")
        both = second.merge(means.reset_index(), on=keys)
        return both.assign(value=both["first"] - both["value"]).drop(columns="first")
    if lacking := sorted(estimator.columns - set(table)):
        raise AnalysisError(f"the table {estimator.table!r} has no column {lacking[0]!r}", fix="run the analysis again")
    for name, wanted in estimator.where:
        table = table[table[name] == wanted]
    found = table.reindex(columns=[*_ITEM, *columns, "probe_seed"]).fillna({"word": -1, "probe_seed": 0})
    match estimator:
        case Share() | Mean():
            more = {"value": table[estimator.column].astype(float), "units": 1.0}
        case Ratio():
            more = {"value": table[estimator.numerator].astype(float), "units": table[estimator.denominator]}
        case F1():
            more = {"value": 2.0 * table[estimator.hits], "units": table[estimator.predicted] + table[estimator.gold]}
        case StrataMean():
            inside = table[estimator.strata].between(*estimator.strata_range)
            value = table[estimator.column].astype(float).where(inside)
            more = {"value": value, "units": 1.0, "stratum": table[estimator.strata]}
        case _:
            raise TypeError(f"no way to sum a {type(estimator).__name__}")
    if count := getattr(estimator, "count", ""):
        more["count"] = table[count]
    return found.assign(**more).dropna(subset="value")


def _alike(frames: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], int]:
    """Rows of the sentences that have the same count in all tables; how many items that leaves out."""
    counts = [frame.drop_duplicates("sentence").set_index("sentence")["count"] for frame in frames]
    joined = pd.concat(counts, axis=1, join="inner")
    alike = joined.index[joined.nunique(axis=1) == 1]
    most = max(int(count.sum()) for count in counts)
    return [frame[frame["sentence"].isin(alike)] for frame in frames], most - int(counts[0].loc[alike].sum())


_ITEM = ["sentence", "word"]
_ByProbe = dict[tuple, dict[int, pd.DataFrame]]
"""By place, then by seed: the rows of every item (sentence, word)."""


def _by_probe(frame: pd.DataFrame, columns: Sequence[str]) -> _ByProbe:
    found: _ByProbe = {}
    for key, part in frame.groupby([*columns, "probe_seed"], sort=False, dropna=False, observed=True):
        *place, seed = key
        spot = tuple(None if pd.isna(value) else value for value in place)
        index = pd.MultiIndex.from_arrays([part["sentence"].astype(object), part["word"].astype(int)])
        found.setdefault(spot, {})[int(seed)] = part.set_axis(index)
    return dict(sorted(found.items(), key=lambda item: [(value is None, value) for value in item[0]]))


def _shared_items(tables: Sequence[_ByProbe]) -> tuple[pd.MultiIndex, int]:
    """The items that all probes of all tables scored, and how many some probe did."""
    indices = [items.index for table in tables for by_seed in table.values() for items in by_seed.values()]
    if not indices:
        return pd.MultiIndex.from_arrays([[], []]), 0
    shared = every = indices[0]
    for other in indices[1:]:
        if not other.equals(every):
            every = every.union(other, sort=False)
        if not other.equals(shared):
            shared = shared.intersection(other, sort=False)
    return shared, len(every)


def _sums(table: _ByProbe, column: str, shared: pd.MultiIndex, codes: np.ndarray) -> np.ndarray:
    """(sentences, places, seeds): sums over the shared items."""

    def total(items: pd.DataFrame) -> np.ndarray:
        values = items[column] if items.index.equals(shared) else items[column].reindex(shared)
        return np.bincount(codes, weights=values.to_numpy(dtype=np.float64))

    return np.stack(
        [np.stack([total(by_seed[seed]) for seed in sorted(by_seed)], axis=-1) for by_seed in table.values()], axis=1
    )
