"""Similarity of a model to its reference, layer by layer: what did fine-tuning move, and how far?

merchant2020 sections 5.1 and 6: a sample of words, the same for both models and all layers, and how
alike the two models find them. No labels are used. On the corpus the model was tuned on and on
another, the same analysis shows whether the change is confined to the domain: a study that has both
tests it (`comparison.domains`, from the table `similarity` of both cells).

Pairs of sentences are compared as the model reads them, premise and hypothesis together; the corpus
with `derive: first_sentence` (or second_sentence) has one of them alone.

The paper samples sub-word tokens, as the pooling `pieces` does; by default an item is a word (its last
sub-word), with a sentence pooling it is a sentence. Special tokens are not sampled.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import Metric
from vestige.analyses.remarks import VANISHED, remark
from vestige.analyses.settings import Count, Some, Whole
from vestige.analyses.word_vectors import check_lengths, zero_everywhere
from vestige.errors import AnalysisError
from vestige.measures.geometry import OUTLIER
from vestige.measures.jackknife import GROUPS, LEAST_ITEMS, Estimate
from vestige.measures.neighbours import NEIGHBOURS
from vestige.measures.robust_cka import EXTREME
from vestige.measures.similarity import BIASED, BY_COSINES, MEASURES, ROBUST, similarities
from vestige.representations.pool import AnyPooling
from vestige.representations.shared import shared_rows
from vestige.representations.store import Representations

_TITLES = {
    "rsa": "RSA",
    "rsa_centred": "RSA of centred vectors",
    "rsa_spearman": "RSA by Spearman's correlation",
    "rsa_euclidean": "RSA of Euclidean distances",
    "cka": "CKA",
    "cka_without_extremes": "CKA without extreme words",
    "cka_without_outliers": "CKA without outlier dimensions",
    "cka_biased": "CKA (biased)",
    "svcca": "SVCCA",
    "pwcca": "PWCCA",
    "procrustes": "Procrustes similarity",
    "neighbour_overlap": "overlap of nearest neighbours",
}
_ABOUT = {
    "cka_without_extremes": f"Without words that are among the {100 * EXTREME:g} % farthest from the mean in either "
    "model: a few words that moved far make CKA fall though all others stayed.",
    "cka_without_outliers": f"Without what units of either model tell that have more than {OUTLIER:g} times the mean "
    "variance: a few huge units hide how far the others moved, or make CKA fall alone.",
}
_SIMILARITIES = tuple(
    Metric(name, title, better="higher", margin=0.005, about=_ABOUT.get(name, "")) for name, title in _TITLES.items()
)
UNDEFINED = Metric(
    "undefined", "layers without a similarity", "count", decimals=0, role="remark",
    remark="{subset} of {model} is not defined at {layers}, where vectors do not differ",
    about="1 where vectors of a layer do not differ (a [CLS] vector before the first block).",
)  # fmt: skip
UNITS_PER_ITEM = Metric(
    "units_per_item", "units per word", "ratio", decimals=2, role="remark", above=1.0,
    remark=f"with fewer words than units ({{n}} words), {', '.join(BIASED)} are high even between unrelated vectors; "
    "rsa and cka are not",
)  # fmt: skip


@dataclass(frozen=True)
class SimilarityAnalysis(Analysis):
    """How alike a model and its reference find the same words, by layer.

    Intervals are over sentences. With `all_pairs`, rows with `layer2` have every layer of the model beside every
    layer of the reference.
    """

    name: ClassVar[str] = "similarity"
    title: ClassVar[str] = "Similarity to the reference (RSA, CKA)"
    source: ClassVar[str] = "merchant2020, sections 5.1 and 6; CKA without extremes after Davari et al. 2023"
    version = 4
    metrics = (
        *_SIMILARITIES,
        UNDEFINED,
        UNITS_PER_ITEM,
        remark(
            "unmatched_words",
            "unmatched words",
            "{value} of {n} words of the model have no partner in its reference and are left out",
        ),
        remark(
            "unmatched_words_of_reference",
            "unmatched words of the reference",
            "{value} of {n} words of the reference have no partner in the model and are left out",
        ),
        VANISHED,
    )
    in_domain = "similarity"
    needs = frozenset({"hidden_states"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text")
    models = 2
    uses_labels = False

    measures: Annotated[tuple[str, ...], Some] = ("rsa", "rsa_centred", "cka", *ROBUST)
    """rsa, rsa_centred, cka, cka_without_extremes, cka_without_outliers, cka_biased, svcca, pwcca, procrustes,
    rsa_spearman, rsa_euclidean, neighbour_overlap."""
    pooling: AnyPooling = "last"
    """How hidden states of tokens become one vector of a word or a sentence."""
    n: Count | None = 5000
    """Words sampled (all where there are fewer); None: all words."""
    all_pairs: bool = False
    """Also every layer of the model beside every layer of the reference."""
    neighbours: Count = NEIGHBOURS
    """Of a word, in `neighbour_overlap`."""
    groups: Whole = GROUPS
    """Of sentences, each left out once for the intervals; 0: no intervals."""
    seed: Whole = 0
    """Of the sample and the groups."""
    split: str = "test"
    """The split whose words are compared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = [name for name in self.measures if name not in MEASURES]
        if unknown or not self.measures:
            raise AnalysisError(
                f"similarity: unknown measure {unknown[0]!r}" if unknown else "similarity: no measure is named",
                fix=f"choose from {', '.join(MEASURES)}",
            )
        if self.n is not None and self.n < LEAST_ITEMS:
            raise AnalysisError(f"similarity: a sample of {self.n} words is too small", fix=f"n >= {LEAST_ITEMS}")

    @property
    def given(self) -> tuple[Metric, ...]:
        unasked = {*MEASURES} - {*self.measures}
        if not {*self.measures} & {*BIASED}:
            unasked.add(UNITS_PER_ITEM.name)
        return tuple(metric for metric in self.metrics if metric.name not in unasked)

    @property
    def splits(self) -> tuple[str, ...]:
        return (self.split,)

    def run(self, inputs: Inputs) -> Outcome:
        if inputs.reference is None:
            raise AnalysisError(
                f"similarity compares {inputs.model!r} with a reference, and none was given",
                fix="name the reference of the model",
            )
        mine, theirs = inputs.split(self.split), inputs.reference.split(self.split)
        names = inputs.model, inputs.reference.model
        outcome = Outcome()
        rows = self._sample(mine, theirs, names, outcome)
        index = mine.index[rows[0]]
        for name, representations, chosen in zip(names, (mine, theirs), rows, strict=True):
            needed = "measure without cosines (measures: [cka])" if {*self.measures} & {*BY_COSINES} else ""
            check_lengths(name, representations, chosen, inputs.task, self.split, needed)
        found = similarities(
            [mine.layer(layer) for layer in range(mine.layers)],
            [theirs.layer(layer) for layer in range(theirs.layers)],
            self.measures,
            all_pairs=self.all_pairs,
            sentences=index[:, 0] if self.groups else None,
            rows=rows,
            neighbours=self.neighbours,
            groups=self.groups,
            seed=self.seed,
        )
        if set(self.measures) & set(BIASED):
            for layer, widths in enumerate(zip(mine.widths, theirs.widths, strict=False)):
                outcome.add("units_per_item", max(widths) / len(index), layer=layer, n=len(index))
        for name, estimates in found.items():
            self._add(name, estimates, len(index), outcome)
        outcome.tables["similarity"] = _replicates(found)
        ids = np.array([sentence.id for sentence in inputs.task.corpus[self.split]], dtype=object)
        outcome.tables["sampled_words"] = {"sentence": ids[index[:, 0]], "word": index[:, 1]}
        return outcome

    def _sample(
        self, mine: Representations, theirs: Representations, names: tuple[str, str], outcome: Outcome
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of either model for the sampled words, the same words in the same order."""
        first, second = shared_rows(mine, theirs, names, self.split)
        if self.pooling == "pieces" and mine.manifest.get("tokens") != theirs.manifest.get("tokens"):
            raise AnalysisError(
                f"{names[0]} and {names[1]} cut words into different pieces",
                fix="compare words: choose pooling last or mean",
            )
        for metric, found in (("unmatched_words", mine), ("unmatched_words_of_reference", theirs)):
            outcome.add(metric, len(found) - len(first), n=len(found))
        seen = ~(zero_everywhere(mine, first) | zero_everywhere(theirs, second))
        outcome.add("vanished_words", int((~seen).sum()), n=len(first))
        first, second = first[seen], second[seen]
        if len(first) < LEAST_ITEMS:
            raise AnalysisError(
                f"{names[0]} and {names[1]} have {len(first)} words of {self.split!r} in common",
                fix=f"at least {LEAST_ITEMS} are needed: give more sentences",
            )
        if self.n is not None and self.n < len(first):
            drawn = np.sort(np.random.default_rng(self.seed).choice(len(first), self.n, replace=False))
            first, second = first[drawn], second[drawn]
        return first, second

    def _add(self, name: str, estimates: dict[tuple[int, int], Estimate], items: int, outcome: Outcome) -> None:
        for (layer, layer2), estimate in estimates.items():
            if layer == layer2:
                outcome.add("undefined", bool(estimate.undefined), layer=layer, subset=name, n=items)
            if estimate.undefined:
                continue
            if layer == layer2:
                low, high = estimate.interval()
                interval = {"low": low, "high": high} if np.isfinite(low) else {}
                outcome.add(name, estimate.value, layer=layer, n=items, **interval)
            if self.all_pairs:
                outcome.add(name, estimate.value, layer=layer, layer2=layer2, n=items)
        if all(estimate.undefined for estimate in estimates.values()):
            outcome.absent[name] = "vectors do not differ at any layer"


def _replicates(found: dict[str, dict[tuple[int, int], Estimate]]) -> dict[str, np.ndarray]:
    """Per measure and layer the value and what it is without each group of sentences, for tests across corpora."""
    rows = [
        (name, layer, group, value)
        for name, estimates in found.items()
        for (layer, layer2), estimate in estimates.items()
        if layer == layer2
        for group, value in enumerate([estimate.value, *estimate.without], start=-1)
    ]
    names, layers, groups, values = zip(*rows, strict=True)
    return {
        "metric": np.array(names, dtype=object),
        "layer": np.array(layers, dtype=np.int16),
        "left_out": np.array(groups, dtype=np.int16),
        "value": np.array(values),
    }
