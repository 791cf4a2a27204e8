"""Pairing: what base and tuned models got right, sentence by sentence, on the same words.

Words of a sentence are not independent; the sentence is the unit that is resampled and whose
sign is flipped. Everything later works on per-sentence sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from vestige.errors import AnalysisError


@dataclass(frozen=True)
class Paired:
    """Base and tuned runs on the items they share."""

    words: np.ndarray
    """(sentences,): how many shared words each sentence has."""
    base: np.ndarray
    """(sentences, layers, base seeds): how many of them were predicted right."""
    tuned: np.ndarray
    """(runs, sentences, layers, tuned seeds)."""
    layers: tuple[int, ...]
    dropped: int
    """Items that only one side has (a tokenizer or a limit that differs) and that are left out."""
    sentences: np.ndarray
    """(sentences,): their ids."""
    strata: np.ndarray | None = None
    """(sentences,): where given, the statistic is the mean over strata."""

    @property
    def weights(self) -> np.ndarray:
        """(sentences,): how much a word of each sentence counts."""
        if self.strata is None:
            return np.ones(len(self.words))
        _, codes = np.unique(self.strata, return_inverse=True)
        return 1 / np.bincount(codes, weights=self.words)[codes]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """The statistic of sums over the words of sentences: (sentences, ...) to (...)."""
        weights = self.weights
        weighted = weights.reshape(-1, *[1] * (values.ndim - 1)) * values
        return weighted.sum(0) / (weights @ self.words)


def pair(base: pd.DataFrame, tuned: Sequence[pd.DataFrame]) -> Paired:
    """Pair item tables (columns sentence, word, layer, probe_seed, correct) of one base and its tuned runs.

    Only items that every layer, seed and model has are compared; the others are left out and counted.
    """
    frames = [base, *tuned]
    layers = tuple(sorted(set.intersection(*(set(frame["layer"].unique()) for frame in frames))))
    tables = [_by_probe(frame, layers) for frame in frames]
    shared, everything = _shared_items(tables)
    if len(shared) == 0:
        raise AnalysisError(
            "base and tuned were scored on different sentences: nothing can be paired",
            fix="run both on the same corpus and split",
        )
    codes, names = pd.factorize(shared.get_level_values(0))
    words = np.bincount(codes, minlength=len(names)).astype(np.float64)
    sums = [_sums(table, shared, codes, layers) for table in tables]
    return Paired(words, sums[0], np.stack(sums[1:]), layers, everything - len(shared), np.asarray(names))


_ByProbe = dict[tuple[int, int], pd.Series]
"""By layer and seed, `correct` of every item (sentence, word)."""


def _by_probe(frame: pd.DataFrame, layers: tuple[int, ...]) -> _ByProbe:
    found: _ByProbe = {}
    for (layer, seed), part in frame.groupby(["layer", "probe_seed"], sort=False):
        if layer in layers:
            keys = pd.MultiIndex.from_arrays([part["sentence"].astype(object), part["word"].astype(int)])
            found[layer, seed] = pd.Series(part["correct"].to_numpy(dtype=np.float64), index=keys)
    seeds = {seed for _, seed in found}
    if lacking := [(layer, seed) for layer in layers for seed in seeds if (layer, seed) not in found]:
        raise AnalysisError(
            f"layer {lacking[0][0]} has no items of probe seed {lacking[0][1]}, which other layers have",
            fix="run the analysis again: every layer is scored under every seed",
        )
    return found


def _shared_items(tables: Sequence[_ByProbe]) -> tuple[pd.MultiIndex, int]:
    """The items that all probes of all tables scored, and how many some probe did."""
    indices = [items.index for table in tables for items in table.values()]
    if not indices:
        return pd.MultiIndex.from_arrays([[], []]), 0
    shared = every = indices[0]
    for other in indices[1:]:
        if not other.equals(every):
            every = every.union(other, sort=False)
        if not other.equals(shared):
            shared = shared.intersection(other, sort=False)
    return shared, len(every)


def _sums(table: _ByProbe, shared: pd.MultiIndex, codes: np.ndarray, layers: tuple[int, ...]) -> np.ndarray:
    """(sentences, layers, seeds) sums of `correct` over the shared items."""
    seeds = sorted({seed for _, seed in table})
    out = np.zeros((codes.max() + 1, len(layers), len(seeds)))
    for (layer, seed), items in table.items():
        values = items.to_numpy() if items.index.equals(shared) else items.reindex(shared).to_numpy()
        out[:, layers.index(layer), seeds.index(seed)] = np.bincount(codes, weights=values)
    return out
