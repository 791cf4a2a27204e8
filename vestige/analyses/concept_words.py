"""The words whose vectors are clustered: the same of a model and of its reference, with their labels and forms."""

from dataclasses import dataclass

import numpy as np

from vestige.analyses.base import Inputs
from vestige.analyses.word_vectors import word_labels, zero_everywhere
from vestige.errors import AnalysisError
from vestige.representations.shared import shared_rows
from vestige.representations.store import Representations

WORDS_A_CLUSTER = 20
"""So many words a cluster are asked for on average: with fewer, clusters are single words of single sentences."""


@dataclass(frozen=True)
class ConceptWords:
    """A sample of words."""

    rows: np.ndarray
    """(words,) of the model's vectors."""
    reference_rows: np.ndarray | None
    """(words,) of the reference's."""
    ids: np.ndarray
    """(words,) of the sentences."""
    sentences: np.ndarray
    """(words,) their numbers, without gaps from 0 on."""
    words: np.ndarray
    """(words,) place in the sentence."""
    forms: np.ndarray
    """(words,) the words themselves."""
    labels: np.ndarray
    """(words,) numbers of labels."""
    names: list[str]
    """Of the labels."""
    by_sentence: bool
    """Whether all words of a sentence carry its label."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def form_numbers(self) -> np.ndarray:
        """(words,) a number for every word form, in small letters."""
        return np.unique([form.lower() for form in self.forms], return_inverse=True)[1]

    def shuffled_labels(self, rng: np.random.Generator) -> np.ndarray:
        """(words,) the labels dealt anew, over sentences where words have that of their sentence."""
        if not self.by_sentence:
            return rng.permutation(self.labels)
        first = np.unique(self.sentences, return_index=True)[1]
        return rng.permutation(self.labels[first])[self.sentences]


def concept_words(inputs: Inputs, split: str, n: int | None, seed: int) -> ConceptWords:
    """At most `n` words that the model and its reference, where there is one, both have a vector of."""
    mine = inputs.split(split)
    rows, others = _common(inputs, mine, split)
    if n is not None and n < len(rows):
        drawn = np.sort(np.random.default_rng(seed).choice(len(rows), n, replace=False))
        rows, others = rows[drawn], None if others is None else others[drawn]
    if len(rows) < 2 * WORDS_A_CLUSTER:
        raise AnalysisError(
            f"{inputs.model} has {len(rows)} words of {split!r} of {inputs.task.corpus.name!r}, too few for clusters",
            fix=f"give at least {2 * WORDS_A_CLUSTER} words, better thousands: another split, or more sentences",
        )
    number, words = mine.index[rows].T
    sentences = inputs.task.corpus[split]
    labels = word_labels(inputs.task, split, number, words)
    if inputs.task.level != "token" and any(isinstance(label, float) for label in inputs.task.labels(split)):
        raise AnalysisError(
            f"labels of task {inputs.task.name!r} of corpus {inputs.task.corpus.name!r} are numbers, no classes",
            fix="choose a task whose labels are names",
        )
    names, coded = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise AnalysisError(
            f"task {inputs.task.name!r} of corpus {inputs.task.corpus.name!r} has only the label {names[0]!r} in "
            f"{split!r}: every cluster would be of one label",
            fix="choose a task with at least two labels",
        )
    return ConceptWords(
        rows,
        others,
        np.array([sentences[at].id for at in number], dtype=object),
        np.unique(number, return_inverse=True)[1],
        words,
        np.array([sentences[at].all_words[word] for at, word in zip(number, words, strict=True)], dtype=object),
        coded,
        [str(name) for name in names],
        inputs.task.level != "token",
    )


def _common(inputs: Inputs, mine: Representations, split: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows of the words that have a vector, of the model and of its reference."""
    if inputs.reference is None:
        rows = np.arange(len(mine))
        return rows[~zero_everywhere(mine, rows)], None
    theirs = inputs.reference.split(split)
    first, second = shared_rows(mine, theirs, (inputs.model, inputs.reference.model), split)
    seen = ~(zero_everywhere(mine, first) | zero_everywhere(theirs, second))
    return first[seen], second[seen]
