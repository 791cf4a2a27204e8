"""Variational code of the labels of spans: the cost of an edge probe's weights plus that of the labels given them.

The probe is that of `edge_model`, and its four linear maps are those of `variational`. Nothing in it is
free: the layer norm has no weights of its own, since the scales of the map above it do the same, and
the scores of a mix are Gaussian with prior N(0, 1) like all other weights. The words of a span are read
by one draw of the weights, as they are by one probe: draws of their own would be averaged away and make
the probe of long spans cheap. Every probe has its own generator, so that what becomes of it does
not depend on those trained beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vestige.probes.codes.edges import Labels
from vestige.probes.codes.variational import BayesianLinear, VariationalRecipe, kl_gaussian, late_epoch
from vestige.probes.edges.model import Batch, Edges, Source, pool_spans, read_batch
from vestige.probes.edges.training import layers_of, predictions, sentence_batches

BATCH = 32
"""Sentences a step reads."""


class VariationalEdgeProbe:
    """One probe; called with a batch it gives the logits of its posterior means."""

    def __init__(self, source: Source, widths: Sequence[int], roles: int, classes: int, hidden: int, seed: int) -> None:
        self.source = source
        self.draws = draws = torch.Generator().manual_seed(seed)
        width = source.width(widths)
        self.project = [BayesianLinear(1, width, hidden, draws) for _ in range(roles)]
        self.attend = [BayesianLinear(1, hidden, 1, draws) for _ in range(roles)]
        self.hidden = BayesianLinear(1, roles * hidden, hidden, draws)
        self.output = BayesianLinear(1, hidden, classes, draws)
        self.scores = torch.zeros(len(source.layers) if source.mixed else 0, requires_grad=True)
        self.scores_log_variance = torch.full_like(self.scores, -9.0, requires_grad=True)

    @property
    def maps(self) -> list[BayesianLinear]:
        return [*self.project, *self.attend, self.hidden, self.output]

    @property
    def means(self) -> list[Tensor]:
        mix = [self.scores] if self.source.mixed else []
        return [*mix, *(one for part in self.maps for one in part.means)]

    @property
    def log_variances(self) -> list[Tensor]:
        mix = [self.scores_log_variance] if self.source.mixed else []
        return [*mix, *(one for part in self.maps for one in part.log_variances)]

    def kl(self) -> Tensor:
        """Nats for all weights."""
        mix = kl_gaussian(self.scores, self.scores_log_variance).sum()
        return torch.cat([part.kl() for part in self.maps]).sum() + mix

    def __call__(self, batch: Batch, drawn: bool = False) -> Tensor:
        """(targets, classes): logits of the posterior means or, drawn, of weights drawn from the posterior."""

        def of_words(part: BayesianLinear, rows: Tensor) -> Tensor:
            return (part.drawn(rows[None], self.draws) if drawn else part.mean_output(rows[None]))[0]

        def of_targets(part: BayesianLinear, rows: Tensor) -> Tensor:
            return (part.noisy(rows[None], self.draws) if drawn else part.mean_output(rows[None]))[0]

        vectors = self.source.read(batch.rows, self._shares(drawn))
        pooled = []
        for members, project, attend in zip(batch.roles, self.project, self.attend, strict=True):
            projected = of_words(project, vectors[members.own])
            pooled.append(pool_spans(projected, of_words(attend, projected)[:, 0], members))
        hidden = torch.tanh(of_targets(self.hidden, torch.cat(pooled, dim=1)))
        return of_targets(self.output, functional.layer_norm(hidden, hidden.shape[1:]))

    def _shares(self, drawn: bool) -> Tensor:
        """(layers,): of the layers in the mix."""
        noise = torch.empty(self.scores.shape).normal_(generator=self.draws) if drawn else 0.0
        return (self.scores + (0.5 * self.scores_log_variance).exp() * noise).softmax(0)


@dataclass(frozen=True)
class EdgeCode:
    """What one probe and the labels cost, in nats."""

    probe: VariationalEdgeProbe
    kl: float
    data: float
    """The labels, given the weights' posterior means."""
    falling: float
    """Share of its length by which the code fell in the last tenth of the epochs."""


def train_variational_edges(
    train: Edges,
    sources: Sequence[Source],
    labels: Labels,
    recipe: VariationalRecipe,
    seed: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> list[EdgeCode]:
    """A probe per source, all in the same passes; its maps are `recipe.hidden` wide."""
    widths, targets = [features.width for features in train.layers], len(train.labels)
    roles, [hidden] = train.spans.shape[1], recipe.hidden
    probes = [VariationalEdgeProbe(source, widths, roles, labels.classes, hidden, seed) for source in sources]
    adams = [recipe.adam(probe.means, probe.log_variances) for probe in probes]
    layers, steps = layers_of(probes), ceil(train.sentences / BATCH)
    batches, late = sentence_batches(train, BATCH, seed), np.zeros(len(probes))
    epochs = recipe.epochs_of(steps)
    for epoch in range(epochs):
        if epoch == late_epoch(epochs):
            late = _lengths(train, probes, labels).sum(0)
        for which in islice(batches, steps):
            batch = read_batch(train, which, layers)
            for probe, adam in zip(probes, adams, strict=True):
                data = labels.nats(probe(batch, drawn=True), batch.labels).sum()
                adam.zero_grad()
                ((data * steps + probe.kl()) / targets).backward()
                adam.step()
        tick()
    found = _lengths(train, probes, labels)
    falling = late / found.sum(0) - 1
    return [EdgeCode(*code) for code in zip(probes, *found.tolist(), falling.tolist(), strict=True)]


def _lengths(train: Edges, probes: Sequence[VariationalEdgeProbe], labels: Labels) -> np.ndarray:
    """(2, probes): nats of the weights and of the labels."""
    costs = np.zeros(len(probes))
    for span, logits in predictions(train, probes):
        costs += labels.nats(logits, torch.from_numpy(train.labels[span])).sum(1).numpy()
    return np.array([[probe.kl().item() for probe in probes], costs])
