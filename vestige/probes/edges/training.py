"""Training of edge probes: all in the same pass, each with a rate, a best validation pass and an end of its own.

A batch is read once for all probes. Probes of one seed start from the same weights and see the same
batches and the same dropout: what becomes of one does not depend on those trained beside it, and
layers, or a model and its tuned kin, differ in nothing but their vectors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from vestige.errors import AnalysisError
from vestige.measures.edge_scores import f1
from vestige.probes.edges.model import Batch, EdgeProbe, EdgeRecipe, Edges, Source, read_batch

TOGETHER = 32
"""Probes that are best trained in one pass: more would want more memory and be no faster."""
EVALUATED_TARGETS = 2048
"""Targets that are read at once where no gradient is wanted."""


class Reader(Protocol):
    """What gives logits (targets, classes) to the spans of a batch, of whatever layers it reads."""

    @property
    def source(self) -> Source: ...

    def __call__(self, batch: Batch, /) -> Tensor: ...


@dataclass(frozen=True)
class EdgeFit:
    """A probe as it was at its best validation pass."""

    probe: EdgeProbe
    dev_f1: float
    steps: int
    """How long it was trained."""


def train_edges(
    train: Edges,
    dev: Edges,
    sources: Sequence[Source],
    recipe: EdgeRecipe,
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> list[EdgeFit]:
    """A probe per seed and source, in this order. A seed decides starting weights, order of sentences and dropout."""
    return [fit for seed in seeds for fit in _train_seed(train, dev, sources, recipe, seed, tick)]


def _train_seed(
    train: Edges, dev: Edges, sources: Sequence[Source], recipe: EdgeRecipe, seed: int, tick: Callable[[], None]
) -> list[EdgeFit]:
    widths = [features.width for features in train.layers]
    shape = (train.spans.shape[1], train.labels.shape[1])
    learners = [_Learner(EdgeProbe(source, widths, *shape, recipe, seed), recipe) for source in sources]
    dropping = torch.Generator().manual_seed(1_000_003 * seed + 1)
    every, most = recipe.validations(train.sentences)
    dev = dev.start(recipe.dev_sentences)
    active = learners
    for step, targets in enumerate(sentence_batches(train, recipe.batch, seed), start=1):
        batch = read_batch(train, targets, layers_of(learner.probe for learner in active))
        kept = _kept(len(targets), recipe, dropping)
        for learner in active:
            learner.step(batch, kept)
        if step % every == 0:
            for learner, score in zip(active, dev_scores(dev, [one.probe for one in active]), strict=True):
                learner.record(score, step)
            active = [learner for learner in active if learner.going]
            tick()
            if not active or step == every * most:
                break
    return [learner.finish() for learner in learners]


def sentence_batches(edges: Edges, sentences: int, seed: int) -> Iterator[np.ndarray]:
    """Targets of so many sentences at a time, epoch after epoch, without end."""
    order = np.random.default_rng([seed, edges.sentences])
    while True:
        shuffled = order.permutation(edges.sentences)
        for start in range(0, len(shuffled), sentences):
            mine = shuffled[start : start + sentences]
            yield np.concatenate([np.arange(edges.firsts[s], edges.firsts[s + 1]) for s in mine])


def layers_of(probes: Iterable[Reader]) -> list[int]:
    """Layers that some probe reads."""
    return sorted({layer for probe in probes for layer in probe.source.layers})


def _kept(targets: int, recipe: EdgeRecipe, generator: torch.Generator) -> Tensor:
    """(targets, hidden): 0 for a unit that is dropped, else what makes up for those that are."""
    drawn = torch.rand(targets, recipe.hidden, generator=generator)
    return (drawn >= recipe.dropout).float().div_(1 - recipe.dropout)


class _Learner:
    """A probe in training."""

    def __init__(self, probe: EdgeProbe, recipe: EdgeRecipe) -> None:
        self.probe, self.recipe = probe, recipe
        mix = [probe.scores, probe.gamma] if probe.source.mixed else []
        rest = [parameter for parameter in probe.parameters() if not any(parameter is one for one in mix)]
        groups = [{"params": rest}, {"params": mix, "lr": recipe.mix_rate or recipe.rate}]
        self.adam = torch.optim.Adam(groups if mix else groups[:1], lr=recipe.rate, fused=True)
        self.rate = recipe.rate
        self.best, self.best_f1 = -np.inf, 0.0
        self.kept = _copy(probe)
        self.stale = self.steps = 0

    def step(self, batch: Batch, kept: Tensor) -> None:
        loss = self.probe.loss(self.probe(batch, kept), batch.labels)
        self.adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.probe.parameters(), self.recipe.clip)
        self.adam.step()

    def record(self, score: "DevScore", steps: int) -> None:
        """Take the score on dev; while the probe predicts no label at all, F1 is 0, and its loss counts instead."""
        self.steps = steps
        if not np.isfinite(score.loss):
            read = ", ".join(map(str, self.probe.source.layers))
            raise AnalysisError(
                f"the edge probe of layer {read} diverged: its loss on dev is not finite after step {steps}",
                fix=f"lower the rate (now {self.recipe.rate:g})",
            )
        value = score.f1 if score.f1 > 0 and self.recipe.best == "f1" else -score.loss
        if value > self.best + self.recipe.gain:
            self.best, self.best_f1, self.stale = value, score.f1, 0
            self.kept = _copy(self.probe)
            return
        self.stale += 1
        if self.stale % self.recipe.decay_after == 0:
            self.rate *= self.recipe.decay
            for group in self.adam.param_groups:
                group["lr"] *= self.recipe.decay

    @property
    def going(self) -> bool:
        return self.stale < self.recipe.patience and self.rate >= self.recipe.min_rate

    def finish(self) -> EdgeFit:
        self.probe.load_state_dict(self.kept)
        return EdgeFit(self.probe, self.best_f1, self.steps)


def _copy(probe: EdgeProbe) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in probe.state_dict().items()}


class DevScore(NamedTuple):
    """Of one probe: micro-averaged F1 of logits above 0, and the mean loss of a label, or of a softmax."""

    f1: float
    loss: float


def dev_scores(edges: Edges, probes: Sequence[EdgeProbe]) -> list[DevScore]:
    """What every probe is worth on a split."""
    classes = probes[0].classes
    hits, given, loss = np.zeros(len(probes)), np.zeros(len(probes)), np.zeros(len(probes))
    for targets, logits in predictions(edges, probes):
        gold = torch.from_numpy(edges.labels[targets].astype(np.float32))[:, :classes]
        for at, (probe, mine) in enumerate(zip(probes, logits, strict=True)):
            yes = mine > 0
            hits[at] += float((yes * gold).sum())
            given[at] += float(yes.sum())
            loss[at] += float(probe.loss(mine, gold, "sum"))
    scores = f1(hits, given, edges.labels.sum())
    mean = loss / (len(edges.labels) * (1 if probes[0].softmax else classes))
    return [DevScore(*pair) for pair in zip(scores.tolist(), mean.tolist(), strict=True)]


@torch.inference_mode()
def predictions(edges: Edges, probes: Sequence[Reader]) -> Iterator[tuple[slice, Tensor]]:
    """Targets and the probes' logits (probes, targets, classes) of them, some at a time, in order.

    A probe gives a label where its logit is above 0.
    """
    layers = layers_of(probes)
    for start in range(0, len(edges.labels), EVALUATED_TARGETS):
        span = slice(start, min(start + EVALUATED_TARGETS, len(edges.labels)))
        batch = read_batch(edges, np.arange(span.start, span.stop), layers)
        yield span, torch.stack([probe(batch) for probe in probes])
