"""An edge probe: it reads one or two spans of words and says which labels they have.

Tenney et al. 2019: every word's vector is projected to 256 numbers, a span is the mean of its words
weighted by a learned score, a layer of 256 tanh units reads the one or two spans, and every label
has a yes or no of its own. The vectors are those of one layer, of several side by side, or a mix of
them, gamma * sum_l softmax(s)_l h_l, whose weights are trained along.

Only words inside spans are read. Spans are not padded: their words stand one after the other and are
added up by segment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vestige.errors import AnalysisError
from vestige.probes.problem import Features
from vestige.probes.rows import Place

MANY_SENTENCES = 10_000
"""From so many sentences on, the papers validate every 1,000 steps and not every 100."""


@dataclass(frozen=True)
class EdgeRecipe:
    """Shape and training of an edge probe; the defaults are those of Tenney et al.'s program."""

    projected: int = 256
    hidden: int = 256
    dropout: float = 0.3
    rate: float = 1e-4
    mix_rate: float | None = None
    """Of the weights of a mix; None: as of the rest."""
    normed_mix: bool = False
    """Bring every vector to mean 0 and variance 1 before it is mixed."""
    batch: int = 32
    """Sentences a step reads."""
    clip: float = 5.0
    """Norm that gradients are cut down to."""
    validate_every: int | None = None
    """Steps between two validation passes; None: 1,000, and 100 where train has fewer than 10,000 sentences."""
    max_validations: int | None = None
    """None: 250, and 100 where train has fewer than 10,000 sentences."""
    decay: float = 0.5
    """Factor on the rate whenever `decay_after` validation passes in a row have brought no gain."""
    decay_after: int = 5
    patience: int = 20
    """A probe stops when so many validation passes in a row have brought no gain."""
    gain: float = 1e-4
    """Smaller gains on dev do not count."""
    min_rate: float = 1e-6
    """A probe stops when its rate falls below."""
    dev_sentences: int = 5000
    """Sentences of dev that validation passes read, the first ones."""
    softmax: bool = False
    """Every target has one of the labels, and probabilities add up to 1; else a label is a yes or no of its own."""
    best: Literal["f1", "loss"] = "f1"
    """By which the best validation pass is chosen."""

    def validations(self, sentences: int) -> tuple[int, int]:
        """Steps between validation passes and their greatest number, for a train split of so many sentences."""
        usual = (1000, 250) if sentences >= MANY_SENTENCES else (100, 100)
        return self.validate_every or usual[0], self.max_validations or usual[1]


class Source(NamedTuple):
    """Which layers a probe reads: side by side, or mixed."""

    layers: tuple[int, ...]
    mixed: bool = False

    def width(self, widths: Sequence[int]) -> int:
        """Units that a probe reads of every word; widths are those of all layers."""
        return widths[self.layers[0]] if self.mixed else sum(widths[layer] for layer in self.layers)

    def read(self, rows: Mapping[int, Tensor], weights: Tensor | None, normed: bool = False) -> Tensor:
        """(words, width): what a probe reads of the layers; `weights` are those of a mix."""
        layers = [rows[layer] for layer in self.layers]
        if not self.mixed:
            return layers[0] if len(layers) == 1 else torch.cat(layers, dim=1)
        if normed:
            layers = [functional.layer_norm(layer, layer.shape[1:]) for layer in layers]
        return torch.einsum("l,lnw->nw", weights, torch.stack(layers))


LAST_MIXED = "last_layer_mixed"
"""The axis along which mixes of layers 0 to k lie."""


