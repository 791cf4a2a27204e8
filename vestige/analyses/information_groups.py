"""Which words and constructions lost or gained: pointwise V-information by label, frequency, length, place in a tree.

A group is shown only where it has enough words in enough sentences for a test; what is smaller is counted. Groups are
compared like everything else, over sentences and with false-discovery control over all groups, layers and tasks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vestige.comparison.differences import LEAST_SENTENCES
from vestige.corpus.types import Sentence, Task
from vestige.probes.rows import LabelledRows

FREQUENCIES = ((0, "not in train"), (3, "1 to 3"), (20, "4 to 20"), (100, "21 to 100"), (np.inf, "more than 100"))
LENGTHS = ((10, "up to 10"), (20, "11 to 20"), (30, "21 to 30"), (np.inf, "more than 30"))
LETTERS = ((3, "1 to 3"), (6, "4 to 6"), (9, "7 to 9"), (np.inf, "10 or more"))
DISTANCES = ((0, "root"), (1, "1"), (2, "2"), (5, "3 to 5"), (np.inf, "6 or more"))
"""Upper ends of bins, and their names."""

KINDS = {
    "label": "Label",
    "relation": "Relation to the head",
    "distance": "Words to the head",
    "frequency": "Occurrences of the word in train",
    "letters": "Letters of the word",
    "length": "Words of the sentence",
    "word": "Word",
}
"""What words are grouped by: the value of the column `subset`, and its title."""


class Groups(NamedTuple):
    """The words of a split by every kind of group."""

    names: dict[str, np.ndarray]
    """By kind (scored words,): the group of every word; '' where it is in none."""
    small: int
    """Groups that have too few words or sentences to be shown."""
    all: int


def grouped(task: Task, split: str, rows: LabelledRows, known: np.ndarray, least: int) -> Groups:
    """Of the words that are scored; groups of fewer than `least` words or `LEAST_SENTENCES` sentences are left out."""
    index = rows.representations[split].index[known]
    sentences = task.corpus[split]
    found, small, total = {}, 0, 0
    for kind, names in _named(task, sentences, index, rows, split, known).items():
        big = set()
        for name in sorted({*names} - {""}):
            mine = names == name
            enough = mine.sum() >= least and len(np.unique(index[mine, 0])) >= LEAST_SENTENCES
            total, small = total + (kind != "word"), small + (kind != "word" and not enough)
            big |= {name} if enough else set()
        found[kind] = np.array([name if name in big else "" for name in names], dtype=object)
    return Groups({kind: names for kind, names in found.items() if (names != "").any()}, small, total)


def _named(
    task: Task, sentences: Sequence[Sentence], index: np.ndarray, rows: LabelledRows, split: str, known: np.ndarray
) -> Mapping[str, np.ndarray]:
    types = np.array(rows.types[split], dtype=object)[known]
    often = Counter(rows.types["train"])
    classes = np.array(rows.classes, dtype=object)
    of = [(sentences[s], int(w)) for s, w in index]
    found: dict[str, Sequence[str]] = {
        "label": classes[rows.labels[split].numpy()[known]],
        "frequency": [_bin(FREQUENCIES, often[word]) for word in types],
        "letters": [_bin(LETTERS, len(word)) for word in types],
        "length": [_bin(LENGTHS, len(sentence.all_words)) for sentence, _ in of],
        "word": types,
    }
    if task.name != "deprel" and all("deprel" in sentence.annotations for sentence, _ in of):
        found["relation"] = [str(sentence.annotations["deprel"][word]) for sentence, word in of]
    if all(_has_heads(sentence) for sentence in {id(one): one for one, _ in of}.values()):
        found["distance"] = [_bin(DISTANCES, _distance(sentence, word)) for sentence, word in of]
    return {kind: np.array(names, dtype=object) for kind, names in found.items()}


def _bin(bins: Sequence[tuple[float, str]], value: float) -> str:
    return next(name for end, name in bins if value <= end)


def _has_heads(sentence: Sentence) -> bool:
    heads = sentence.annotations.get("head", ())
    return len(heads) == len(sentence.all_words) and all(isinstance(head, int) for head in heads)


def _distance(sentence: Sentence, word: int) -> int:
    """Words from a word to its head; 0 of a root."""
    head = sentence.annotations["head"][word]
    return abs(head - 1 - word) if head else 0


def group_sums(
    groups: Groups,
    sentences: np.ndarray,
    ids: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    stochastic: bool = False,
) -> dict[str, np.ndarray]:
    """The table `groups`: for every layer, group and sentence the sums of both sides, and of how many words.

    `sentences` (words,) are numbers of sentences and `ids` their names; `before` and `after` (layers, seeds, words),
    in bits. The seeds of `stochastic` probes are told apart by the column probe_seed.
    """
    by_seed = [_sums(groups, sentences, ids, before[:, seed], after[:, seed]) for seed in range(before.shape[1])]
    found = {name: np.concatenate([one[name] for one in by_seed]) for name in by_seed[0]}
    if stochastic:
        sizes = [len(one["n"]) for one in by_seed]
        found["probe_seed"] = np.repeat(np.arange(len(by_seed), dtype=np.int16), sizes)
    return found


def _sums(
    groups: Groups, sentences: np.ndarray, ids: np.ndarray, before: np.ndarray, after: np.ndarray
) -> dict[str, np.ndarray]:
    """Of one seed: `before` and `after` (layers, words)."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("sentence", "subset", "label", "layer", "n", "before", "after")
    }
    for kind, names in groups.names.items():
        chosen = names != ""
        labels, code = np.unique(names[chosen].astype(str), return_inverse=True)
        pairs, place = np.unique(sentences[chosen] * len(labels) + code, return_inverse=True)
        for layer, both in enumerate(zip(before[:, chosen], after[:, chosen], strict=True)):
            columns["sentence"].append(ids[pairs // len(labels)])
            columns["subset"].append(np.full(len(pairs), kind, dtype=object))
            columns["label"].append(labels[pairs % len(labels)].astype(object))
            columns["layer"].append(np.full(len(pairs), layer, dtype=np.int16))
            columns["n"].append(np.bincount(place))
            for name, values in zip(("before", "after"), both, strict=True):
                columns[name].append(np.bincount(place, weights=values))
    return {name: np.concatenate(parts) for name, parts in columns.items() if parts}


def group_means(table: Mapping[str, np.ndarray]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Of the table of sums: the change of every group, layer and seed, and where it lies."""
    places = [name for name in ("subset", "label", "layer", "probe_seed") if name in table]
    keys = list(zip(*(table[name].tolist() for name in places), strict=True))
    totals: dict[tuple[Any, ...], np.ndarray] = {}
    for key, n, before, after in zip(keys, table["n"], table["before"], table["after"], strict=True):
        totals[key] = totals.get(key, np.zeros(2)) + np.array([after - before, n])
    for key, (change, n) in totals.items():
        yield change / n, {**dict(zip(places, key, strict=True)), "n": int(n)}


def examples(
    task: Task, split: str, index: np.ndarray, labels: np.ndarray, before: np.ndarray, after: np.ndarray, most: int
) -> dict[str, np.ndarray]:
    """The table `examples`: at every layer the words that lost and that gained most, each inside its sentence."""
    rows = []
    for layer, (base, tuned) in enumerate(zip(before, after, strict=True)):
        order = np.argsort(tuned - base, kind="stable")
        lost, gained = order[:most], order[::-1][:most]
        chosen = [("lost", one) for one in lost if tuned[one] < base[one]]
        chosen += [("gained", one) for one in gained if tuned[one] > base[one]]
        for side, one in chosen:
            number, word = index[one]
            words = task.corpus[split][number].all_words
            left, right = " ".join(words[max(0, word - 6) : word]), " ".join(words[word + 1 : word + 7])
            rows.append((layer, side, left, words[word], right, labels[one], base[one], tuned[one]))
    names = ("layer", "side", "left", "word", "right", "label", "before", "after")
    kinds = {"layer": np.int16, "before": float, "after": float}
    return {
        name: np.array([row[place] for row in rows], dtype=kinds.get(name, object)) for place, name in enumerate(names)
    }
