"""V-information in rows and items: means of bits per word, with intervals over sentences."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vestige.analyses.base import Outcome
from vestige.analyses.information_probes import Probes
from vestige.measures.jackknife import LEAST_GROUPS
from vestige.measures.resampling import bootstrap_interval
from vestige.probes.rows import LabelledRows

_MEANS = {
    "information": ("pvi", ""),
    "context": ("context", ""),
    "reference_information": ("reference_pvi", ""),
    "lost": ("both_pvi", "pvi"),
    "gained": ("both_pvi", "reference_pvi"),
}
"""By metric: the column of bits that it is the mean of, and the one that is subtracted."""


@dataclass(frozen=True)
class Scored:
    """Turns bits per word into rows with intervals over sentences, and into items.

    Of probes that depend on a seed there is a row a seed, without an interval: one over sentences alone would be too
    narrow. Comparisons give intervals with the variance over seeds.
    """

    outcome: Outcome
    probes: Probes
    rows: LabelledRows
    resamples: int
    seed: int
    stochastic: bool

    def add(self, said: Mapping[str, np.ndarray]) -> None:
        """Columns (layers, seeds, words) in bits; that of context begins at layer 1."""
        sentences, words = (column[self.probes.known] for column in self.rows.places(self.probes.split))
        layers, seeds, size = said["pvi"].shape
        padded = {name: _padded(values, layers, name == "context") for name, values in said.items()}
        for metric, (name, minus) in _MEANS.items():
            if name in padded:
                self._rows(metric, padded[name] - (padded[minus] if minus else 0.0), sentences)
        self.outcome.items = {
            "sentence": np.tile(sentences, layers * seeds),
            "word": np.tile(words, layers * seeds),
            "layer": np.repeat(np.arange(layers, dtype=np.int16), seeds * size),
            **({"probe_seed": self._numbers(layers, seeds, size)} if self.stochastic else {}),
            **{name: values.ravel() for name, values in padded.items()},
        }

    @staticmethod
    def _numbers(layers: int, seeds: int, size: int) -> np.ndarray:
        return np.tile(np.repeat(np.arange(seeds, dtype=np.int16), size), layers)

    def _rows(self, metric: str, values: np.ndarray, sentences: np.ndarray) -> None:
        """Values (layers, seeds, words)."""
        if self.stochastic:
            for layer, by_seed in enumerate(values):
                for number, mine in enumerate(by_seed):
                    if np.isfinite(mine).all():
                        self.outcome.add(metric, mine.mean(), layer=layer, probe_seed=number, n=len(mine))
            return
        values = values[:, 0]
        names, unit = np.unique(sentences.astype(str), return_inverse=True)
        sums = np.stack([np.bincount(unit, weights=np.nan_to_num(mine)) for mine in values], axis=1)
        low, high = bootstrap_interval(sums, np.bincount(unit), self.resamples, seed=self.seed)
        for layer, mine in enumerate(values):
            if np.isfinite(mine).all():
                ends = {"low": low[layer], "high": high[layer]} if len(names) >= LEAST_GROUPS else {}
                self.outcome.add(metric, mine.mean(), layer=layer, n=len(mine), **ends)


def _padded(values: np.ndarray, layers: int, above: bool) -> np.ndarray:
    """(layers, seeds, words): NaN at layers that were not measured; `above`: the first of them is layer 1."""
    found = np.full((layers, *values.shape[1:]), np.nan)
    start = 1 if above else 0
    found[start : start + len(values)] = values
    return found