def placed_sources(inputs: Sequence[str], widths: Sequence[int]) -> dict[Place, Source]:
    """What probes read, by where their numbers lie; the mix of all layers is there once."""
    top = len(widths) - 1
    mixes = [Source(tuple(range(last + 1)), mixed=True) for last in range(top + 1)]
    known = {
        "top": {Place(input="top"): Source((top,))},
        "lexical": {Place(input="lexical"): Source((0,))},
        "cat": {Place(input="cat"): Source((top, 0))},
        "mix": {Place(input="mix"): mixes[-1]},
        **{f"layer {layer}": {Place(layer=layer): Source((layer,))} for layer in range(top + 1)},
        **{f"mix 0-{last}": {Place(None, None, LAST_MIXED, last, None, "mix"): mixes[last]} for last in range(top + 1)},
    }
    for every, one in (("layers", "layer "), ("mixes", "mix 0-")):
        known[every] = {
            place: source for name in list(known) if name.startswith(one) for place, source in known[name].items()
        }
    unknown = next((name for name in inputs if name not in known), None)
    if unknown is not None or not inputs:
        raise AnalysisError(
            f"an edge probe cannot read {unknown!r}" if unknown else "an edge probe is given nothing to read",
            fix=f"inputs are layers, top, lexical, cat, mix, mixes, or one of layer 0 to layer {top} and mix 0-0 to "
            f"mix 0-{top}",
        )
    found = {place: source for asked in inputs for place, source in known[asked].items()}
    if "mix" in inputs:
        found.pop(next(iter(known[f"mix 0-{top}"])), None)
    for name, source in ((asked, source) for asked in inputs for source in known[asked].values()):
        units = sorted({widths[layer] for layer in source.layers})
        if source.mixed and len(units) > 1:
            raise AnalysisError(
                f"{name!r}: layers of {', '.join(map(str, units))} units cannot be mixed",
                fix="leave it out of inputs; layers are probed one by one",
            )
    return found


@dataclass(frozen=True)
class Edges:
    """Labelled spans of a split. A span is a run of rows, which are the same at every layer."""

    layers: Sequence[Features]
    spans: np.ndarray
    """(targets, 1 or 2, 2): first row and end, half-open, of every span."""
    labels: np.ndarray
    """(targets, labels) of 0 and 1; columns past those a probe was trained on are labels it cannot give."""
    firsts: np.ndarray
    """(sentences + 1,): number of every sentence's first target; every sentence has one."""

    @property
    def sentences(self) -> int:
        return len(self.firsts) - 1

    def start(self, sentences: int) -> "Edges":
        """The targets of the first so many sentences."""
        return self if self.sentences <= sentences else self.part(0, self.firsts[sentences])

    def part(self, start: int, end: int) -> "Edges":
        """Some neighbouring targets; the first and the last sentence may lose some."""
        inside = self.firsts[(self.firsts > start) & (self.firsts < end)] - start
        return Edges(self.layers, self.spans[start:end], self.labels[start:end], np.array([0, *inside, end - start]))

    def in_order(self, sentences: np.ndarray) -> "Edges":
        """The targets of some sentences, in the order in which these are named."""
        which, sizes = _flatten(np.stack([self.firsts[sentences], self.firsts[sentences + 1]], axis=1))
        return Edges(self.layers, self.spans[which], self.labels[which], np.concatenate([[0], np.cumsum(sizes)]))


class Members(NamedTuple):
    """The words of a batch's first (or second) spans, one span after the other."""

    own: Tensor
    """Rows of the batch that some span has."""
    words: Tensor
    """(words of all spans,): number in `own`."""
    span: Tensor
    """(words of all spans,): number of the span."""
    starts: Tensor
    """(targets,): where in `words` each span starts."""


class Batch(NamedTuple):
    """Vectors of the words inside some targets' spans."""

    rows: dict[int, Tensor]
    """By layer, (words, width)."""
    roles: list[Members]
    labels: Tensor
    """(targets, labels)."""


def read_batch(edges: Edges, targets: np.ndarray, layers: Sequence[int]) -> Batch:
    """The words of some targets at some layers, each read once."""
    flat = [_flatten(edges.spans[targets, role]) for role in range(edges.spans.shape[1])]
    numbers = np.unique(np.concatenate([rows for rows, _ in flat]))
    roles = []
    for rows, lengths in flat:
        own, words = np.unique(rows, return_inverse=True)
        members = (
            np.searchsorted(numbers, own),
            words,
            np.repeat(np.arange(len(lengths)), lengths),
            np.cumsum(lengths) - lengths,
        )
        roles.append(Members(*map(torch.from_numpy, members)))
    labels = torch.from_numpy(edges.labels[targets].astype(np.float32))
    return Batch({layer: edges.layers[layer].rows(numbers) for layer in layers}, roles, labels)


