"""From predicted distances and depths to what the structural probe reports: rows, items and tables."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from vestige.analyses.base import Outcome
from vestige.corpus.types import Sentence
from vestige.measures.tree_scores import Averages, score_depths, score_distances
from vestige.measures.trees import LENGTHS
from vestige.probes.structural import Kind, Sentences, StructuralFit, predictions, sentence_losses

DRAWN_LENGTHS = range(5, 21)
"""Lengths of the sentences whose predicted trees are kept to be drawn."""

_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "distance": ("dspr", "dspr_without_self", "edges", "edges_right", "distance_loss"),
    "depth": ("nspr", "root_right", "depth_loss"),
}
"""What the table `sentences` says of every sentence."""

_Values = dict[str, np.ndarray]
"""By column, (probes, sentences)."""


class _Same(NamedTuple):
    """Sentences of one length, and what the probes predict of them."""

    which: np.ndarray
    predicted: np.ndarray
    """(probes, sentences, length, length), or without the last axis."""
    gold: np.ndarray
    words: np.ndarray
    """(sentences, length): which are no punctuation."""


class TreeReport:
    """Turns predictions on the scored sentences into rows, items and tables."""

    def __init__(
        self,
        outcome: Outcome,
        scored: Sequence[Sentence],
        heads: Sequence[np.ndarray],
        words: Sequence[np.ndarray],
        drawn: int,
    ) -> None:
        """words: per sentence, which are no punctuation; drawn: sentences whose trees are kept."""
        self.outcome, self.scored, self.heads, self.words = outcome, scored, heads, words
        self.lengths = np.array([len(mine) for mine in heads], dtype=np.int32)
        self.drawn = [at for at, n in enumerate(self.lengths.tolist()) if n in DRAWN_LENGTHS][:drawn]
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
            self._keep("edge", layer, seed, which[sentence], word, found.found[at, sentence, word])
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
        averaged = int(np.isin(self.lengths, LENGTHS).sum())
        epochs = fit.epochs.flatten()
        means = {name: averages[name].mean() for name in (("nspr",) if kind == "depth" else tuple(averages)[:2])}
        for at, (layer, seed) in enumerate(probes):
            where: dict[str, Any] = {"layer": layer, "probe_seed": seed}
            for name, mean in means.items():
                if np.isfinite(mean[at]):
                    self.outcome.add(name, mean[at], **where, n=averaged)
                else:
                    self.outcome.absent[name] = f"no sentence has {LENGTHS.start} to {LENGTHS.stop - 1} words"
            if kind == "depth":
                self.outcome.add("root_accuracy", values["root_right"][at].mean(), **where, n=count)
            elif edges := int(values["edges"][at].sum()):
                self.outcome.add("uuas", values["edges_right"][at].sum() / edges, **where, n=edges)
            else:
                self.outcome.absent["uuas"] = "no sentence has two words that are no punctuation"
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
        ids = np.array([sentence.id for sentence in self.scored], dtype=object)
        columns = {name: np.concatenate([part[name] for part in self.items]) for name in self.items[0]}
        order = np.lexsort((columns["word"], columns["row"], columns["probe_seed"], columns["layer"]))
        columns = {name: column[order] for name, column in columns.items()}
        self.outcome.items = {"sentence": ids[columns.pop("row")], **columns}
        probes = sorted(self.sentences)
        self.outcome.tables["sentences"] = {
            "sentence": np.tile(ids, len(probes)),
            "words": np.tile(self.lengths, len(probes)),
            "layer": np.repeat(np.array([layer for layer, _ in probes], dtype=np.int16), len(ids)),
            "probe_seed": np.repeat(np.array([seed for _, seed in probes], dtype=np.int16), len(ids)),
            **{name: np.concatenate([self.sentences[p][name] for p in probes]) for name in self.sentences[probes[0]]},
        }
        if any(self.edges.values()):
            self.outcome.tables["trees"] = self._drawn_trees(ids)

    def _drawn_trees(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        """Words, gold heads and predicted edges (by layer, of the first seed) of some sentences, as JSON."""
        sentences = [self.scored[at] for at in self.drawn]
        texts = {
            "words": [s.all_words for s in sentences],
            "heads": [self.heads[at].tolist() for at in self.drawn],
            "punctuation": [np.flatnonzero(~self.words[at]).tolist() for at in self.drawn],
            "edges": [self.edges[at] for at in self.drawn],
        }
        written = {
            name: np.array([json.dumps(value, ensure_ascii=False) for value in values], dtype=object)
            for name, values in texts.items()
        }
        return {"sentence": ids[self.drawn], **written}
