"""Probes that send labels: what `online_code` asks to be trained, block after block.

The authors stop training early on an external dev set. A linear probe is held back by its ridge
instead: for every block three are tried in the same passes, and the one under which dev labels
are cheapest sends it (for a code that uses nothing but what was sent: a tenth of the labels sent
so far). The next block tries around the least point of a parabola through the three costs, so
that the ridge does not jump from one of a coarse grid to the next. A probe of all labels, which
sends none, has the last ridge, grown with the root of the number of labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor

from vestige.probes.codes.online import Ordered, class_nats
from vestige.probes.linear.isotropic import IsotropicProbes
from vestige.probes.linear.mlp import MlpFit, MlpRecipe, solve_mlp
from vestige.probes.problem import Features, Fit, log_probabilities
from vestige.probes.visit import Visit

RATE = 0.2
"""Of Adam at its beginning, times the root of the width."""
BATCH, SMALLEST_BATCH, FEWEST_STEPS = 256, 32, 60
MANY = 20_000
"""Rows from which on readings become fewer, with the fourth root of the number of rows."""
STRENGTH = 2.0
"""Ridge, times the number of labels, around which the first block tries."""
STEP = 10**0.5
"""Ratio of neighbouring ridges."""
INNER = 0.1
"""Share of the labels sent so far that an inner hold-out sets aside."""
SHARPNESS = tuple(np.geomspace(0.2, 50.0, 24).tolist())
"""Factors on logarithms of an MLP's probabilities, of which the best on dev is taken."""


@dataclass(frozen=True)
class Labelled:
    """Rows of one layer and P labellings of them, (P, rows); -1 where a label is unknown to train."""

    features: Features
    labels: Tensor

    def first(self, rows: int) -> "Labelled":
        return self.part(0, rows)

    def part(self, start: int, end: int) -> "Labelled":
        array = self.features.array
        cut = array.part(start, end) if isinstance(array, Ordered) else array[start:end]
        return Labelled(self.features.like(cast(np.ndarray, cut)), self.labels[:, start:end])


def cost(log_p: Tensor, labels: Tensor, known: int | None) -> np.ndarray:
    """(P, rows): nats of every label; nothing for one that has no class."""
    nats = class_nats(log_p, labels.clamp(min=0), known)
    return torch.where(labels >= 0, nats, 0.0).numpy()