def _flatten(spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of spans (targets, 2), one span after the other, and the spans' lengths."""
    lengths = spans[:, 1] - spans[:, 0]
    shift = spans[:, 0] - (np.cumsum(lengths) - lengths)
    return np.repeat(shift, lengths) + np.arange(lengths.sum()), lengths


class EdgeProbe(nn.Module):
    """One probe; its weights are drawn by the seed."""

    def __init__(
        self, source: Source, widths: Sequence[int], roles: int, classes: int, recipe: EdgeRecipe, seed: int
    ) -> None:
        super().__init__()
        self.source, self.seed, self.classes, self.normed = source, seed, classes, recipe.normed_mix
        self.softmax = recipe.softmax
        width = source.width(widths)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.project = nn.ModuleList(nn.Linear(width, recipe.projected) for _ in range(roles))
            self.attend = nn.ModuleList(nn.Linear(recipe.projected, 1) for _ in range(roles))
            self.hidden = nn.Linear(roles * recipe.projected, recipe.hidden)
            self.norm = nn.LayerNorm(recipe.hidden)
            self.output = nn.Linear(recipe.hidden, classes)
        if source.mixed:
            self.scores = nn.Parameter(torch.zeros(len(source.layers)))
            self.gamma = nn.Parameter(torch.ones(()))

    @property
    def size(self) -> int:
        """How many numbers are trained."""
        return sum(parameter.numel() for parameter in self.parameters())

    def mix_weights(self) -> Tensor:
        """(layers,): shares of the layers in the mix."""
        return self.scores.softmax(0)

    def vectors(self, rows: dict[int, Tensor]) -> Tensor:
        """(words, width): what the probe reads of the layers."""
        found = self.source.read(rows, self.mix_weights() if self.source.mixed else None, self.normed)
        return self.gamma * found if self.source.mixed else found

    def forward(self, batch: Batch, kept: Tensor | None = None) -> Tensor:
        """(targets, classes): a logit per label; `kept` (targets, hidden) multiplies the hidden units (dropout)."""
        vectors = self.vectors(batch.rows)
        pooled = []
        for members, project, attend in zip(batch.roles, self.project, self.attend, strict=True):
            projected = project(vectors if len(members.own) == len(vectors) else vectors[members.own])
            pooled.append(pool_spans(projected, attend(projected).squeeze(1), members))
        hidden = self.norm(torch.tanh(self.hidden(torch.cat(pooled, dim=1))))
        return self.output(hidden if kept is None else hidden * kept)

    def loss(self, logits: Tensor, labels: Tensor, reduction: Literal["mean", "sum"] = "mean") -> Tensor:
        """In nats, of a target (softmax) or of a label; labels (targets, labels), those past the classes unread."""
        gold = labels[:, : self.classes]
        if not self.softmax:
            return functional.binary_cross_entropy_with_logits(logits, gold, reduction=reduction)
        total = -(logits.log_softmax(-1) * gold).sum()
        return total / len(gold) if reduction == "mean" else total


def pool_spans(projected: Tensor, scores: Tensor, members: Members) -> Tensor:
    """(targets, projected): the mean of every span's words, weighted by the softmax of their scores."""
    weights = span_weights(scores, members)
    return functional.embedding_bag(members.words, projected, members.starts, mode="sum", per_sample_weights=weights)


def span_weights(scores: Tensor, members: Members) -> Tensor:
    """(words of all spans,): a softmax of the scores (own,) inside every span."""
    mine = scores[members.words]
    highest = mine.new_full((len(members.starts),), -torch.inf)
    highest = highest.scatter_reduce(0, members.span, mine.detach(), reduce="amax")
    raised = (mine - highest[members.span]).exp()
    total = raised.new_zeros(len(members.starts)).index_add(0, members.span, raised)
    return raised / total[members.span]
