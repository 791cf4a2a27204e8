"""What is counted of the clusters of one layer: whether they are found again, of one label, of one word form."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from vestige.analyses.concept_words import ConceptWords
from vestige.measures.clusters import NONE, Clusters, agreement, found_in, k_means, pure_labels
from vestige.measures.jackknife import LEAST_GROUPS, deal

MOST_WORDS = 12
"""Word forms that an example shows."""


@dataclass(frozen=True)
class Rules:
    """When clusters match, and when they are of one label."""

    overlap: float
    mutual: bool
    purity: float
    least: int

    def found(self, one: Clusters, other: Clusters) -> np.ndarray:
        """(clusters of one,): which are found in the other clustering."""
        return found_in(one, other, self.overlap, mutual=self.mutual, least=self.least)

    def pure(self, clusters: Clusters, labels: np.ndarray) -> np.ndarray:
        """(clusters,): the label of each, or NONE."""
        return pure_labels(clusters, labels, self.purity, least=self.least)


class Fitted(NamedTuple):
    """The clusterings of one layer, a seed each."""

    tuned: list[Clusters]
    base: list[Clusters]
    """Of the reference under the same seeds; empty without one."""
    again: list[Clusters]
    """Of the reference under other seeds: the clusters that are looked for in both of the former."""


def fit_layer(vectors: Sequence[np.ndarray], count: int, seeds: range) -> Fitted:
    """Cluster the vectors (words, units) of the model and, where they are given, those of its reference."""
    mine, *theirs = vectors
    other = range(seeds.stop, seeds.stop + len(seeds))
    return Fitted(
        [k_means(mine, count, seed) for seed in seeds],
        [k_means(one, count, seed) for one in theirs for seed in seeds],
        [k_means(one, count, seed) for one in theirs for seed in other],
    )


def labelled(clusters: Clusters, words: ConceptWords, rules: Rules, shuffles: int, seed: int) -> dict[str, np.ndarray]:
    """(words,) each: whether its cluster is of one label, how often by chance, whether of one word form."""
    rng = np.random.default_rng(seed)
    chance = np.zeros(len(words))
    for _ in range(shuffles):
        chance += (rules.pure(clusters, words.shuffled_labels(rng)) != NONE)[clusters.of]
    aligned = (rules.pure(clusters, words.labels) != NONE)[clusters.of]
    return {
        "cluster": clusters.of.astype(np.int32),
        "aligned": aligned,
        "chance": chance / shuffles,
        "beyond_chance": aligned - chance / shuffles,
        "lexical": (rules.pure(clusters, words.form_numbers) != NONE)[clusters.of],
    }


def by_label(clusters: Clusters, words: ConceptWords, rules: Rules) -> Iterator[tuple[str, float, int]]:
    """Every label, the share of its words that are in clusters of this label, and how many words it has."""
    of_cluster = rules.pure(clusters, words.labels)[clusters.of]
    often = np.bincount(words.labels)
    hits = np.bincount(words.labels, weights=of_cluster == words.labels)
    for name, hit, count in zip(words.names, hits, often, strict=True):
        yield name, hit / count, int(count)


class Agreements(NamedTuple):
    """Adjusted mutual information of all words, then without each group of sentences."""

    reclustered: list[float]
    tuned: list[float]


def agreements(fitted: Fitted, words: ConceptWords, groups: int, seed: int) -> list[Agreements]:
    """Of every seed. Clusters are those of all words; a group that is left out is not counted."""
    dealt = deal(words.sentences, groups, seed) if groups else []
    every = np.ones(len(words), dtype=bool)
    kept = [every]
    if len(dealt) >= LEAST_GROUPS:
        for group in dealt:
            kept.append(every.copy())
            kept[-1][group] = False
    return [
        Agreements([agreement(again, base, some) for some in kept], [agreement(again, tuned, some) for some in kept])
        for tuned, base, again in zip(*fitted, strict=True)
    ]


class Example(NamedTuple):
    """A cluster of one model that the other has not."""

    kind: Literal["vanished", "appeared"]
    members: np.ndarray
    """(words,) numbers of its words."""


def distinct_clusters(fitted: Fitted, rules: Rules, most: int) -> Iterator[Example]:
    """The largest clusters that every clustering of one model has, and none of the other's.

    Of one seed only nothing is shown: whether a cluster is there whatever the seed is then not known.
    """
    if len(fitted.tuned) < 2:
        return
    sides: Sequence[tuple[Literal["vanished", "appeared"], Clusters, list[Clusters], list[Clusters]]] = (
        ("vanished", fitted.again[0], [*fitted.again[1:], *fitted.base], fitted.tuned),
        ("appeared", fitted.tuned[0], fitted.tuned[1:], [*fitted.base, *fitted.again]),
    )
    for kind, clusters, own, others in sides:
        always = np.all([rules.found(clusters, one) for one in own], axis=0)
        never = ~np.any([rules.found(clusters, one) for one in others], axis=0)
        numbers = np.flatnonzero(always & never)
        for number in numbers[np.argsort(-clusters.sizes[numbers], kind="stable")][:most]:
            yield Example(kind, np.flatnonzero(clusters.of == number))


def described(found: Sequence[Example], words: ConceptWords, layer: int) -> Iterator[dict[str, np.ndarray]]:
    """Of every example a table of its frequent word forms, with its layer, size, main label and that label's share."""
    for number, example in enumerate(found):
        label, often = Counter(words.labels[example.members].tolist()).most_common(1)[0]
        forms = Counter(words.forms[example.members].tolist())
        most = sorted(forms.items(), key=lambda one: (-one[1], one[0]))[:MOST_WORDS]
        same = {
            "layer": layer,
            "kind": example.kind,
            "example": number,
            "size": len(example.members),
            "forms": len(forms),
            "label": words.names[label],
            "label_share": often / len(example.members),
        }
        yield {
            **{name: np.full(len(most), value) for name, value in same.items()},
            "form": np.array([form for form, _ in most], dtype=object),
            "count": np.array([count for _, count in most]),
        }
