"""Scores of edge probes, and what they say of layers.

A probe says yes or no to every label of every target. F1 is of these decisions: over all of them,
over those that Tenney et al. 2019 count, or of one label. Layers are summed up as in Tenney et al.
2019 (ACL): by the weights of a mix, and by what each further layer of a mix adds to the score.
"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

Scorer = Literal["micro", "tenney"]

NO_RELATION = frozenset(("Other", "no_relation"))
"""Labels of pairs that stand in no relation: what is right of them is not counted by Tenney et al."""

_ROLE = re.compile(r"(?:[RC]-)?ARG(?:[0-5A]|M.*)")
_OWN_ROLE = re.compile(r"ARG(?:[0-5A]|M.*)")


def f1(hits: np.ndarray, predicted: np.ndarray | float, gold: np.ndarray | float) -> np.ndarray:
    """2 hits / (predicted + gold), from counts of any shape; 0 where nothing was predicted and nothing is there."""
    both = np.asarray(predicted, dtype=np.float64) + gold
    return np.divide(2.0 * np.asarray(hits), both, out=np.zeros(np.broadcast(hits, both).shape), where=both > 0)


def tenney_labels(labels: Sequence[str]) -> np.ndarray:
    """Which labels Tenney et al. 2019 count; its labels say which task it is.

    Coreference (0 and 1): only 1. Semantic roles: core arguments and modifiers, not what refers back to
    one (R-) or goes on with it (C-). Relations: all but "no relation". Other tasks: all.
    """
    if set(labels) <= {"0", "1"}:
        return np.array([label == "1" for label in labels], dtype=bool)
    if any(_ROLE.fullmatch(label) for label in labels):
        return np.array([_OWN_ROLE.fullmatch(label) is not None for label in labels])
    return np.array([label not in NO_RELATION for label in labels], dtype=bool)


class EdgeCounts:
    """Gathers a probe's decisions on the targets of S sentences: by label, by sentence and by target."""

    def __init__(self, gold: np.ndarray, sentence: np.ndarray, tenney: np.ndarray) -> None:
        """gold (targets, labels) of 0 and 1; sentence (targets,) numbers from 0; tenney (labels,): which count."""
        self._gold, self._sentence = gold, sentence
        self._counted: dict[Scorer, np.ndarray] = {"micro": np.ones_like(tenney), "tenney": tenney}
        self.labels = np.zeros((gold.shape[1], 3), dtype=np.int64)
        """(labels, 3): hits, predicted, gold."""
        self.sentences = {scorer: np.zeros((sentence.max() + 1, 3), dtype=np.int64) for scorer in self._counted}
        """By scorer, (S, 3): hits, predicted, gold."""
        self.correct = np.zeros(len(gold), dtype=bool)
        """(targets,): whether exactly the right labels were given."""

    def add(self, targets: slice, predicted: np.ndarray) -> None:
        """predicted (targets, classes) of True and False; labels past the classes were not predicted."""
        gold = self._gold[targets].astype(bool)
        given = np.zeros_like(gold)
        given[:, : predicted.shape[1]] = predicted
        counts = np.stack([given & gold, given, gold], axis=-1)
        self.labels += counts.sum(0)
        self.correct[targets] = (given == gold).all(1)
        for scorer, counted in self._counted.items():
            np.add.at(self.sentences[scorer], self._sentence[targets], counts[:, counted].sum(1))

    def f1(self, scorer: Scorer) -> float:
        """Micro-averaged."""
        return float(f1(*self.sentences[scorer].sum(0)))

    def label_f1(self) -> np.ndarray:
        """(labels,)."""
        return f1(*self.labels.T)


def centre_of_gravity(weights: np.ndarray) -> float:
    """The mean layer under the weights (layers,) of a mix."""
    return float(np.arange(len(weights)) @ weights)


def divergence_from_uniform(weights: np.ndarray) -> float:
    """Kullback-Leibler divergence in nats of the weights (layers,) of a mix from equal ones: 0 if all are equal."""
    inside = weights[weights > 0]
    return float(inside @ np.log(inside * len(weights)))


def expected_layer(scores: np.ndarray) -> float:
    """The mean layer at which the score is gained: sum l d_l / sum d_l, d_l = scores[l] - scores[l - 1].

    scores (layers,) of the mixes of layers 0 to l. NaN where the whole mix is no better than layer 0.
    """
    gained = np.diff(scores)
    total = gained.sum()
    return float(np.arange(1, len(scores)) @ gained / total) if total > 0 else float("nan")
