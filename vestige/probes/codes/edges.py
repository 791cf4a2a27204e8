"""Edge probes that send the labels of spans: what `online_code` asks to be trained, block after block.

merchant2020 appendix B. Where every target has one label, the probe's logits are made probabilities
by a softmax, as in Voita & Titov's program; where it may have several (proto-roles), each label is a
yes or no that is sent on its own. A probe stops where held-out labels are cheapest, and one factor on
its logits, also the cheapest, makes up for what it is too sure of.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log2

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vestige.probes.codes.coders import INNER
from vestige.probes.codes.online import Blocks, bernoulli_nats, class_nats, cut_blocks
from vestige.probes.edges.model import EdgeProbe, EdgeRecipe, Edges, Source
from vestige.probes.edges.training import Reader, predictions, train_edges

RECIPE = EdgeRecipe(
    rate=1e-3, mix_rate=1e-2, max_validations=40, decay_after=1, patience=4, gain=1e-3, dev_sentences=500, best="loss"
)
"""Rate, its decay and the end of training are those of Voita & Titov's probes of words, quicker than edge probes'."""
FEWEST_STEPS, MOST_STEPS = 10, 100
"""Between two validation passes on held-out labels, which else come once an epoch."""
SHARPNESS = tuple(np.geomspace(0.1, 2.0, 14).tolist())
"""Factors on logits, of which the best is taken."""


@dataclass(frozen=True)
class Labels:
    """What a target's labels are to a code: one of several classes, or a set of them."""

    classes: int
    sets: bool
    """Each of the classes is a yes or no."""

    @classmethod
    def of(cls, train: Edges) -> "Labels":
        return cls(train.labels.shape[1], bool((train.labels.sum(1) != 1).any()))

    @property
    def of_target(self) -> int:
        """Labels that a target has, each sent by itself."""
        return self.classes if self.sets else 1

    @property
    def uniform(self) -> float:
        """Bits per target of the uniform code."""
        return float(self.classes) if self.sets else log2(self.classes)

    def blocks(self, sent: Edges, fractions: Sequence[float]) -> Blocks:
        """Blocks of sentences, counted in targets."""
        return cut_blocks(np.diff(sent.firsts), 2 if self.sets else self.classes, fractions)

    def nats(self, logits: Tensor, gold: Tensor, known: int | None = None) -> Tensor:
        """(..., targets): cost of every target; logits (..., targets, classes), gold (targets, classes) of 0 and 1.

        `known` as for `class_nats`.
        """
        gold = gold.expand(logits.shape)
        if self.sets:
            return bernoulli_nats(logits, gold, known)
        return class_nats(logits.double().log_softmax(-1), gold.argmax(-1), known)

    def right(self, edges: Edges, probes: Sequence[Reader]) -> Tensor:
        """(probes, targets): whether a target is given exactly its labels; those that train lacks are missed."""
        found = []
        for targets, logits in predictions(edges, probes):
            given = logits > 0 if self.sets else functional.one_hot(logits.argmax(-1), self.classes)
            gold = torch.from_numpy(edges.labels[targets])
            found.append((given == gold[:, : self.classes]).all(-1) & ~gold[:, self.classes :].any(-1))
        return torch.cat(found, dim=1)


@dataclass
class EdgeCoder:
    """A probe per source, all trained in the same passes."""

    train: Edges
    """In the order in which labels are sent."""
    dev: Edges
    labels: Labels
    sources: Sequence[Source]
    seed: int = 0
    inner_holdout: bool = False
    mix: bool = True
    """Mix predictions with a uniform guess (see `class_nats`)."""
    recipe: EdgeRecipe = RECIPE
    tick: Callable[[], None] = lambda: None
    probes: list[EdgeProbe] = field(default_factory=list, init=False)
    """Those of the last block."""
    sharpness: Tensor = field(default_factory=lambda: torch.ones(()), init=False)
    """(sources,): factor on logits."""

    def __call__(self, known: int, end: int) -> np.ndarray:
        """(sources, targets): nats of the targets from `known` to `end`, by probes of those before."""
        if (self.train.labels[:known] == self.train.labels[0]).all():
            return np.full((len(self.sources), end - known), np.nan)
        self.train_on(known)
        return self.nats(self.train.part(known, end), known if self.mix else None)

    def train_on(self, known: int) -> None:
        """Fresh probes of the first targets."""
        sent, held = self.train.part(0, known), self.dev.start(self.recipe.dev_sentences)
        if self.inner_holdout:
            cut = min(known - 1, round((1 - INNER) * known))
            sent, held = self.train.part(0, cut), self.train.part(cut, known)
        epoch = ceil(sent.sentences / self.recipe.batch)
        every = min(MOST_STEPS, max(FEWEST_STEPS, epoch))
        recipe = replace(self.recipe, validate_every=every, softmax=not self.labels.sets)
        self.probes = [fit.probe for fit in train_edges(sent, held, self.sources, recipe, [self.seed])]
        self.sharpness = best_sharpness(held, self.probes)
        self.tick()

    def nats(self, edges: Edges, known: int | None) -> np.ndarray:
        """(sources, targets): what each costs."""
        found = []
        for targets, logits in predictions(edges, self.probes):
            sharp = logits * self.sharpness.view(-1, 1, 1)
            found.append(self.labels.nats(sharp, torch.from_numpy(edges.labels[targets]), known).numpy())
        return np.concatenate(found, axis=1)


def best_sharpness(held: Edges, probes: Sequence[EdgeProbe]) -> Tensor:
    """(probes,): the factor under which held-out labels are cheapest."""
    costs = np.zeros((len(SHARPNESS), len(probes)))
    for targets, logits in predictions(held, probes):
        gold = torch.from_numpy(held.labels[targets].astype(np.float32))
        for row, factor in zip(costs, SHARPNESS, strict=True):
            row += [float(probe.loss(factor * mine, gold, "sum")) for probe, mine in zip(probes, logits, strict=True)]
    return torch.tensor(SHARPNESS)[costs.argmin(0)]
