"""Structural probes: does a linear map turn distances between words into distances in the parse tree?

merchant2020 section 4, after Hewitt & Manning 2019. A map per layer is trained so that squared
distances between mapped words are those in the dependency tree, another so that squared lengths
are depths. Scored by rank correlation, by the spanning tree and by the root.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.settings import Count, Positive, Whole
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.measures.tree_scores import Averages, score_depths, score_distances, words_of
from vestige.measures.trees import LENGTHS, PUNCTUATION_TAGS, is_punctuation, tree_depths, tree_distances, tree_problem
from vestige.probes.axes import on_principal_axes
from vestige.probes.problem import RESIDENT_BYTES, Features, standard
from vestige.probes.structural import (
    Kind,
    Sentences,
    StructuralFit,
    StructuralRecipe,
    predictions,
    sentence_losses,
    train_structural,
)
from vestige.progress import bar
from vestige.representations.store import Representations

DRAWN_LENGTHS = range(5, 21)
"""Lengths of the sentences whose predicted trees are kept to be drawn."""

_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "distance": ("dspr", "dspr_without_self", "edges", "edges_right", "distance_loss"),
    "depth": ("nspr", "root_right", "depth_loss"),
}
"""What the table `sentences` says of every sentence."""

_Values = dict[str, np.ndarray]
"""By column, (probes, sentences)."""


@dataclass(frozen=True)
class StructuralProbe(Analysis):
    """A distance and a depth probe per layer and seed, all layers in the same passes."""

    name: ClassVar[str] = "structural_probe"
    title: ClassVar[str] = "Structural probe"
    source: ClassVar[str] = "merchant2020, section 4; Hewitt & Manning 2019"
    needs = frozenset({"hidden_states"})
    levels = ("tree",)
    right = "uuas"
    version = 3

    probes: Literal["both", "distance", "depth"] = "both"
    pooling: Literal["first", "last", "mean", "max"] = "mean"
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
    batch: Count = 20
    max_epochs: Whole = 40
    reset_moments: bool = False
    """Forget Adam's moments at each fall of the rate (the paper's text) or not (its program)."""
    punctuation: Literal["words", "xpos", "upos"] = "words"
    """What tells punctuation, which spanning trees leave out: the characters, Penn tags as in the papers, or PUNCT."""
    drawn: Whole = 8
    """Sentences whose predicted trees are kept."""
    split: str = "test"
    """The split that is scored."""

    @property
    def stochastic(self) -> bool:
        return True

    def run(self, inputs: Inputs) -> Outcome:
        trees = {split: _Trees.of(inputs, split) for split in dict.fromkeys(("train", "dev", self.split))}
        outcome = Outcome()
        for split, mine in trees.items():
            for reason, count in mine.left_out.items():
                outcome.add("left_out_sentences", count, subset=f"{split}: {reason}", n=mine.given)
        scores = _Scores(outcome, trees[self.split], self._words(trees[self.split].sentences), self.drawn)
        kinds: list[Kind] = ["distance", "depth"] if self.probes == "both" else [self.probes]
        shared = ("rank", "rate", "batch", "max_epochs", "reset_moments")
        recipe = StructuralRecipe(**{name: getattr(self, name) for name in shared})
        with bar(f"{self.name} {inputs.task.name} of {inputs.model}", None) as shown:
            for group in trees["train"].representations.width_groups:
                frames = [self._frame(inputs, trees["train"].representations, layer) for layer in group]
                for kind in kinds:
                    data = {split: mine.for_probes(kind, group, frames) for split, mine in trees.items()}
                    fit = train_structural(
                        kind, data["train"], data["dev"], recipe, list(range(self.seeds)), shown.advance
                    )
                    scores.take(kind, group, data[self.split], fit)
        scores.finish()
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
                f"punctuation is to be told by {tagged}, but {lacking.source or lacking.id} has no such tag for every "
                "word",
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


class _Same(NamedTuple):
    """Sentences of one length, and what the probes predict of them."""

    which: np.ndarray
    predicted: np.ndarray
    """(probes, sentences, length, length), or without the last axis."""
    gold: np.ndarray
    words: np.ndarray
    """(sentences, length): which are no punctuation."""


class _Scores:
    """Turns predictions into rows, items and tables."""

    def __init__(self, outcome: Outcome, trees: _Trees, words: list[np.ndarray], drawn: int) -> None:
        self.outcome, self.trees, self.words = outcome, trees, words
        lengths = [len(heads) for heads in trees.heads]
        self.drawn = [at for at, n in enumerate(lengths) if n in DRAWN_LENGTHS][:drawn]
        self.edges: dict[int, dict[str, list[list[int]]]] = {at: {} for at in self.drawn}
        self.items: list[dict[str, np.ndarray]] = []
        self.sentences: dict[tuple[int, int], dict[str, np.ndarray]] = {}

    def take(self, kind: Kind, group: range, data: Sentences, fit: StructuralFit) -> None:
        """Score the probes of some layers."""
        layers, seeds = fit.weights.shape[:2]
        probes = [(group[at], seed) for at in range(layers) for seed in range(seeds)]
        values = {name: np.full((len(probes), len(data)), np.nan) for name in _COLUMNS[kind]}
        averages = {name: Averages() for name in ("dspr", "dspr_without_self", "nspr")}
        maps = list(fit.weights.flatten(0, 1))
        for padded, predicted in predictions(kind, data, maps, np.repeat(np.arange(layers), seeds)):
            values[f"{kind}_loss"][:, padded.sentences] = sentence_losses(kind, padded, predicted).numpy()
            for length in np.unique(data.lengths[padded.sentences]).tolist():
                same = np.flatnonzero(data.lengths[padded.sentences] == length)
                which = padded.sentences[same]
                mine = predicted[:, same, :length].double().numpy()
                gold, words = (np.stack([part[at] for at in which]) for part in (data.gold, self.words))
                if kind == "distance":
                    self._distances(probes, _Same(which, mine[..., :length], gold, words), values, averages)
                else:
                    self._depths(probes, _Same(which, mine, gold, words), values, averages)
        self._rows(kind, probes, values, averages, fit)
        for at, probe in enumerate(probes):
            self.sentences.setdefault(probe, {}).update({name: column[at] for name, column in values.items()})

    def _distances(
        self, probes: list[tuple[int, int]], same: _Same, values: _Values, averages: dict[str, Averages]
    ) -> None:
        found = score_distances(same.predicted, same.gold, same.words)
        which, length = same.which, same.gold.shape[-1]
        for name, by_word in (("dspr", found.with_self), ("dspr_without_self", found.without_self)):
            averages[name].add(by_word, length)
            known = ~np.isnan(by_word)
            total = np.where(known, by_word, 0.0).sum(-1)
            values[name][:, which] = np.where(known.any(-1), total / known.sum(-1).clip(min=1), np.nan)
        values["edges"][:, which] = (found.gold_parents >= 0).sum(-1)
        values["edges_right"][:, which] = found.found.sum(-1)
        sentence, word = np.nonzero(found.gold_parents >= 0)
        for at, (layer, seed) in enumerate(probes):
            self._keep("task", layer, seed, which[sentence], word, found.found[at, sentence, word])
            for place in np.flatnonzero(np.isin(which, self.drawn)).tolist() if seed == 0 else ():
                ends = enumerate(found.parents[at, place].tolist())
                pairs = sorted(sorted((word, parent)) for word, parent in ends if parent >= 0)
                self.edges[int(which[place])][str(layer)] = pairs

    def _depths(
        self, probes: list[tuple[int, int]], same: _Same, values: _Values, averages: dict[str, Averages]
    ) -> None:
        found = score_depths(same.predicted, same.gold, same.words)
        averages["nspr"].add(found.correlation, same.gold.shape[-1])
        values["nspr"][:, same.which] = found.correlation
        values["root_right"][:, same.which] = found.root_right
        for at, (layer, seed) in enumerate(probes):
            self._keep("root", layer, seed, same.which, same.gold.argmin(-1), found.root_right[at])

    def _rows(
        self,
        kind: Kind,
        probes: list[tuple[int, int]],
        values: _Values,
        averages: dict[str, Averages],
        fit: StructuralFit,
    ) -> None:
        count = values[f"{kind}_loss"].shape[1]
        averaged = sum(len(heads) in LENGTHS for heads in self.trees.heads)
        epochs = fit.epochs.flatten()
        means = {name: averages[name].mean() for name in (("nspr",) if kind == "depth" else tuple(averages)[:2])}
        for at, (layer, seed) in enumerate(probes):
            where: dict[str, Any] = {"layer": layer, "probe_seed": seed}
            for name, mean in means.items():
                if np.isfinite(mean[at]):
                    self.outcome.add(name, mean[at], **where, n=averaged)
            if kind == "depth":
                self.outcome.add("root_accuracy", values["root_right"][at].mean(), **where, n=count)
            elif edges := int(values["edges"][at].sum()):
                self.outcome.add("uuas", values["edges_right"][at].sum() / edges, **where, n=edges)
            self.outcome.add(f"{kind}_loss", values[f"{kind}_loss"][at].mean(), **where, n=count)
            self.outcome.add(f"{kind}_epochs", epochs[at], **where)

    def _keep(
        self, subset: str, layer: int, seed: int, which: np.ndarray, word: np.ndarray, correct: np.ndarray
    ) -> None:
        self.items.append(
            {
                "row": which,
                "word": word.astype(np.int32),
                "subset": np.full(len(which), subset),
                "layer": np.full(len(which), layer, dtype=np.int16),
                "probe_seed": np.full(len(which), seed, dtype=np.int16),
                "correct": correct,
            }
        )

    def finish(self) -> None:
        """Put items and tables into the outcome."""
        ids = np.array([sentence.id for sentence in self.trees.sentences], dtype=object)
        columns = {name: np.concatenate([part[name] for part in self.items]) for name in self.items[0]}
        order = np.lexsort((columns["word"], columns["row"], columns["probe_seed"], columns["layer"]))
        columns = {name: column[order] for name, column in columns.items()}
        self.outcome.items = {"sentence": ids[columns.pop("row")], **columns}
        probes = sorted(self.sentences)
        lengths = np.array([len(heads) for heads in self.trees.heads], dtype=np.int32)
        self.outcome.tables["sentences"] = {
            "sentence": np.tile(ids, len(probes)),
            "words": np.tile(lengths, len(probes)),
            "layer": np.repeat(np.array([layer for layer, _ in probes], dtype=np.int16), len(ids)),
            "probe_seed": np.repeat(np.array([seed for _, seed in probes], dtype=np.int16), len(ids)),
            **{name: np.concatenate([self.sentences[p][name] for p in probes]) for name in self.sentences[probes[0]]},
        }
        if any(self.edges.values()):
            self.outcome.tables["trees"] = self._drawn_trees(ids)

    def _drawn_trees(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Words, gold heads and predicted edges (by layer, of the first seed) of some sentences, as JSON."""
        sentences = [self.trees.sentences[at] for at in self.drawn]
        texts = {
            "words": [[*s.words, *s.second] for s in sentences],
            "heads": [self.trees.heads[at].tolist() for at in self.drawn],
            "punctuation": [np.flatnonzero(~self.words[at]).tolist() for at in self.drawn],
            "edges": [self.edges[at] for at in self.drawn],
        }
        written = {
            name: np.array([json.dumps(value, ensure_ascii=False) for value in values], dtype=object)
            for name, values in texts.items()
        }
        return {"sentence": ids[self.drawn], **written}
