"""What a tuned model is measured by, with intervals: every measure is made of sums over examples.

An interval is the percentile interval of a bootstrap over examples (sentences, pairs, questions).
As sums over a resample are a product of a matrix of counts with the examples' values, a thousand
resamples cost little; only Spearman's correlation must be ranked anew in each.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

MEASURES = {
    "accuracy": "accuracy",
    "matthews": "Matthews correlation",
    "f1": "F1",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "exact_match": "exact match",
    "las": "labelled attachment",
    "las_universal": "labelled attachment without subtypes",
    "uas": "unlabelled attachment",
}
"""Every measure that a problem has, with its title inside a sentence."""

RESAMPLES = 1000
_CHUNK = 200


class Measure(NamedTuple):
    """A value with its 95 % interval, and what always giving the most frequent answer of train would reach."""

    value: float
    low: float
    high: float
    majority: float | None = None


@dataclass(frozen=True)
class Statistic:
    """A measure before it is computed: values per example, and what is made of their sums."""

    columns: np.ndarray
    """(examples, values)."""
    of: Callable[[np.ndarray], np.ndarray]
    """From sums (..., values) to the measure (...)."""
    ranked: bool = False
    """The columns are ranked within every resample first (Spearman)."""

    @property
    def value(self) -> float:
        return float(self._on(np.arange(len(self.columns))[None])[0])

    def interval(self, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float]:
        """Percentile interval over resampled examples."""
        rng = np.random.default_rng(seed)
        count = len(self.columns)
        found = [
            self._on(rng.integers(0, count, (min(_CHUNK, resamples - start), count)))
            for start in range(0, resamples, _CHUNK)
        ]
        tail = (1 - confidence) / 2
        low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
        return float(low), float(high)

    def measure(self, majority: float | None = None) -> Measure:
        """The value with its interval."""
        return Measure(self.value, *self.interval(), majority)

    def _on(self, draws: np.ndarray) -> np.ndarray:
        """The measure on samples, given as indices (samples, examples)."""
        if self.ranked:
            from scipy.stats import rankdata

            ranks = rankdata(self.columns[draws], axis=1)
            return self.of(_moments(ranks[..., 0], ranks[..., 1]).sum(-2))
        samples, count = draws.shape
        shifted = draws + count * np.arange(samples)[:, None]
        counts = np.bincount(shifted.ravel(), minlength=samples * count).reshape(samples, count)
        return self.of(counts.astype(np.float64) @ self.columns)


def share(hits: Sequence[float] | np.ndarray, units: Sequence[float] | np.ndarray | None = None) -> Statistic:
    """Hits per unit: accuracy, words with the right tag or head, mean exact match and F1 of answers."""
    hits = np.asarray(hits, np.float64)
    units = np.ones_like(hits) if units is None else np.asarray(units, np.float64)
    return Statistic(np.stack([hits, units], 1), lambda sums: _over(sums[..., 0], sums[..., 1]))


def matthews(gold: Sequence[str], predicted: Sequence[str]) -> Statistic:
    """Matthews' correlation of labels (Gorodkin 2004 where there are more than two); 0 where one side is constant."""
    names = sorted({*gold, *predicted})
    ours, theirs = _indicators(gold, names), _indicators(predicted, names)
    hits = (ours * theirs).sum(1, keepdims=True)
    kinds = len(names)

    def of(sums: np.ndarray) -> np.ndarray:
        right, true, said = sums[..., 0], sums[..., 1 : 1 + kinds], sums[..., 1 + kinds :]
        total = true.sum(-1)
        spread = (total**2 - (said**2).sum(-1)) * (total**2 - (true**2).sum(-1))
        return _over(right * total - (true * said).sum(-1), np.sqrt(spread))

    return Statistic(np.concatenate([hits, ours, theirs], 1), of)


def f1(gold: Sequence[str], predicted: Sequence[str], positive: str) -> Statistic:
    """F1 of one label; 0 where it is neither there nor predicted."""
    true, said = (np.array([label == positive for label in labels]) for labels in (gold, predicted))
    columns = np.stack([true & said, ~true & said, true & ~said], 1).astype(np.float64)
    return Statistic(columns, lambda sums: _over(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2]))


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> Statistic:
    """Pearson's correlation; 0 where one side is constant."""
    ours, theirs = (np.asarray(values, np.float64) for values in (gold, predicted))
    return Statistic(_moments(ours - ours.mean(), theirs - theirs.mean()), _correlation)


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> Statistic:
    """Spearman's correlation: Pearson's of the ranks."""
    return Statistic(np.stack([np.asarray(gold, np.float64), np.asarray(predicted, np.float64)], 1), _correlation, True)


def attachments(
    gold: Sequence[tuple[Sequence[int], Sequence[str]]],
    predicted: Sequence[tuple[Sequence[int], Sequence[str]]],
    labels: bool,
    subtypes: bool = True,
) -> Statistic:
    """Words with the right head and, with `labels`, the right relation; punctuation counts.

    Without `subtypes`, what follows ":" in a relation plays no role (CoNLL 2017's scorer).
    """

    def relation(label: str) -> str:
        return label if subtypes else label.partition(":")[0]

    hits = [
        sum(
            head == said and (not labels or relation(label) == relation(called))
            for head, label, said, called in zip(*ours, *theirs, strict=True)
        )
        for ours, theirs in zip(gold, predicted, strict=True)
    ]
    return share(hits, [len(heads) for heads, _ in gold])


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain_answer(text: str) -> str:
    """An answer as SQuAD's scorer compares it: lower case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, gold: Sequence[str]) -> float:
    """1 if the answer is one of the gold answers; without a gold answer, if it is empty."""
    return float(any(plain_answer(predicted) == plain_answer(answer) for answer in gold or ("",)))


def answer_f1(predicted: str, gold: Sequence[str]) -> float:
    """F1 of the words shared with a gold answer, the best over all of them."""
    return max(_overlap(plain_answer(predicted).split(), plain_answer(answer).split()) for answer in gold or ("",))


def _overlap(said: list[str], true: list[str]) -> float:
    if not said or not true:
        return float(said == true)
    shared = sum((Counter(said) & Counter(true)).values())
    return 2 * shared / (len(said) + len(true))


def _indicators(labels: Sequence[str], names: Sequence[str]) -> np.ndarray:
    return np.array([[label == name for name in names] for label in labels], np.float64)


def _moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)


def _correlation(sums: np.ndarray) -> np.ndarray:
    count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    varies = np.maximum(xx - x * x / count, 0) * np.maximum(yy - y * y / count, 0)
    varies = np.where(varies > 1e-18 * np.maximum(xx * yy, 1e-300), varies, 0.0)
    return _over(xy - x * y / count, np.sqrt(varies))


def _over(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, 0 where there is nothing to divide by."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)
