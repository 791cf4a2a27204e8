"""Concepts: which clusters of words does a model have, and does fine-tuning keep them?

Word vectors of a layer are clustered without any labels. A cluster of the base survives if the tuned model has it too;
it is aligned with a label if nearly all of its words carry it. Durrani et al. 2022 cluster all words by agglomeration;
here it is k-means, which ends in other clusters under every seed. So the base is clustered again: only what is lost
beyond that is a change.

Ours, and not the paper's: the null of re-clustering; words count, not word types; a match is asked for in both
directions, so that merged clusters do not survive (`matching: contained` is the paper's direction alone); and the
threshold of a match is lower than the paper's 95 %. At that, 1 % of the words of MiniLM's last layer are in clusters
that another seed finds again in the same vectors, so that nothing could be seen to get lost; at 0.6, 16 % are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.concept_scores import (
    Fitted,
    Rules,
    agreements,
    by_label,
    described,
    distinct_clusters,
    fit_layer,
    labelled,
)
from vestige.analyses.concept_words import WORDS_A_CLUSTER, ConceptWords, concept_words
from vestige.analyses.metric import WHOLE, Metric
from vestige.analyses.remarks import count, remark
from vestige.analyses.settings import Count, Share, Whole
from vestige.comparison.estimators import Mean, Replicates, Within
from vestige.comparison.estimators import Share as ShareOf
from vestige.measures.clusters import NONE
from vestige.probes.problem import standard
from vestige.progress import bar
from vestige.representations.store import Representations

IN_TUNED, RECLUSTERED = "in the tuned model", "in the base clustered again"
LABELS, SHUFFLED = "labels", "shuffled labels"
SURVIVAL = ("survival", "found_again", "clusters_found_again", "agreement_change", "agreement")
"""What is measured of a model and its reference."""


def _share(name: str, title: str, **more: Any) -> Metric:
    return Metric(name, title, "percent", decimals=1, **more)


@dataclass(frozen=True)
class Concepts(Analysis):
    """Clusters of word vectors, layer by layer: how many the tuned model keeps of the base, and what they are of.

    A word's base cluster is found again in a clustering if one of its clusters has at least `overlap` of its words, and
    it has at least `overlap` of that cluster's. Base clusters are looked for in the tuned model and in the base itself
    clustered again, under the same seeds; the difference is what fine-tuning did. A cluster is of one label if at
    least `purity` of its words carry it; in a task of sentences, words carry the label of their sentence: run on the
    corpus that a model was tuned on, that says whether its clusters follow the tuned task. Chance is the same with
    labels shuffled over words, or over sentences. Vectors are centred and scaled by one number a layer, with outlier
    units shrunk as for probes. Clusters are fitted on the words that they are scored on; sentences are resampled with
    the clusters as they are, and k-means seeds are a further source of error.
    """

    name: ClassVar[str] = "concepts"
    title: ClassVar[str] = "Concepts: clusters of words"
    source: ClassVar[str] = "Durrani et al. 2022; the null of re-clustering is ours"
    needs = frozenset({"hidden_states"})
    levels = ("token", "sentence", "sentence_pair")
    models = 2
    alone = True
    metrics = (
        _share(
            "survival", "the change in surviving base clusters beyond re-clustering", margin=0.05,
            compared=Within("survival", before="reclustered", after="survived"), sides=("base again", "tuned"),
            about="Share of words whose base cluster is found in the tuned model, minus the share of those whose base "
            "cluster is found in the base clustered again.",
        ),
        _share("found_again", "the share of words whose base cluster is found again"),
        _share("clusters_found_again", "the share of base clusters that are found again", role="detail"),
        Metric(
            "agreement_change", "the change in agreement with the base's clusters beyond re-clustering", "none",
            margin=0.02, compared=Replicates(column="tuned", before="reclustered"), sides=("base again", "tuned"),
            about="Adjusted mutual information, which needs no threshold.",
        ),
        Metric("agreement", "agreement with the base's clusters (AMI)"),
        _share("aligned", "the share of words in clusters of one label", about="Also with shuffled labels."),
        _share(
            "beyond_chance", "the share of words in clusters of one label beyond chance", margin=0.02,
            compared=Mean(column="beyond_chance"), about="Minus that with shuffled labels.",
        ),
        _share("aligned_clusters", "the share of clusters of one label", role="detail"),
        _share(
            "lexical", "the share of words in clusters of one word form", margin=0.02,
            compared=ShareOf(column="lexical"),
        ),
        Metric("inertia", "mean squared distance to the cluster's mean", role="detail", about="A word's, per unit."),
        count("clusters", "clusters", f"At most one for every {WORDS_A_CLUSTER} words."),
        remark("rare_labels", "rare labels", "{value} of {n} labels occur too rarely for a cluster of their own"),
        Metric(
            "unmatched_layers", "layers without a partner", "count", decimals=0, along=(WHOLE,), role="remark",
            remark="{value} of {n} layers of {model} have no partner in its reference: no survival is measured there",
        ),
    )  # fmt: skip

    clusters: Count = 100
    """Clusters of a layer; at most one for every twenty words."""
    overlap: Share = 0.6
    """Share of the words of two clusters that must be in both for them to match."""
    matching: Literal["mutual", "contained"] = "mutual"
    """mutual: that share of either cluster. contained: of the base's alone (Durrani et al. 2022); it may be merged."""
    purity: Share = 0.9
    """Share of the words of a cluster that must carry one label (or be one word form)."""
    least: Count = 5
    """Smaller clusters are never found again, and are of no label."""
    seeds: Count = 5
    """Clusterings of every model and layer; the base is clustered as often again. With three, seeds differ too much for
    a test of survival: on MiniLM a fall from 33 % to 8 % of the words was then not shown."""
    n: Count | None = 5000
    """Words sampled (all where there are fewer); None: all words."""
    pooling: Literal["first", "last", "mean", "max"] = "last"
    """How the hidden states of a word's tokens become one vector."""
    groups: Whole = 10
    """Of sentences, each left out once for the intervals of the agreement; 0: no intervals."""
    shuffles: Count = 20
    """Of the labels, for what is of one label by chance."""
    examples: Whole = 5
    """Clusters that vanished, and that appeared, shown of every layer, at most."""
    seed: Whole = 0
    """Of the sample, the clusters, the groups and the shuffles."""
    split: str = "test"
    """The split whose words are clustered."""

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.split,)

    @property
    def rules(self) -> Rules:
        """When clusters match, and when they are of one label."""
        return Rules(self.overlap, self.matching == "mutual", self.purity, self.least)

    def run(self, inputs: Inputs) -> Outcome:
        outcome = Outcome()
        words = concept_words(inputs, self.split, self.n, self.seed)
        sides = _sides(inputs, words, self.split)
        layers = [side.representations.layers for side in sides]
        self._count(inputs, words, layers, outcome)
        tables: dict[str, list[dict[str, np.ndarray]]] = {"items": [], "survival": [], "replicates": [], "examples": []}
        with bar(f"{self.name} of {inputs.model}", layers[0]) as progress:
            for layer in range(layers[0]):
                vectors = [side.vectors(layer) for side in sides if layer < side.representations.layers]
                fitted = fit_layer(vectors, self._number(words), range(self.seed, self.seed + self.seeds))
                tables["items"] += self._labelled(fitted, words, layer, vectors[0].shape[1], outcome)
                if fitted.base:
                    tables["survival"] += self._survival(fitted, words, layer, outcome)
                    tables["replicates"].append(self._agreements(fitted, words, layer, outcome))
                    tables["examples"] += described(
                        list(distinct_clusters(fitted, self.rules, self.examples)), words, layer
                    )
                progress.advance()
        columns = {name: _stacked(parts) for name, parts in tables.items()}
        outcome.items = columns.pop("items")
        outcome.tables = columns
        return outcome

    def _number(self, words: ConceptWords) -> int:
        return min(self.clusters, len(words) // WORDS_A_CLUSTER)

    def _count(self, inputs: Inputs, words: ConceptWords, layers: Sequence[int], outcome: Outcome) -> None:
        """How many clusters there are, and what cannot be measured."""
        outcome.add("clusters", self._number(words), n=len(words))
        rare = int((np.bincount(words.labels) < self.least).sum())
        outcome.add("rare_labels", rare, n=len(words.names))
        outcome.add("unmatched_layers", max(0, layers[0] - layers[-1]), n=layers[0])
        if inputs.reference is None:
            outcome.absent |= dict.fromkeys(SURVIVAL, f"{inputs.model} has no base whose clusters could survive")

    def _labelled(
        self, fitted: Fitted, words: ConceptWords, layer: int, width: int, outcome: Outcome
    ) -> list[dict[str, np.ndarray]]:
        """What the model's own clusters are of; the items of every seed."""
        items = []
        for seed, clusters in enumerate(fitted.tuned):
            found = labelled(clusters, words, self.rules, self.shuffles, self.seed)
            where: dict[str, Any] = {"layer": layer, "probe_seed": seed}
            for subset, column in ((LABELS, "aligned"), (SHUFFLED, "chance")):
                outcome.add("aligned", found[column].mean(), subset=subset, n=len(words), **where)
            for metric in ("beyond_chance", "lexical"):
                outcome.add(metric, found[metric].mean(), n=len(words), **where)
            pure = self.rules.pure(clusters, words.labels)[clusters.sizes > 0] != NONE
            outcome.add("aligned_clusters", pure.mean(), n=len(pure), **where)
            outcome.add("inertia", clusters.inertia / (len(words) * width), n=len(words), **where)
            for label, share, often in by_label(clusters, words, self.rules):
                outcome.add("aligned", share, label=label, n=often, **where)
            items.append(_placed(words, layer, seed) | found)
        return items

    def _survival(
        self, fitted: Fitted, words: ConceptWords, layer: int, outcome: Outcome
    ) -> Iterator[dict[str, np.ndarray]]:
        """Whether every word's base cluster is found in the tuned model, and in the base clustered again."""
        for seed, (tuned, base, again) in enumerate(zip(*fitted, strict=True)):
            where: dict[str, Any] = {"layer": layer, "probe_seed": seed}
            items = _placed(words, layer, seed)
            for column, subset, other in (("reclustered", RECLUSTERED, base), ("survived", IN_TUNED, tuned)):
                found = self.rules.found(again, other)
                items[column] = found[again.of]
                outcome.add("found_again", items[column].mean(), subset=subset, n=len(words), **where)
                there = found[again.sizes > 0]
                outcome.add("clusters_found_again", there.mean(), subset=subset, n=len(there), **where)
            change = items["survived"].mean() - items["reclustered"].mean()
            outcome.add("survival", change, n=len(words), **where)
            yield items

    def _agreements(self, fitted: Fitted, words: ConceptWords, layer: int, outcome: Outcome) -> dict[str, np.ndarray]:
        """Rows of the agreement, and what it is without each group of sentences."""
        found = agreements(fitted, words, self.groups, self.seed)
        for seed, one in enumerate(found):
            where: dict[str, Any] = {"layer": layer, "probe_seed": seed, "n": len(words)}
            outcome.add("agreement", one.reclustered[0], subset=RECLUSTERED, **where)
            outcome.add("agreement", one.tuned[0], subset=IN_TUNED, **where)
            outcome.add("agreement_change", one.tuned[0] - one.reclustered[0], **where)
        size = len(found[0].tuned)
        return {
            "layer": np.full(size * len(found), layer, dtype=np.int16),
            "probe_seed": np.repeat(np.arange(len(found), dtype=np.int16), size),
            "left_out": np.tile(np.arange(-1, size - 1), len(found)),
            "sentences": np.full(size * len(found), len(np.unique(words.sentences))),
            "reclustered": np.concatenate([one.reclustered for one in found]),
            "tuned": np.concatenate([one.tuned for one in found]),
        }


class Side(NamedTuple):
    """A model and the rows of the words that are clustered."""

    representations: Representations
    rows: np.ndarray
    model: str

    def vectors(self, layer: int) -> np.ndarray:
        """(words, units) around their mean, at root mean square 1."""
        rows = self.representations.layer(layer)[self.rows]
        return standard(rows, f"{self.model}, layer {layer}").rows(slice(None)).numpy()


def _sides(inputs: Inputs, words: ConceptWords, split: str) -> list[Side]:
    """The model and, where there is one, its reference."""
    found = [Side(inputs.split(split), words.rows, inputs.model)]
    if inputs.reference is not None and words.reference_rows is not None:
        found.append(Side(inputs.reference.split(split), words.reference_rows, inputs.reference.model))
    return found


def _placed(words: ConceptWords, layer: int, seed: int) -> dict[str, np.ndarray]:
    size = len(words)
    return {
        "sentence": words.ids,
        "word": words.words,
        "layer": np.full(size, layer, dtype=np.int16),
        "probe_seed": np.full(size, seed, dtype=np.int16),
    }


def _stacked(tables: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Tables of the same columns, one under the other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]} if tables else {}
