"""Words that two models both have a vector of, and the label of every word."""

import numpy as np

from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.representations.store import Representations


def row_keys(representations: Representations) -> np.ndarray:
    """(rows,) one number for sentence, word and, where words are in pieces, the piece's place in its word."""
    sentence, word = representations.index.astype(np.int64).T
    places = np.arange(len(word))
    opening = np.r_[True, (sentence[1:] != sentence[:-1]) | (word[1:] != word[:-1])][: len(word)]
    piece = places - np.maximum.accumulate(np.where(opening, places, 0))
    return sentence << 36 | (word + 1) << 12 | piece


def shared_rows(
    mine: Representations, theirs: Representations, names: tuple[str, str], split: str
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of either model for the words that both have, in the same order; an error if sentences differ."""
    digests = [found.manifest.get("words_digest") for found in (mine, theirs)]
    if None not in digests and digests[0] != digests[1]:
        raise AnalysisError(
            f"{names[0]} and {names[1]} were shown different sentences of {split!r}",
            fix="compare representations of one corpus",
        )
    _, first, second = np.intersect1d(row_keys(mine), row_keys(theirs), assume_unique=True, return_indices=True)
    return first, second


def zero_everywhere(representations: Representations, rows: np.ndarray) -> np.ndarray:
    """(rows,) whether a word has no vector at any layer: the tokenizer made nothing of it."""
    empty = np.arange(len(rows))
    for layer in range(representations.layers):
        if len(empty):
            empty = empty[~representations.layer(layer)[rows[empty]].any(axis=1)]
    return np.isin(np.arange(len(rows)), empty)


def word_labels(task: Task, split: str, sentences: np.ndarray, words: np.ndarray) -> np.ndarray:
    """(words,) the label of every word as a text: its own, or that of its sentence (or pair of sentences)."""
    labels = task.labels(split)
    own = task.level == "token"
    found = [labels[at][word] if own else labels[at] for at, word in zip(sentences, words, strict=True)]
    return np.array([str(label) for label in found], dtype=object)
