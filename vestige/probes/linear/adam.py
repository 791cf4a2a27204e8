"""The papers' probe: softmax regression by Adam over shuffled mini-batches, a fixed number of epochs.

durrani2020 and durrani2021 train with Adam at 1e-3, batches of 512, ten epochs and no early
stopping. All layers and all probes of a seed are trained in the same pass over the rows: the probes of
a layer are one matrix (probes * classes, width), and a step is two products with it and one update.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.linear.softmax import Penalty, evaluate
from vestige.probes.problem import Features, Fit
from vestige.probes.steps import Moments, Penalties, adam, softmax_residual
from vestige.products import times_transposed


@dataclass(frozen=True)
class AdamRecipe:
    """Step size, batch size and length of the papers' training."""

    rate: float = 1e-3
    batch: int = 512
    epochs: int = 10
    l1: float = 0.0
    l2: float = 0.0


def solve_by_adam(
    layers: Sequence[Features],
    labels: Tensor,
    classes: int,
    recipe: AdamRecipe,
    seeds: Sequence[int],
    tick: Callable[[], None] = lambda: None,
) -> list[Fit]:
    """Train len(seeds) probes on every layer; labels (probes, rows). One Fit per layer.

    A seed decides starting weights and order of rows; probes of one seed are trained in one pass.
    """
    weights = torch.empty(len(layers), len(seeds), layers[0].width + 1, classes)
    for seed in dict.fromkeys(seeds):
        mine = [at for at, other in enumerate(seeds) if other == seed]
        weights[:, mine] = _train_seed(layers, labels[mine], classes, recipe, seed, tick)
    return [_finish(features, labels, weights[index], recipe) for index, features in enumerate(layers)]


def _train_seed(
    layers: Sequence[Features], labels: Tensor, classes: int, recipe: AdamRecipe, seed: int, tick: Callable[[], None]
) -> Tensor:
    """(layers, probes, width + 1, classes): probes that start alike and read the rows in the same order."""
    probes, rows = labels.shape
    starts = _initial_weights(len(layers), layers[0].width, classes, seed)
    trained = [_Probes(start.T.repeat(probes, 1), classes, recipe) for start in starts]
    order = np.random.default_rng([seed, rows])
    for _ in range(recipe.epochs):
        shuffled = order.permutation(rows)
        for start in range(0, rows, recipe.batch):
            which = np.sort(shuffled[start : start + recipe.batch])
            gold = labels.index_select(1, torch.from_numpy(which))
            for features, layer in zip(layers, trained, strict=True):
                layer.step(features.rows(which), gold)
            tick()
    found = torch.stack([torch.cat([layer.weights, layer.biases], dim=1) for layer in trained])
    return found.view(len(layers), probes, classes, -1).transpose(2, 3)


def _initial_weights(layers: int, width: int, classes: int, seed: int) -> Tensor:
    """torch.nn.Linear's default: uniform within 1/sqrt(width), weights and biases alike; (layers, width + 1, classes).

    All probes of a layer start with them.
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.empty(layers, width + 1, classes).uniform_(-(width**-0.5), width**-0.5, generator=generator)


class _Probes:
    """The probes of one layer, under Adam with torch's defaults; penalties enter by their (sub)gradient.

    Biases are free of them.
    """

    def __init__(self, start: Tensor, classes: int, recipe: AdamRecipe) -> None:
        """start (probes * classes, width + 1), the last column being the biases."""
        self.weights, self.biases = start[:, :-1].contiguous(), start[:, -1:].contiguous()
        self.classes, self.rate = classes, recipe.rate
        self.moments, self.bias_moments = (Moments.of(part, 0.9, 0.999) for part in (self.weights, self.biases))
        probes = len(start) // classes
        self.penalties, self.free = Penalties.none(probes), Penalties.none(probes)
        self.penalties.sign.fill_(recipe.l1)
        self.penalties.pull.fill_(2 * recipe.l2)

    def step(self, rows: Tensor, labels: Tensor) -> None:
        """One mini-batch of rows (rows, width) and labels (probes, rows)."""
        logits = times_transposed(self.weights, rows)
        residual = softmax_residual(logits, self.biases[:, 0], labels, self.classes)
        gradient, drift = times_transposed(residual, rows.T), residual.sum(1, keepdim=True)
        adam(self.weights, gradient, self.moments, self.rate, self.classes, self.penalties)
        adam(self.biases, drift, self.bias_moments, self.rate, self.classes, self.free)


def _finish(features: Features, labels: Tensor, weights: Tensor, recipe: AdamRecipe) -> Fit:
    """The layer's probes (probes, width + 1, classes) and their objective; fixed epochs give no bound on the gap."""
    mine = weights.contiguous()
    at = evaluate(features, labels, mine)
    probes, shape = len(mine), (len(mine), 1, 1)
    penalty = Penalty(torch.full(shape, recipe.l1), torch.full(shape, recipe.l2))
    objective = at.loss + penalty.value(mine[:, :-1])
    return Fit(mine, objective.float(), torch.full((probes,), float("nan")), recipe.epochs)
