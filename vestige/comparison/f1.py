"""Differences of F1 between the edge probes of a tuned model and of its reference.

F1 is a ratio of sums, no mean: sentences are drawn, or exchanged between the models, and both sums taken anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vestige.comparison.differences import Settings
from vestige.comparison.uncertainty import Judged, Scores, judge_differences
from vestige.errors import AnalysisError
from vestige.measures.edge_scores import Scorer, f1
from vestige.measures.resampling import chunks, drawn_counts

_CHUNK = 250


@dataclass(frozen=True)
class F1Differences:
    """Tuned minus base, per input of the probes."""

    inputs: tuple[str, ...]
    scores: Scores
    """F1 by input, seed and run."""
    judged: Judged
    sd_items: np.ndarray
    """(inputs,): of the difference, over sentences."""
    compared: tuple[Any, ...]
    """Ids of the sentences."""
    dropped: int
    """Targets of the base that are not compared, as some model lacks targets of their sentence."""

    @property
    def base(self) -> np.ndarray:
        """(inputs,): the mean over seeds."""
        return self.scores.base.mean(1)

    @property
    def tuned(self) -> np.ndarray:
        """(inputs,): the mean over runs and seeds."""
        return self.scores.tuned.mean((0, 2))


def f1_differences(
    base: Mapping[Any, Any],
    tuned: Sequence[Mapping[Any, Any]],
    scorer: Scorer = "micro",
    settings: Settings | None = None,
    *,
    stochastic: bool = True,
) -> F1Differences:
    """From the tables `sentences` that edge probes leave; `stochastic`: seeds are trainings of the probes.

    Only inputs that all tables have are compared, and only sentences of which all tables have as many targets
    (another limit of tokens may cost some).
    """
    settings = settings or Settings()
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
    distribution = _resampled(before, after, settings.resamples, settings.seed)
    scores = Scores(_f1_of_sums(before.sum(0)), np.stack([_f1_of_sums(run.sum(0)) for run in after]), stochastic)

    def exchange_p() -> np.ndarray:
        return _exchange_p(before.mean(2), after[0].mean(2), settings.resamples, settings.seed)

    limits = {"confidence": settings.confidence, "margin": settings.margin}
    judged = judge_differences(scores, distribution, len(sentences), exchange_p, **limits)
    dropped = sum(mine.values()) - sum(mine[one] for one in sentences)
    return F1Differences(tuple(inputs), scores, judged, distribution.std(0, ddof=1), tuple(sentences), dropped)


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
