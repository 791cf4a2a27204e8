"""A probe with one hidden layer: is a property gone from a layer, or only no longer linear in it?

All layers and seeds are trained together by Adam over shuffled mini-batches; every (layer, seed)
keeps its own best weights by accuracy (or cross-entropy) on the dev rows, and training ends when none has
improved for `patience` epochs. The problem is not convex: there is no certificate, only the dev curve.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.probes.visit import Rows

MIN_STEPS = 32
"""Steps an epoch has at least: on few rows, batches are smaller."""


@dataclass(frozen=True)
class MlpRecipe:
    """Shape and training of the hidden-layer probe."""

    hidden: int = 64
    rate: float = 1e-3
    batch: int = 512
    max_epochs: int = 40
    patience: int = 4
    kept_by: Literal["accuracy", "loss"] = "accuracy"
    """What tells on dev which epoch's weights are best; rows whose label train lacks are wrong, or have no loss."""


@dataclass(frozen=True)
class MlpFit:
    """Probes of every layer: parameters with leading dimensions (layers * seeds)."""

    parameters: tuple[Tensor, ...]
    seeds: int
    epochs: int

    def log_probabilities(self, layers: Sequence[Rows]) -> Tensor:
        """(layers, seeds, rows, classes)."""
        found = []
        for index, features in enumerate(layers):
            mine = [p[index * self.seeds : (index + 1) * self.seeds] for p in self.parameters]
            blocks = [
                _forward(mine, rows.expand(self.seeds, -1, -1))[1].log_softmax(-1) for _, rows in features.blocks()
            ]
            found.append(torch.cat(blocks, dim=1))
        return torch.stack(found)


def solve_mlp(
    layers: Sequence[Rows],
    labels: Tensor,
    dev_layers: Sequence[Rows],
    dev_labels: Tensor,
    classes: int,
    recipe: MlpRecipe,
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> MlpFit:
    """Train a probe per layer and seed; labels (seeds, rows). A seed decides starting weights and order of rows."""
    drawn = _initial(len(layers), layers[0].width, classes, recipe.hidden, seeds)
    parameters = [parameter.to(labels.device) for parameter in drawn]
    optimiser = torch.optim.Adam(parameters, lr=recipe.rate)
    best = [p.clone() for p in parameters]
    best_score = torch.full((len(layers) * len(seeds),), -torch.inf, device=labels.device)
    rows = labels.shape[1]
    batch_rows = min(recipe.batch, max(1, rows // MIN_STEPS))
    orders = [np.random.default_rng([seed, rows]) for seed in seeds]
    stale = epoch = 0
    while epoch < recipe.max_epochs and stale < recipe.patience:
        shuffled = np.stack([order.permutation(rows) for order in orders])
        for start in range(0, rows, batch_rows):
            which = np.sort(shuffled[:, start : start + batch_rows], axis=1)
            batch = torch.stack([features.rows(mine) for features in layers for mine in which])
            gradients = _gradients(parameters, batch, labels.gather(1, torch.from_numpy(which).to(labels.device)))
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimiser.step()
        epoch += 1
        log_p = MlpFit(tuple(parameters), len(seeds), epoch).log_probabilities(dev_layers)
        score = _score(log_p, dev_labels, recipe.kept_by).flatten()
        better = score > best_score
        for kept, parameter in zip(best, parameters, strict=True):
            kept[better] = parameter[better]
        best_score = torch.maximum(best_score, score)
        stale = 0 if bool(better.any()) else stale + 1
        tick()
    return MlpFit(tuple(best), len(seeds), epoch)


def _score(log_p: Tensor, labels: Tensor, by: Literal["accuracy", "loss"]) -> Tensor:
    """(layers, seeds): the higher, the better; log_p (layers, seeds, rows, classes), labels (seeds, rows)."""
    if by == "accuracy":
        return (log_p.argmax(-1) == labels).float().mean(-1)
    gold = labels.clamp(min=0).expand(log_p.shape[:-1]).unsqueeze(-1)
    known = labels >= 0
    return (log_p.gather(-1, gold).squeeze(-1) * known).sum(-1) / known.sum(-1)


def _initial(layers: int, width: int, classes: int, hidden: int, seeds: Sequence[int]) -> list[Tensor]:
    shapes = [((width, hidden), width), ((1, hidden), width), ((hidden, classes), hidden), ((1, classes), hidden)]
    parameters = []
    for position, (shape, fan_in) in enumerate(shapes):
        bound = fan_in**-0.5
        drawn = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(1_000_003 * seed + position)
            drawn.append(torch.empty(layers, *shape).uniform_(-bound, bound, generator=generator))
        parameters.append(torch.stack(drawn, dim=1).reshape(layers * len(seeds), *shape))
    return parameters


def _forward(parameters: Sequence[Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
    """(hidden activations, logits) of rows (probes, rows, width)."""
    first, first_bias, second, second_bias = parameters
    hidden = torch.baddbmm(first_bias, rows, first).relu_()
    return hidden, torch.baddbmm(second_bias, hidden, second)


def _gradients(parameters: Sequence[Tensor], rows: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """Of the mean cross-entropy, by hand; rows (layers * seeds, rows, width), labels (seeds, rows)."""
    hidden, logits = _forward(parameters, rows)
    residual = logits.softmax(-1)
    gold = labels.repeat(len(rows) // len(labels), 1).unsqueeze(-1)
    residual.scatter_add_(-1, gold, residual.new_full((1, 1, 1), -1.0).expand(gold.shape))
    residual /= rows.shape[1]
    behind = (residual @ parameters[2].transpose(1, 2)).mul_(hidden > 0)
    return (
        rows.transpose(1, 2) @ behind,
        behind.sum(1, keepdim=True),
        hidden.transpose(1, 2) @ residual,
        residual.sum(1, keepdim=True),
    )
