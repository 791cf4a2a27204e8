"""What probes of sentences find in the run, before and after tuning."""

from functools import cache, lru_cache

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings, compare
from vestige.comparison.layer_groups import MARGIN, TASK, cross_pooling, group_differences, of_pooling
from vestige.papers.lookup import pick
from vestige.papers.observed import Observed

TITLES = {"cola": "CoLA", "sst2": "SST-2", "rte": "RTE", "squad": "SQuAD"}
"""Tuned models by role."""
PROBED = {
    "bigram_shift": "bigram shift",
    "coordination_inversion": "coordination inversion",
    "odd_man_out": "odd man out",
}
SOURCES = {"senteval": "SentEval", "ewt": "EWT", "gum": "GUM", "treebank": "treebank"}
"""What the probed sentences are from, by the beginning of the corpus' name."""
POOLINGS = {"cls": "[CLS]", "sentence_mean": "mean"}
SETTINGS = Settings(resamples=1999)


class Changes:
    """Accuracies and their differences, by source, probed task, tuned model and pooling."""

    def __init__(self, side: Observed) -> None:
        self._side = side
        self._rows = pick(side.results, analysis="sentence_probe")
        there = set(self._rows["corpus"])
        self.pairs = [(s, p) for s in SOURCES for p in PROBED if f"{s}_{p}" in there]
        """Source and probed task of every set of sentences of the run."""
        probed = set(self._rows["model"])
        self.tuned = {role: title for role, title in side.tuned(TITLES).items() if role in probed}
        self.groups = cache(self._groups)
        self.layers = cache(self._layers)
        self.beyond_mean = cache(self._beyond_mean)
        self._items = cache(self._read)

    def accuracy(self, source: str, probed: str, model: str, pooling: str) -> np.ndarray:
        """By layer."""
        parts = [of_pooling(items, pooling) for items in self._items(source, probed, model)]
        return np.mean([part.groupby("layer")["correct"].mean().sort_index().to_numpy() for part in parts], axis=0)

    def _groups(self, source: str, probed: str, tuned: str, pooling: str) -> pd.DataFrame:
        """The lower and the upper layers, averaged."""
        base, runs = self._pair(source, probed, tuned, pooling)
        return group_differences(base, runs, settings=SETTINGS)

    def _layers(self, source: str, probed: str, tuned: str, pooling: str) -> pd.DataFrame:
        base, runs = self._pair(source, probed, tuned, pooling)
        return compare(TASK, base, runs, MARGIN, SETTINGS)

    def _beyond_mean(self, source: str, probed: str, tuned: str) -> pd.DataFrame:
        """Tuned [CLS] against the base model's mean."""
        base, runs = self._items(source, probed, "base")[0], self._items(source, probed, tuned)
        return cross_pooling(base, runs, settings=SETTINGS)

    def title(self, source: str, probed: str) -> str:
        """'bigram shift (EWT)'."""
        return f"{PROBED[probed]} ({SOURCES[source]})"

    def poolings(self, source: str, probed: str) -> pd.DataFrame:
        """Mean minus [CLS] of the base model, over all layers but the embeddings: a table of one row."""
        items = self._items(source, probed, "base")[0]
        cls, mean = (of_pooling(items, pooling) for pooling in POOLINGS)
        blocks = {"blocks": [layer for layer in sorted(cls["layer"].unique()) if layer]}
        return group_differences(cls, [mean], blocks, SETTINGS)

    def pooling_gains(self, source: str, probed: str, tuned: str) -> pd.DataFrame:
        """What [CLS] gains by tuning minus what the mean gains, in the lower and the upper layers."""
        base, *runs = (
            _cls_minus_mean(items) for model in ("base", tuned) for items in self._items(source, probed, model)
        )
        return group_differences(base, runs, settings=SETTINGS)

    def _pair(self, source: str, probed: str, tuned: str, pooling: str) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
        base, *runs = (
            of_pooling(items, pooling) for model in ("base", tuned) for items in self._items(source, probed, model)
        )
        return base, runs

    def _read(self, source: str, probed: str, model: str) -> list[pd.DataFrame]:
        cells = pick(self._rows, corpus=f"{source}_{probed}", model=model)["cell"].unique()
        return [self._side.items(str(cell)) for cell in cells]


def _cls_minus_mean(items: pd.DataFrame) -> pd.DataFrame:
    """Items whose `correct` is 1 where [CLS] is right and the mean is not, -1 the other way round, else 0."""
    keys = ["sentence", "word", "subset", "probe_seed", "layer"]
    cls, mean = (of_pooling(items, pooling).set_index(keys)["correct"].astype(float) for pooling in POOLINGS)
    return (cls - mean).rename("correct").reset_index()


@lru_cache(maxsize=8)
def changes_of(side: Observed) -> Changes:
    """Worked out once for all statements and figures of a base model."""
    return Changes(side)
