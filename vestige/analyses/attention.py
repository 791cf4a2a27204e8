"""Attention: how widely each head attends, and how far fine-tuning moved what it attends to.

mosbach2020, section 5.1. The entropy of the distribution over keys, and its distance from the
reference's for the same sentence, head and query. Entropies and distances are averaged over
queries, then heads, then sentences; the entropy of averaged attention would be another number.
Block k computes layer k, counted from 1; heads are counted from 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from vestige.analyses.base import Analysis, Inputs, Outcome
from vestige.analyses.metric import Metric
from vestige.analyses.remarks import TRUNCATED, remark
from vestige.analyses.settings import Count, Whole
from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError, ModelError
from vestige.measures.attention import (
    Rows,
    earth_movers,
    entropy,
    jensen_shannon,
    normalised_entropy,
    total_variation,
    transport,
)
from vestige.measures.resampling import bootstrap_interval
from vestige.models.lm.language_model import is_causal, same_tokens
from vestige.models.tokens.align import Encoded
from vestige.progress import bar
from vestige.representations.extract import batches_by_length

ATTENTION_BYTES = 48 * 2**20
"""Of attention weights, of all layers and heads of one model, that are in memory at once."""

_ENTROPIES = (
    Metric("entropy", "entropy of attention", "nats"),
    Metric("entropy_normalised", "entropy of attention, as a share of its maximum", "percent", decimals=1),
)
_MOVES = (
    Metric("entropy_change", "change of the entropy", "nats"),
    Metric("entropy_normalised_change", "change of the entropy, as a share of its maximum", "percent", decimals=1),
    Metric("emd", "earth mover's distance", about="In positions: from the reference's attention to the model's."),
    Metric("emd_normalised", "earth mover's distance, as a share of the longest way", "percent", decimals=1),
    Metric("tv", "total variation distance"),
    Metric("js", "Jensen-Shannon divergence", "nats"),
)
_BY_EMBEDDING = Metric(
    "emd_embedding", "earth mover's distance between embeddings", about="Where a move costs the distance of tokens."
)


@dataclass(frozen=True)
class Attention(Analysis):
    """How widely attention is spread and, with a reference, how far it is from the reference's.

    Intervals are over sentences; heads have none.
    """

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = "Attention: entropy and movement"
    source: ClassVar[str] = "mosbach2020, section 5.1"
    needs = frozenset({"attentions"})
    levels = ("token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text")
    models = 2
    alone = True
    uses_labels = False
    version = 2
    metrics = (
        *_ENTROPIES,
        *_MOVES,
        _BY_EMBEDDING,
        remark("left_out_sentences", "sentences left out", "{value} of {n} sentences are left out"),
        TRUNCATED,
    )

    queries: Literal["summary", "all", "words"] | tuple[int, ...] = "summary"
    """Whose distributions: the token that stands for the sentence (CLS, or the last token), every
    token, tokens of words only, or positions (negative ones from the end)."""
    drop_sink: bool = False
    """Leave the first token out of the keys: in decoders it draws most of the attention."""
    embedding: Literal["words", "layer0"] | None = None
    """Also the earth mover's distance where moving costs the Euclidean distance between the
    reference's word embeddings, or layer-0 states, of the two tokens."""
    embedding_sentences: Count = 20
    """For how many sentences: each head and query is a linear programme."""
    sentences: Count | None = None
    """The first so many of the split; None: all."""
    resamples: Count = 1000
    """Bootstrap resamples of the intervals."""
    seed: Whole = 0
    """Of the bootstrap."""
    split: str = "test"
    """The split whose sentences are read."""

    @property
    def given(self) -> tuple[Metric, ...]:
        return tuple(metric for metric in self.metrics if self.embedding is not None or metric != _BY_EMBEDDING)

    def run(self, inputs: Inputs) -> Outcome:
        chosen = [sentence for sentence in inputs.task.corpus[self.split][: self.sentences] if sentence.words]
        encoder, other = _attentive(inputs), None
        if not chosen:
            raise AnalysisError(f"{self.split!r} has no sentence with words", fix="choose another split or corpus")
        encoded = encoder.encode(chosen)
        if inputs.reference is not None:
            other = _attentive(inputs.reference)
            same_tokens(chosen, encoded, other.encode(chosen), inputs.model, inputs.reference.model)
        kept = self._measure(encoder, other, encoded, inputs.model)
        outcome = self._outcome(kept, chosen)
        if other is None:
            compared = (metric.name for metric in (*_MOVES, _BY_EMBEDDING) if metric in self.given)
            outcome.absent |= dict.fromkeys(compared, "the model has no reference")
        lost = sum(sentence.words - sentence.kept for sentence in encoded)
        outcome.add("truncated_words", lost, n=sum(sentence.words for sentence in encoded))
        return outcome

    def _measure(self, encoder: Any, other: Any, encoded: Sequence[Encoded], name: str) -> dict[str, np.ndarray]:
        """By metric (sentences, layers, heads); NaN for sentences without a query that has two keys."""
        causal = is_causal(encoder)
        layers, heads = _shape(encoder, encoded)
        if other is not None and (found := _shape(other, encoded)) != (layers, heads):
            raise AnalysisError(
                f"the models have {(layers, heads)} and {found} layers and heads",
                fix="compare models of one architecture, or leave the reference out",
            )
        room = ATTENTION_BYTES // (4 * layers * heads)
        kept: dict[str, np.ndarray] = {}
        with bar(f"attention of {name}", len(encoded)) as shown:
            for numbers in batches_by_length([len(sentence.ids) ** 2 for sentence in encoded], room):
                batch = [encoded[number] for number in numbers]
                rows = self._rows(encoder, batch, causal)
                for layer, pair in enumerate(_layers(encoder, other, batch)):
                    for metric, values in self._of_layer(rows, *pair).items():
                        target = kept.setdefault(metric, np.full((len(encoded), layers, heads), np.nan))
                        target[numbers, layer] = values.cpu().numpy()
                shown.advance(len(batch))
        if self.embedding is not None and other is not None:
            kept["emd_embedding"] = self._by_embedding(encoder, other, encoded, causal, (layers, heads))
        return kept

    def _rows(self, encoder: Any, batch: Sequence[Encoded], causal: bool) -> Rows:
        chosen = [_positions(encoder, encoded, self.queries) for encoded in batch]
        return Rows.of(chosen, [len(encoded.ids) for encoded in batch], causal, self.drop_sink, encoder.device)

    def _of_layer(self, rows: Rows, weights: Tensor, others: Tensor | None) -> dict[str, Tensor]:
        """Every measure of one layer, averaged over queries: (sentences, heads)."""
        mine, keys = rows.of_layer(weights), rows.keys
        found = {"entropy": entropy(mine), "entropy_normalised": normalised_entropy(mine, keys)}
        if others is not None:
            theirs = rows.of_layer(others)
            moved = earth_movers(theirs, mine)
            found |= {
                "entropy_change": found["entropy"] - entropy(theirs),
                "entropy_normalised_change": found["entropy_normalised"] - normalised_entropy(theirs, keys),
                "emd": moved,
                "emd_normalised": moved / (keys - 1).clamp(min=1),
                "tv": total_variation(theirs, mine),
                "js": jensen_shannon(theirs, mine),
            }
        return {metric: rows.mean(values) for metric, values in found.items()}

    def _by_embedding(
        self, encoder: Any, other: Any, encoded: Sequence[Encoded], causal: bool, shape: tuple[int, int]
    ) -> np.ndarray:
        found = np.full((len(encoded), *shape), np.nan)
        for number, sentence in enumerate(encoded[: self.embedding_sentences]):
            rows = self._rows(encoder, [sentence], causal)
            cost = _costs(other, sentence, self.embedding or "words")
            for layer, (weights, others) in enumerate(_layers(encoder, other, [sentence])):
                mine, theirs = rows.of_layer(weights)[0].cpu().numpy(), rows.of_layer(others)[0].cpu().numpy()
                found[number, layer] = [
                    np.mean([transport(b[q], a[q], cost) for q in np.flatnonzero(rows.valid[0].cpu())] or [np.nan])
                    for a, b in zip(mine, theirs, strict=True)
                ]
        return found

    def _outcome(self, kept: dict[str, np.ndarray], chosen: Sequence[Sentence]) -> Outcome:
        outcome = Outcome()
        ids = np.array([sentence.id for sentence in chosen], dtype=object)
        parts = []
        for metric, values in kept.items():
            there = np.isfinite(values).all((1, 2))
            if not there.any():
                raise AnalysisError(
                    "no sentence has a query with two keys to choose from",
                    fix="use longer sentences, other positions, or drop_sink=False",
                )
            if metric == "entropy":
                outcome.add("left_out_sentences", int((~there).sum()), n=len(there))
            values, by_layer = values[there], values[there].mean(-1)
            low, high = bootstrap_interval(by_layer, resamples=self.resamples, seed=self.seed)
            for layer in range(values.shape[1]):
                where = {"layer": layer + 1, "n": len(values)}
                outcome.add(metric, by_layer[:, layer].mean(), low=low[layer], high=high[layer], **where)
                for head in range(values.shape[2]):
                    outcome.add(metric, values[:, layer, head].mean(), head=head, **where)
            sentence, layer_of = np.indices(by_layer.shape)
            parts.append(
                {
                    "sentence": ids[there][sentence.ravel()],
                    "layer": (layer_of.ravel() + 1).astype(np.int16),
                    "metric": np.full(by_layer.size, metric, dtype=object),
                    "value": by_layer.ravel(),
                }
            )
        outcome.items = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return outcome


