"""Structural probes: does a linear map turn distances between words into distances in the parse tree?

merchant2020 section 4, after Hewitt & Manning 2019. A map per layer is trained so that squared
distances between mapped words are those in the dependency tree, another so that squared lengths
are depths. Scored by rank correlation, by the spanning tree and by the root.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import Metric
from vestige.analyses.remarks import remark
from vestige.analyses.settings import Count, Positive, Whole
from vestige.analyses.structural_scores import TreeReport
from vestige.comparison.estimators import Share, StrataMean
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.measures.tree_scores import words_of
from vestige.measures.trees import LENGTHS, PUNCTUATION_TAGS, is_punctuation, tree_depths, tree_distances, tree_problem
from vestige.probes.axes import on_principal_axes
from vestige.probes.problem import RESIDENT_BYTES, Features, standard
from vestige.probes.structural import Kind, Sentences, StructuralRecipe, train_structural
from vestige.progress import bar
from vestige.representations.store import Representations

LEFT_OUT = remark(
    "left_out_sentences", "sentences left out", "{value} of {n} sentences of {split} are left out: {subset}"
)


def _found(name: str, title: str, subset: str, about: str) -> Metric:
    compared = Share(where=(("subset", subset),))
    return Metric(name, title, "percent", "higher", 0.005, 1, compared=compared, about=about)


def _correlation(name: str, title: str, about: str) -> Metric:
    lengths = LENGTHS.start, LENGTHS.stop - 1
    compared = StrataMean(table="sentences", column=name, strata="words", strata_range=lengths)
    return Metric(name, title, "none", "higher", 0.005, compared=compared, about=about)


def _of_training(kind: Kind) -> tuple[Metric, ...]:
    return (
        Metric(f"{kind}_loss", f"loss of {kind} probes", better="lower", role="detail"),
        Metric(f"{kind}_epochs", f"epochs of {kind} probes", "count", decimals=0, role="detail"),
    )


_METRICS: dict[Kind, tuple[Metric, ...]] = {
    "distance": (
        _correlation("dspr", "DSpr", "Rank correlation of predicted and true distances, mean over sentence lengths."),
        _found("uuas", "UUAS", "edge", "Share of the tree's edges in the spanning tree of predicted distances."),
        Metric("dspr_without_self", "DSpr without a word's distance to itself", "none", "higher", role="detail"),
        *_of_training("distance"),
    ),
    "depth": (
        _correlation("nspr", "NSpr", "Rank correlation of predicted and true depths, mean over sentence lengths."),
        _found(
            "root_accuracy", "root accuracy", "root", "Share of sentences whose root has the least predicted depth."
        ),
        *_of_training("depth"),
    ),
}


@dataclass(frozen=True)
class StructuralProbe(Analysis):
    """A distance and a depth probe per layer and seed, all layers in the same passes."""

    name: ClassVar[str] = "structural_probe"
    title: ClassVar[str] = "Structural probe"
    source: ClassVar[str] = "merchant2020, section 4; Hewitt & Manning 2019"
    needs = frozenset({"hidden_states"})
    levels = ("tree",)
    metrics: ClassVar[tuple[Metric, ...]] = (*_METRICS["distance"], *_METRICS["depth"], LEFT_OUT)
    version = 4

    probes: Literal["both", "distance", "depth"] = "both"
    """Which are trained: distance in the tree, depth in the tree, or both."""
    pooling: Literal["first", "last", "mean", "max"] = "mean"
    """How the hidden states of a word's tokens become one vector."""
    rank: Count | None = None
    """Dimensions the map keeps; None: all."""
    seeds: Count = 3
    """Trainings from other starting maps, in another order of sentences. With one, changes are described only."""
    rescale: bool = True
    """Bring every layer to unit root mean square around its mean first, outlier units shrunk, so that neither its
    scale nor a few units play a role; the papers do not."""
    axes: Literal["principal", "units"] = "principal"
    """Read layers on their principal axes, so that a rotated copy trains the same probes, or unit by unit as the
    papers do."""
    rate: Positive = 1e-3
    """Learning rate of Adam."""
    batch: Count = 20
    """Sentences a step reads."""
    max_epochs: Whole = 40
    """Training ends after so many epochs at the latest."""
    reset_moments: bool = False
    """Forget Adam's moments at each fall of the rate (the paper's text) or not (its program)."""
    punctuation: Literal["words", "xpos", "upos"] = "words"
    """Spanning trees leave punctuation out: recognised by characters, by Penn tags as in the papers, or by PUNCT."""
    drawn: Whole = 8
    """Sentences whose predicted trees are kept."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def _kinds(self) -> tuple[Kind, ...]:
        return ("distance", "depth") if self.probes == "both" else (self.probes,)

    @property
    def given(self) -> tuple[Metric, ...]:
        return (*(metric for kind in self._kinds for metric in _METRICS[kind]), LEFT_OUT)

    def run(self, inputs: Inputs) -> Outcome:
        trees = {split: _Trees.of(inputs, split) for split in dict.fromkeys(("train", "dev", self.split))}
        outcome = Outcome()
        for split, mine in trees.items():
            for reason, count in mine.left_out.items() or [(None, 0)]:
                outcome.add("left_out_sentences", count, split=split, subset=reason, n=mine.given)
        scored = trees[self.split]
        report = TreeReport(outcome, scored.sentences, scored.heads, self._words(scored.sentences), self.drawn)
        shared = ("rank", "rate", "batch", "max_epochs", "reset_moments")
        recipe = StructuralRecipe(**{name: getattr(self, name) for name in shared})
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", None) as shown:
            for group in trees["train"].representations.width_groups:
                frames = [self._frame(inputs, trees["train"].representations, layer) for layer in group]
                for kind in self._kinds:
                    data = {split: mine.for_probes(kind, group, frames) for split, mine in trees.items()}
                    fit = train_structural(
                        kind, data["train"], data["dev"], recipe, list(range(self.seeds)), shown.advance
                    )
                    report.take(kind, group, data[self.split], fit)
        report.finish()
        return outcome

    def _frame(self, inputs: Inputs, train: Representations, layer: int) -> Features:
        """The rows of train as probes read them."""
        rows = Features(train.layer(layer))
        if self.rescale:
            rows = rows.scaled(standard(rows.array, f"{inputs.model}, layer {layer}").scale)
        return on_principal_axes(rows) if self.axes == "principal" else rows

    def _words(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        """Per sentence, which words are no punctuation."""
        if self.punctuation == "words":
            return [np.array([not is_punctuation(word) for word in s.all_words]) for s in sentences]
        tagged = self.punctuation
        lacking = next((s for s in sentences if len(s.annotations.get(tagged, ())) != len(s.all_words)), None)
        if lacking is not None:
            raise AnalysisError(
                f"punctuation is to be recognised by {tagged}, but {lacking.source or lacking.id} has no such tag for "
                "every word",
                fix="set punctuation: words",
            )
        tags = PUNCTUATION_TAGS if self.punctuation == "xpos" else frozenset({"PUNCT"})
        return [words_of(s.annotations[tagged], tags) for s in sentences]


@dataclass(frozen=True)
class _Trees:
    """The sentences of a split that have one tree and a vector for every word."""

    representations: Representations
    sentences: list[Sentence]
    heads: list[np.ndarray]
    starts: np.ndarray
    given: int
    left_out: Counter[str]

    @classmethod
    def of(cls, inputs: Inputs, split: str) -> "_Trees":
        representations, given = inputs.split(split), inputs.task.corpus[split]
        rows = np.bincount(representations.index[:, 0], minlength=len(given))
        starts = np.cumsum(rows) - rows
        kept, left_out = [], Counter[str]()
        for number, sentence in enumerate(given):
            problem = tree_problem(sentence.annotations[inputs.task.name])
            if problem is None and rows[number] != len(sentence.words) + len(sentence.second):
                problem = "words without a vector"
            if problem is None:
                kept.append(number)
            else:
                left_out[problem] += 1
        if not kept:
            raise AnalysisError(
                f"corpus {inputs.task.corpus.name!r}, split {split!r}: no sentence has one tree over all its words "
                f"({', '.join(f'{count} with {reason}' for reason, count in left_out.items())})",
                fix="check the heads: one per word, counted from 1, exactly one of them 0",
            )
        heads = [np.array(given[number].annotations[inputs.task.name]) for number in kept]
        return cls(representations, [given[n] for n in kept], heads, starts[kept], len(given), left_out)

    def for_probes(self, kind: Kind, layers: range, frames: Sequence[Features]) -> Sentences:
        measure = tree_distances if kind == "distance" else tree_depths
        features = [
            frame.like(self.representations.layer(layer)).resident(RESIDENT_BYTES // len(layers))
            for layer, frame in zip(layers, frames, strict=True)
        ]
        gold = [measure(heads).astype(np.float32) for heads in self.heads]
        return Sentences(features, self.starts, np.array([len(heads) for heads in self.heads]), gold)
