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
    """Pair item tables (columns sentence, word, layer, probe_seed, correct) of one base and its tuned runs."""
    keys = [_item_keys(frame) for frame in (base, *tuned)]
    shared = keys[0]
    for other in keys[1:]:
        shared = shared.intersection(other, sort=False)
    if len(shared) == 0:
        raise AnalysisError(
            "base and tuned were scored on different sentences: nothing can be paired",
            fix="run both on the same corpus and split",
        )
    layers = tuple(sorted(set.intersection(*(set(frame["layer"].unique()) for frame in (base, *tuned)))))
    sentences = shared.get_level_values(0)
    codes, names = pd.factorize(sentences)
    words = np.bincount(codes, minlength=len(names)).astype(np.float64)
    tables = [_sums(frame, shared, codes, len(names), layers) for frame in (base, *tuned)]
    everything = len(keys[0].union(keys[1])) if len(tuned) == 1 else max(len(key) for key in keys)
    return Paired(words, tables[0], np.stack(tables[1:]), layers, everything - len(shared), np.asarray(names))


def _item_keys(frame: pd.DataFrame) -> pd.MultiIndex:
    """The (sentence, word) pairs a model was scored on."""
    first = frame.head(0)
    if len(frame):
        first = frame[(frame["layer"] == frame["layer"].iat[0]) & (frame["probe_seed"] == frame["probe_seed"].iat[0])]
    return pd.MultiIndex.from_arrays([first["sentence"].astype(object), first["word"].astype(int)])


def _sums(
    frame: pd.DataFrame, shared: pd.MultiIndex, codes: np.ndarray, sentences: int, layers: tuple[int, ...]
) -> np.ndarray:
    """(sentences, layers, seeds) sums of `correct` over the shared items."""
    seeds = sorted(frame["probe_seed"].unique())
    out = np.zeros((sentences, len(layers), len(seeds)))
    for (layer, seed), part in frame.groupby(["layer", "probe_seed"], sort=False):
        if layer not in layers:
            continue
        keys = pd.MultiIndex.from_arrays([part["sentence"].astype(object), part["word"].astype(int)])
        values = part["correct"].to_numpy(dtype=np.float64)
        if not keys.equals(shared):
            values = values[keys.get_indexer(shared)]
        out[:, layers.index(layer), seeds.index(seed)] = np.bincount(codes, weights=values, minlength=sentences)
    return out