def _positions(encoder: Any, encoded: Encoded, which: Any) -> list[int]:
    if which == "summary":
        return [encoder.summary_position(encoded)]
    if which == "all":
        return list(range(len(encoded.ids)))
    if which == "words":
        return [position for position, word in enumerate(encoded.word_of) if word >= 0]
    length = len(encoded.ids)
    return [position % length for position in which if -length <= position < length]


def _layers(encoder: Any, other: Any, batch: Sequence[Encoded]) -> Iterator[tuple[Tensor, Any]]:
    """Attention of both models, layer by layer; the second is None where there is no other."""
    mine = _attention(encoder, batch)
    theirs = [None] * len(mine) if other is None else _attention(other, batch)
    return zip(mine, theirs, strict=True)


def _attention(encoder: Any, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
    try:
        found = encoder.attentions(batch)
    except ModelError as error:
        raise _without_weights(encoder.name, error.problem) from error
    missing = [number + 1 for number, weights in enumerate(found) if weights is None]
    if missing or not found:
        raise _without_weights(encoder.name, f"no weights came back of layer {missing[0] if missing else 1}")
    for number, weights in enumerate(found):
        if not torch.isfinite(weights).all():
            raise AnalysisError(
                f"{encoder.name}, layer {number + 1}: attention is not finite",
                fix="check the weights; a model tuned to divergence gives such values",
            )
    return found


def _without_weights(name: str, problem: str) -> AnalysisError:
    return AnalysisError(
        f"{name}: {problem}",
        fix="attention weights exist only in the eager implementation; a model without one (linear attention, "
        "code of its own that ignores output_attentions) cannot be analysed this way",
    )


def _shape(encoder: Any, encoded: Sequence[Encoded]) -> tuple[int, int]:
    """Layers and heads, seen on the shortest sentence."""
    weights = _attention(encoder, [min(encoded, key=lambda sentence: len(sentence.ids))])
    return len(weights), weights[0].shape[1]


def _costs(reference: Any, sentence: Encoded, space: str) -> np.ndarray:
    """(keys, keys): Euclidean distances between a sentence's tokens."""
    if space == "layer0":
        vectors = reference.hidden_states([sentence])[0][0]
    else:
        vectors = reference.model.get_input_embeddings()(torch.tensor(sentence.ids, device=reference.device))
    vectors = vectors.detach().cpu().double()
    return torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist").numpy()


def _attentive(inputs: Inputs) -> Any:
    if not hasattr(inputs.encoder, "attentions"):
        what = "the model itself is missing" if inputs.encoder is None else "it has no attention"
        raise AnalysisError(f"{inputs.model}: {what}", fix="choose a transformer for the attention analysis")
    return inputs.encoder
