"""Single neurons: the words and sentences they respond to, and how labels divide their values.

Values are z-values: distances from a neuron's mean over all rows, in standard deviations. A
neuron's own sign is the side on which its values reach further out (the sign of their skewness);
"strong" means far out on that side. Only the columns of the chosen neurons are read, a few at a
time. Texts go out as they are: whoever shows them escapes them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vestige.corpus.types import Sentence, words_digest
from vestige.errors import AnalysisError, RepresentationError
from vestige.neurons.matrix import Neurons
from vestige.neurons.spread import checked_ids
from vestige.representations.store import Representations

COLUMNS_AT_ONCE = 32


@dataclass(frozen=True)
class Neuron:
    """One neuron over all rows of a corpus."""

    id: int
    layer: int
    unit: int
    values: np.ndarray
    """(rows,) float32."""

    @cached_property
    def mean(self) -> float:
        return float(self.values.mean(dtype=np.float64))

    @cached_property
    def deviation(self) -> float:
        """Standard deviation; exactly 0 of a constant neuron, float32 values being summed in float64."""
        return float(self.values.std(dtype=np.float64))

    @cached_property
    def z(self) -> np.ndarray:
        """(rows,) float64; zeros of a constant neuron."""
        return (self.values - np.float64(self.mean)) / (self.deviation or np.inf)

    @cached_property
    def sign(self) -> int:
        """Its own sign, 1 or -1; 0 of a constant neuron."""
        return 0 if not self.deviation else 1 if (self.z**3).mean() >= 0 else -1

    @property
    def strength(self) -> np.ndarray:
        """(rows,): z-values on the neuron's own side, by which words are ranked."""
        return self.sign * self.z


def look_at(neurons: Neurons, ids: ArrayLike) -> Iterator[Neuron]:
    """The chosen neurons, in the order given."""
    chosen = checked_ids(ids, neurons.width)
    if not len(neurons):
        raise AnalysisError("representations without a single row", fix="represent at least one sentence")
    for start in range(0, len(chosen), COLUMNS_AT_ONCE):
        some = chosen[start : start + COLUMNS_AT_ONCE]
        for neuron, values in zip(some, neurons.columns(some).T.copy(), strict=True):
            layer, unit = int(neurons.layer_of(neuron)), int(neurons.unit_of(neuron))
            if not np.isfinite(values).all():
                raise RepresentationError(
                    f"neuron {neuron} (layer {layer}, unit {unit}): {(~np.isfinite(values)).sum()} of {len(values)} "
                    "activations are NaN or infinite",
                    fix="leave the neuron out, or check the model and extract its representations again",
                )
            yield Neuron(int(neuron), layer, unit, values)


@dataclass(frozen=True)
class TypeStrength:
    """A word type and the mean z-value of its occurrences."""

    word: str
    count: int
    z: float


class Occurrence(NamedTuple):
    """A word in its sentence."""

    word: str
    sentence: int
    position: int
    z: float


class TopSentence(NamedTuple):
    """A sentence and the z-value of its strongest word (of itself, where rows are sentences)."""

    sentence: int
    z: float


class TopWords(NamedTuple):
    """What a neuron responds to, strongest first; nothing at all of a constant neuron."""

    types: list[TypeStrength]
    occurrences: list[Occurrence]


class Words(NamedTuple):
    """The words behind rows: the types, the type of each row, and how often each type occurs."""

    types: list[str]
    type_of: np.ndarray
    counts: np.ndarray


def strongest_words(neuron: Neuron, words: Words, index: np.ndarray, k: int, min_count: int) -> TopWords:
    """The k strongest word types that occur at least `min_count` times, and the k strongest words.

    `index` is that of the representations: sentence and word number per row.
    """
    if not neuron.sign:
        return TopWords([], [])
    strength = neuron.strength
    means = np.bincount(words.type_of, weights=strength, minlength=len(words.types)) / words.counts
    frequent = np.flatnonzero(words.counts >= min_count)
    types = [
        TypeStrength(words.types[t], int(words.counts[t]), float(neuron.sign * means[t]))
        for t in frequent[np.argsort(-means[frequent], kind="stable")[:k]]
    ]
    occurrences = [
        Occurrence(words.types[words.type_of[row]], int(index[row, 0]), int(index[row, 1]), float(neuron.z[row]))
        for row in np.argsort(-strength, kind="stable")[:k]
    ]
    return TopWords(types, occurrences)


def strongest_sentences(neuron: Neuron, index: np.ndarray, k: int) -> list[TopSentence]:
    """The k sentences with the strongest words; none of a constant neuron."""
    best: dict[int, float] = {}
    for row in np.argsort(-neuron.strength, kind="stable") if neuron.sign else ():
        if len(best) == k:
            break
        best.setdefault(int(index[row, 0]), float(neuron.z[row]))
    return [TopSentence(sentence, z) for sentence, z in best.items()]


def activation_over_sentence(neuron: Neuron, words: int, index: np.ndarray, sentence: int) -> list[float | None]:
    """Per word of a sentence a value in [-1, 1] for a heat map; None of a word without a row.

    0 is the neuron's mean and 1 its largest distance from it in the whole corpus: colours mean
    the same in all sentences.
    """
    values: list[float | None] = [None] * words
    largest = float(np.abs(neuron.z).max()) or 1.0
    for row in np.flatnonzero(index[:, 0] == sentence):
        values[index[row, 1]] = float(neuron.z[row]) / largest
    return values


