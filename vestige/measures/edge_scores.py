"""Scores of edge probes, and what they say of layers.

A probe says yes or no to every label of every target. F1 is of these decisions: over all of them,
over those that Tenney et al. 2019 count, or of one label. Layers are summed up as in Tenney et al.
2019 (ACL): by the weights of a mix, and by what each further layer of a mix adds to the score.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vestige.errors import AnalysisError
from vestige.measures.resampling import chunks, drawn_counts, interval
from vestige.measures.student import Student

Scorer = Literal["micro", "tenney"]

NO_RELATION = frozenset(("Other", "no_relation"))
"""Labels of pairs that stand in no relation: what is right of them is not counted by Tenney et al."""

_ROLE = re.compile(r"(?:[RC]-)?ARG(?:[0-5A]|M.*)")
_OWN_ROLE = re.compile(r"ARG(?:[0-5A]|M.*)")
_CHUNK = 250


def f1(hits: np.ndarray, predicted: np.ndarray | float, gold: np.ndarray | float) -> np.ndarray:
    """2 hits / (predicted + gold), from counts of any shape; 0 where nothing was predicted and nothing is there."""
    both = np.asarray(predicted, dtype=np.float64) + gold
    return np.divide(2.0 * np.asarray(hits), both, out=np.zeros(np.broadcast(hits, both).shape), where=both > 0)


def tenney_labels(labels: Sequence[str]) -> np.ndarray:
    """Which labels Tenney et al. 2019 count; the task is told by its labels.

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


@dataclass(frozen=True)
class F1Differences:
    """Tuned minus base, per input of the probes."""

    inputs: tuple[str, ...]
    base: np.ndarray
    """(inputs,): F1, the mean over seeds."""
    by_run: np.ndarray
    """(runs, inputs): F1 of the tuned model, the mean over seeds."""
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    """(inputs,): two-sided. Of one run: of the hypothesis that of every sentence base and tuned could be exchanged."""
    distribution: np.ndarray
    """(resamples, inputs): the difference on sentences drawn anew, the mean over runs."""
    compared: tuple[Any, ...]
    """Ids of the sentences."""
    dropped: int
    """Targets of the base that are not compared, as some model lacks targets of their sentence."""
    by_seed: np.ndarray
    """(inputs, seeds): the difference by seed of the probes, the mean over runs; none where models differ in seeds."""

    @property
    def sentences(self) -> int:
        return len(self.compared)

    @property
    def tuned(self) -> np.ndarray:
        """(inputs,): the mean over runs."""
        return self.by_run.mean(0)

    @property
    def difference(self) -> np.ndarray:
        return self.tuned - self.base


def f1_differences(
    base: Mapping[Any, Any],
    tuned: Sequence[Mapping[Any, Any]],
    scorer: Scorer = "micro",
    resamples: int = 4999,
    confidence: float = 0.95,
    seed: int = 0,
) -> F1Differences:
    """Differences of F1 with intervals over sentences and runs, from the tables `sentences` that edge probes leave.

    F1 is a ratio of sums, no mean: sentences are drawn and both sums taken anew. Runs, where there are
    several, are a second source of error. Only inputs that all tables have are compared, and only sentences
    of which all tables have as many targets (another limit of tokens may cost some).
    """
    tables = [_Table.of(table, scorer) for table in (base, *tuned)]
    mine = tables[0].targets
    sentences = [one for one in mine if all(table.targets.get(one) == mine[one] for table in tables[1:])]
    inputs = [one for one in tables[0].inputs if all(one in table.inputs for table in tables[1:])]
    if not sentences or not inputs:
        raise AnalysisError(
            f"edge probes that share {len(sentences)} sentences with all their targets and {len(inputs)} inputs cannot "
            "be compared",
            fix="run both with the same parameters on the same corpus and split",
        )
    before, *after = (table.cut(sentences, inputs) for table in tables)
    distribution = _resampled(before, after, resamples, seed)
    by_seed = [_f1_of_sums(table.sum(0)) for table in (before, *after)]
    alike = len({scores.shape for scores in by_seed}) == 1
    seeds = np.mean(by_seed[1:], axis=0) - by_seed[0] if alike else np.empty((len(inputs), 0))
    base_score, *scores = (each.mean(-1) for each in by_seed)
    by_run = np.stack(scores)
    dropped = sum(mine.values()) - sum(mine[one] for one in sentences)
    if len(after) == 1:
        low, high = interval(distribution, confidence)
        p = _exchange_p(before.mean(2), after[0].mean(2), resamples, seed)
    else:
        found = Student.over_runs(by_run - base_score, distribution.std(0, ddof=1), len(sentences))
        low, high = found.interval(confidence)
        p = found.p
    compared = tuple(sentences)
    return F1Differences(tuple(inputs), base_score, by_run, low, high, p, distribution, compared, dropped, seeds)


