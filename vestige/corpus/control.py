"""Control tasks and the baselines that need no model (Hewitt & Liang 2019; durrani2020, 2021).

A control task gives every word *type* a random label drawn from the task's own label
distribution, the same in every split. A probe that does well on it can memorise word types; the
distance between its accuracy on the task and on the control task is its *selectivity*.

Of a sentence the type is its first word or, for a control task that can only be memorised, its id.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from vestige.corpus.types import Sentence, Task


def control_labels(types: Iterable[str], distribution: Mapping[str, int], seed: int) -> dict[str, str]:
    """A label for every word type, drawn from `distribution` (label -> count).

    The draw is a hash of (seed, type): it depends neither on the order of the corpus nor on
    which other types there are. Types are case-sensitive.
    """
    labels = sorted(distribution)
    shares = np.cumsum([distribution[label] for label in labels], dtype=np.float64)
    shares /= shares[-1]
    key = seed.to_bytes(8, "little", signed=True)
    chosen = {}
    for word in types:
        raw = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()
        uniform = int.from_bytes(raw, "little") / 2**64
        chosen[word] = labels[int(np.searchsorted(shares, uniform, side="right"))]
    return chosen


def sentence_types(sentences: Iterable[Sentence], by: Literal["first_word", "sentence"]) -> list[str]:
    """What the control task of a sentence-level task gives one label: the first word, or the sentence itself."""
    return [sentence.words[0] if by == "first_word" else sentence.id for sentence in sentences]


def majority_label(counts: Mapping[str, int]) -> str:
    """The most frequent label; among equals the first in alphabetical order."""
    return min(counts, key=lambda label: (-counts[label], label))


def word_type_majority(train: Iterable[tuple[str, str]]) -> tuple[dict[str, str], str]:
    """Each word type's most frequent label in (word, label) of train, and the label for types never seen."""
    by_type: dict[str, Counter[str]] = defaultdict(Counter)
    overall: Counter[str] = Counter()
    for word, label in train:
        by_type[word][label] += 1
        overall[label] += 1
    return {word: majority_label(counts) for word, counts in by_type.items()}, majority_label(overall)


def baseline_accuracies(task: Task, split: str) -> dict[str, float]:
    """Accuracy of guessing without any model, and the share of words of types unseen in train."""
    train, held = (
        [pair for s in task.corpus[name] for pair in zip(s.all_words, s.annotations[task.name], strict=True)]
        for name in ("train", split)
    )
    return _guessed(train, held, "word_type_majority", "unseen_type_share")


def sentence_baselines(task: Task, split: str) -> dict[str, float]:
    """The same of a task with a label per sentence, whose type is its first word."""
    train, held = (
        list(zip(sentence_types(task.corpus[name], "first_word"), task.labels(name), strict=True))
        for name in ("train", split)
    )
    return _guessed(train, held, "first_word_majority", "unseen_first_word_share")


def _guessed(train: list[tuple[str, str]], held: list[tuple[str, str]], by_type: str, unseen: str) -> dict[str, float]:
    """The baselines of (type, label) in `held`, under the names of the two that read types."""
    table, majority = word_type_majority(train)
    return {
        "majority": sum(label == majority for _, label in held) / len(held),
        by_type: sum(label == table.get(word, majority) for word, label in held) / len(held),
        unseen: sum(word not in table for word, _ in held) / len(held),
    }