@dataclass
class LinearCoder:
    """Softmax regressions on one layer, one per labelling; rows are taken to have unit root mean square."""

    train: Labelled
    """In the order in which labels are sent."""
    dev: Labelled
    classes: int
    inner_holdout: bool = False
    mix: bool = True
    """Mix predictions with a uniform guess (see `class_nats`)."""
    passes: float = 4.0
    """Readings of the rows that a probe is trained on; of fewer rows more, of more than `MANY` fewer."""
    fit: Fit | None = field(default=None, init=False)
    """The probes of the last block."""

    def __post_init__(self) -> None:
        self.strength = np.full(len(self.train.labels), STRENGTH)
        """Ridge, times the number of labels, around which the next block tries."""
        self.used = self.strength
        """That of the last probes."""
        self.chosen_at = 0

    def __call__(self, known: int, end: int) -> np.ndarray:
        """(labellings, rows): nats of the labels from `known` to `end`, by probes of those before."""
        alone = _alone(self.train.first(known).labels)
        if alone.all():
            return np.full((len(alone), end - known), np.nan)
        coded = self.train.part(known, end)
        nats = cost(log_probabilities(self.trained(known), coded.features), coded.labels, known if self.mix else None)
        return np.where(alone[:, None], np.nan, nats)

    def trained(self, known: int) -> Fit:
        """Fresh probes of the first labels."""
        sent = self.train.first(known)
        if known < len(self.train.features) or not self.chosen_at:
            self.fit = self._choose(sent)
            self.chosen_at = known
        else:
            self.used = self.strength * (known / self.chosen_at) ** 0.5
            self.fit = self._train(sent, self.used)
        return self.fit

    def _choose(self, sent: Labelled) -> Fit:
        """Probes under three ridges; the one under which held-out labels are cheapest."""
        held, mine = self.dev, sent
        if self.inner_holdout:
            cut = max(1, round((1 - INNER) * len(sent.features)))
            mine, held = sent.first(cut), sent.part(cut, len(sent.features))
        labellings = len(sent.labels)
        tried = np.array([[STEP], [1.0], [1 / STEP]]) * self.strength
        fit = self._train(mine, tried.flatten())
        known = len(mine.features) if self.mix else None
        log_p = log_probabilities(fit, held.features)
        costs = cost(log_p, held.labels.repeat(len(tried), 1), known).sum(1).reshape(tried.shape)
        best = costs.argmin(0)
        self.strength = self.strength * STEP ** _least(*costs)
        self.used = self.strength if self.inner_holdout else tried[best, np.arange(labellings)]
        if self.inner_holdout:
            return self._train(sent, self.strength)
        rows = torch.from_numpy(best * labellings + np.arange(labellings))
        return Fit(fit.weights[rows], fit.objective[rows], fit.gap[rows], fit.passes)

    def _train(self, sent: Labelled, strength: np.ndarray) -> Fit:
        """Probes of all labellings, again and again under the strengths given, in the same passes."""
        features, count = sent.features, len(sent.features)
        labels = sent.labels.repeat(len(strength) // len(sent.labels), 1)
        probes = IsotropicProbes(labels, features.width, self.classes, torch.from_numpy(strength / count).float())
        batch = min(BATCH, max(SMALLEST_BATCH, count // 8))
        passes = self.passes * min(1.0, MANY / count) ** 0.25
        steps = max(FEWEST_STEPS, round(passes * count / batch))
        probes.train(iter(Visit(features, batch, seed=0)), steps, RATE / features.width**0.5)
        unknown = torch.full((len(strength),), float("nan"))
        return Fit(probes.solution(), unknown, unknown, round(steps * batch / count))


def _least(above: np.ndarray, here: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Where a parabola through the costs at 1, 0 and -1 is least, between -1 and 1."""
    bend = above + below - 2 * here
    place = np.divide(below - above, 2 * bend, out=np.sign(below - above), where=bend > 0)
    return np.clip(place, -1, 1)


def _alone(labels: Tensor) -> np.ndarray:
    """(labellings,): whether all labels (labellings, rows) are of one class."""
    return (labels.amin(1) == labels.amax(1)).numpy()


@dataclass
class MlpCoder:
    """Networks with one hidden layer on every layer, trained together, one seed per labelling."""

    layers: Sequence[Labelled]
    """In the order in which labels are sent."""
    dev: Sequence[Labelled]
    classes: int
    recipe: MlpRecipe = field(default_factory=MlpRecipe)
    inner_holdout: bool = False
    mix: bool = True
    seed: int = 0
    fit: MlpFit | None = field(default=None, init=False)
    sharpness: Tensor = field(default_factory=lambda: torch.ones(()), init=False)
    """(layers, labellings): factor on logarithms of probabilities."""

    def __call__(self, known: int, end: int) -> np.ndarray:
        """(layers * labellings, rows)."""
        alone = _alone(self.layers[0].first(known).labels)
        if alone.all():
            return np.full((len(self.layers) * len(alone), end - known), np.nan)
        self.trained(known)
        coded = [layer.part(known, end) for layer in self.layers]
        log_p = self.log_probabilities([part.features for part in coded])
        nats = np.stack([cost(mine, coded[0].labels, known if self.mix else None) for mine in log_p])
        return np.where(alone[:, None], np.nan, nats).reshape(-1, end - known)

    def trained(self, known: int) -> MlpFit:
        """Fresh networks on the first labels; epochs and sharpness are those best for held-out labels."""
        sent, held = [layer.first(known) for layer in self.layers], list(self.dev)
        if self.inner_holdout:
            cut = max(1, round((1 - INNER) * known))
            sent, held = [s.first(cut) for s in sent], [s.part(cut, known) for s in sent]
        seeds = [self.seed + 1000 * at for at in range(len(sent[0].labels))]
        features = [s.features for s in sent], [h.features for h in held]
        self.fit = solve_mlp(features[0], sent[0].labels, features[1], held[0].labels, self.classes, self.recipe, seeds)
        log_p = self.fit.log_probabilities(features[1])
        costs = torch.stack([_totals((factor * log_p).log_softmax(-1), held[0].labels) for factor in SHARPNESS])
        self.sharpness = torch.tensor(SHARPNESS)[costs.argmin(0)]
        return self.fit

    def log_probabilities(self, features: Sequence[Features]) -> Tensor:
        """(layers, labellings, rows, classes)."""
        assert self.fit is not None
        return (self.sharpness[..., None, None] * self.fit.log_probabilities(features)).log_softmax(-1)


def _totals(log_p: Tensor, labels: Tensor) -> Tensor:
    """(layers, labellings): nats of all labels that have a class."""
    gold = labels.clamp(min=0).expand(len(log_p), -1, -1)
    return torch.where(labels >= 0, class_nats(log_p, gold), 0.0).sum(-1)