@dataclass(frozen=True)
class _Table:
    """Twice the hits, and predicted + gold, by sentence, input and seed."""

    sentences: dict[Any, int]
    inputs: dict[Any, int]
    sums: np.ndarray
    """(sentences, inputs, seeds, 2)."""
    targets: dict[Any, int]
    """By sentence."""

    @classmethod
    def of(cls, table: Mapping[Any, Any], scorer: Scorer) -> "_Table":
        keys = [np.asarray(table[name]).tolist() for name in ("sentence", "subset", "probe_seed")]
        numbers = [{value: at for at, value in enumerate(dict.fromkeys(column))} for column in keys]
        place = tuple(
            np.array([number[value] for value in column], dtype=np.intp)
            for number, column in zip(numbers, keys, strict=True)
        )
        prefix = "" if scorer == "micro" else "tenney_"
        hits, predicted, gold = (np.asarray(table[prefix + name]) for name in ("hits", "predicted", "gold"))
        sums = np.zeros((*map(len, numbers), 2))
        sums[place] = np.stack([2 * hits, predicted + gold], axis=-1)
        targets = dict(zip(keys[0], np.asarray(table["targets"]).tolist(), strict=True))
        return cls(numbers[0], numbers[1], sums, targets)

    def cut(self, sentences: Sequence[Any], inputs: Sequence[Any]) -> np.ndarray:
        """The sums of these sentences and inputs, in their order."""
        rows = [self.sentences[one] for one in sentences]
        return self.sums[rows][:, [self.inputs[one] for one in inputs]]


def _f1_of_sums(sums: np.ndarray) -> np.ndarray:
    """F1 from a last axis of (2 hits, predicted + gold)."""
    return f1(sums[..., 0] / 2, sums[..., 1], 0.0)


def _resampled(before: np.ndarray, after: Sequence[np.ndarray], resamples: int, seed: int) -> np.ndarray:
    """(resamples, inputs): differences of F1 on drawn sentences, the mean over runs; NaN of a single sentence."""
    if len(before) < 2:
        return np.full((resamples, before.shape[1]), np.nan)
    rng = np.random.default_rng(seed)
    found = []
    for size in chunks(resamples, _CHUNK):
        counts = drawn_counts(rng, size, len(before))
        base, *tuned = (_f1_of_sums(np.tensordot(counts, table, axes=1)).mean(-1) for table in (before, *after))
        found.append(np.mean(tuned, axis=0) - base)
    return np.concatenate(found)


def _exchange_p(before: np.ndarray, after: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """(inputs,): how often exchanging base and tuned of some sentences gives as large a difference.

    before, after (sentences, inputs, 2): sums, the means over seeds.
    """
    rng = np.random.default_rng(seed)
    middle, half = (before + after).sum(0) / 2, (after - before) / 2

    def difference(moved: np.ndarray) -> np.ndarray:
        return _f1_of_sums(middle + moved) - _f1_of_sums(middle - moved)

    observed = np.abs(difference(half.sum(0)))
    extreme = np.zeros(len(observed))
    for size in chunks(resamples, _CHUNK):
        signs = rng.integers(0, 2, size=(size, len(before))) * 2.0 - 1.0
        extreme += (np.abs(difference(np.tensordot(signs, half, axes=1))) >= observed - 1e-12).sum(0)
    return (extreme + 1) / (resamples + 1)