class Histogram(NamedTuple):
    """How often a neuron's values fall between edges (bins + 1,), by label (bins,)."""

    edges: np.ndarray
    counts: dict[str, np.ndarray]


def label_histogram(activations: ArrayLike, labels: Sequence[str], bins: int = 20) -> Histogram:
    """The distribution of one neuron's values within every label, over the same edges."""
    values, names = np.asarray(activations), np.asarray(labels)
    if values.ndim != 1 or names.shape != values.shape or not len(values):
        raise AnalysisError(
            f"expected one label per activation, found {names.shape} labels and {values.shape} activations",
            fix="give the activations of one neuron and the labels of the same rows",
        )
    if not np.isfinite(values).all():
        raise RepresentationError("a histogram of NaN or infinite activations", fix="leave the neuron out")
    edges = np.histogram_bin_edges(values, bins)
    return Histogram(edges, {str(name): np.histogram(values[names == name], edges)[0] for name in np.unique(names)})


def explorer_data(
    representations: Representations,
    sentences: Sequence[Sentence],
    ids: ArrayLike,
    *,
    labels: Sequence[str] | None = None,
    selected_for: Mapping[str, ArrayLike] | None = None,
    k: int = 10,
    top: int = 5,
    min_count: int = 3,
    bins: int = 20,
    shown_labels: int = 8,
) -> dict[str, Any]:
    """What a report's neuron explorer shows, ready for JSON: k words and `top` sentences of every neuron.

    `labels` has one label per row, `selected_for` the neurons of each label. A histogram shows
    the most frequent labels and those the neuron was selected for; the rest goes together, under
    the label None. Values of sentences are those of `activation_over_sentence`.
    """
    given = representations.manifest.get("words_digest")
    if given is not None and given != words_digest(sentences):
        raise RepresentationError(
            "the representations are of other sentences than those given", fix="give the sentences represented"
        )
    neurons, index = Neurons.of(representations), representations.index
    words = words_of(sentences, index, len(neurons))
    common = [label for label, _ in Counter(labels or ()).most_common(shown_labels)]
    sets = {label: checked_ids(of, neurons.width, label) for label, of in (selected_for or {}).items()}

    def describe(neuron: Neuron) -> dict[str, Any]:
        strongest = strongest_words(neuron, words, index, k, min_count)
        serves = [label for label, of in sets.items() if neuron.id in of]
        best = [
            {
                **one._asdict(),
                "words": list(text := sentences[one.sentence].all_words),
                "values": activation_over_sentence(neuron, len(text), index, one.sentence),
            }
            for one in strongest_sentences(neuron, index, top)
        ]
        return {
            **{name: getattr(neuron, name) for name in ("id", "layer", "unit", "sign", "mean", "deviation")},
            "selected_for": serves,
            "words": [vars(one) for one in strongest.types],
            "occurrences": [one._asdict() for one in strongest.occurrences],
            "sentences": best,
            "histogram": None if labels is None else _histogram(neuron, labels, {*common, *serves}, bins),
        }

    found = [_rounded(describe(neuron)) for neuron in look_at(neurons, ids)]
    return {"model": representations.manifest.get("model"), "rows": len(neurons), "neurons": found}


def _histogram(neuron: Neuron, labels: Sequence[str], shown: set[str], bins: int) -> dict[str, Any]:
    edges, counts = label_histogram(neuron.values, labels, bins)
    parts: list[tuple[str | None, np.ndarray]] = [(label, counts[label]) for label in counts if label in shown]
    rest = [counts[label] for label in counts if label not in shown]
    if rest:
        parts.append((None, np.sum(rest, axis=0)))
    return {"edges": edges.tolist(), "labels": [{"label": label, "counts": part.tolist()} for label, part in parts]}


def _rounded(value: Any) -> Any:
    """Floats with four significant digits, all the way down."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def words_of(sentences: Sequence[Sentence], index: np.ndarray, rows: int) -> Words:
    """The words of rows, if the index is one of these sentences."""
    _check_index(sentences, index, rows)
    numbers: dict[str, int] = {}
    texts = [sentence.all_words for sentence in sentences]
    types = [numbers.setdefault(texts[sentence][word], len(numbers)) for sentence, word in index.tolist()]
    return Words(list(numbers), np.array(types, dtype=np.int64), np.bincount(types))


def _check_index(sentences: Sequence[Sentence], index: np.ndarray, rows: int) -> None:
    if index.shape != (rows, 2):
        raise RepresentationError(
            f"an index of shape {index.shape} for {rows} rows", fix="take the index of these representations"
        )
    numbers, words = index.T
    if (words < 0).any():
        raise RepresentationError(
            "the rows are sentences, not words", fix="use a word pooling (first, last, mean, max)"
        )
    sizes = np.array([len(sentence.all_words) for sentence in sentences])
    known = (numbers >= 0) & (numbers < len(sizes))
    known[known] = words[known] < sizes[numbers[known]]
    for number, word in index[~known][:1]:
        found = (
            f"sentence {number} has {sizes[number]} words" if 0 <= number < len(sizes) else f"there are {len(sizes)}"
        )
        raise RepresentationError(
            f"the index speaks of word {word} of sentence {number} (counted from 0), but {found}",
            fix="give the sentences represented, in their order",
        )
