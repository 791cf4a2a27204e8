"""Which words have vectors that can be measured, and the label of every word: of analyses of the vectors themselves."""

import numpy as np

from vestige.corpus.types import Task
from vestige.errors import AnalysisError
from vestige.representations.store import Representations

_BLOCK = 4096


def zero_everywhere(representations: Representations, rows: np.ndarray) -> np.ndarray:
    """(rows,) whether a word has no vector at any layer: the tokenizer made nothing of it."""
    empty = np.arange(len(rows))
    for layer in range(representations.layers):
        if len(empty):
            empty = empty[~representations.layer(layer)[rows[empty]].any(axis=1)]
    return np.isin(np.arange(len(rows)), empty)


def check_lengths(
    model: str, representations: Representations, rows: np.ndarray, task: Task, split: str, without_zeros: str = ""
) -> None:
    """Raise, naming the word, where a vector is not finite or zero at some layer only.

    Zeros are refused where `without_zeros` says what else to do: cosines need lengths.
    """
    for layer in range(representations.layers):
        array = representations.layer(layer)
        for start in range(0, len(rows), _BLOCK):
            chosen = rows[start : start + _BLOCK]
            sizes = np.abs(array[chosen]).max(axis=1)
            bad = np.flatnonzero((bool(without_zeros) & (sizes == 0)) | ~np.isfinite(sizes))
            if not len(bad):
                continue
            number, word = representations.index[chosen[bad[0]]]
            sentence = task.corpus[split][number]
            text = repr(sentence.all_words[word]) if word >= 0 else "the whole sentence"
            what = "zero, so its cosine with others is not defined" if sizes[bad[0]] == 0 else "NaN or infinite"
            raise AnalysisError(
                f"{model}, layer {layer}: the vector of {text} in {sentence.source or sentence.id} is {what}",
                fix="leave the sentence out, "
                + ("" if sizes[bad[0]] else f"{without_zeros}, ")
                + "or check the model's weights",
            )


def word_labels(task: Task, split: str, sentences: np.ndarray, words: np.ndarray) -> np.ndarray:
    """(words,) the label of every word as a text: its own, or that of its sentence (or pair of sentences)."""
    labels = task.labels(split)
    own = task.level == "token"
    found = [labels[at][word] if own else labels[at] for at, word in zip(sentences, words, strict=True)]
    return np.array([str(label) for label in found], dtype=object)
