"""The papers' probe: softmax regression by Adam over shuffled mini-batches, a fixed number of epochs.

durrani2020 and durrani2021 train with Adam at 1e-3, batches of 512, ten epochs and no early
stopping. All layers and all probes of a seed are trained in the same pass over the rows: the weights
are one tensor (layers, width + 1, probes * classes), a step is two batched products and a fused
update, and the gradient of the softmax is written by hand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.linear.softmax import Penalty, evaluate
from vestige.probes.problem import Features, Fit


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
    weights = _initial_weights(len(layers), layers[0].width, classes, probes, seed)
    optimiser = _Adam(weights, recipe)
    order = np.random.default_rng([seed, rows])
    for _ in range(recipe.epochs):
        shuffled = order.permutation(rows)
        for start in range(0, rows, recipe.batch):
            which = np.sort(shuffled[start : start + recipe.batch])
            batch = torch.stack([features.rows(which) for features in layers])
            optimiser.step(_gradient(weights, batch, labels[:, which], probes, classes))
            tick()
    return weights.view(len(layers), -1, probes, classes).transpose(1, 2)


def _initial_weights(layers: int, width: int, classes: int, probes: int, seed: int) -> Tensor:
    """torch.nn.Linear's default: uniform within 1/sqrt(width), weights and biases alike; the same for all probes."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.empty(layers, width + 1, classes).uniform_(-(width**-0.5), width**-0.5, generator=generator)
    return drawn.repeat(1, 1, probes)


def _gradient(weights: Tensor, batch: Tensor, labels: Tensor, probes: int, classes: int) -> Tensor:
    """Of the mean cross-entropy of a batch (layers, rows, width), per layer and probe."""
    layers, rows, _ = batch.shape
    logits = torch.baddbmm(weights[:, -1:], batch, weights[:, :-1]).view(layers, rows, probes, classes)
    residual = logits.softmax(-1)
    gold = labels.T.reshape(1, rows, probes, 1).expand(layers, -1, -1, -1)
    residual.scatter_add_(-1, gold, residual.new_full((1, 1, 1, 1), -1.0).expand(gold.shape))
    residual = residual.view(layers, rows, probes * classes).div_(rows)
    return torch.cat([batch.transpose(1, 2) @ residual, residual.sum(1, keepdim=True)], dim=1)


class _Adam:
    """Adam with torch's defaults; penalties enter by their (sub)gradient, biases are free of them."""

    def __init__(self, weights: Tensor, recipe: AdamRecipe) -> None:
        self.weights, self.recipe = weights, recipe
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = 0

    def step(self, gradient: Tensor, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        inner = self.weights[:, :-1]
        if self.recipe.l1:
            gradient[:, :-1] += self.recipe.l1 * inner.sign()
        if self.recipe.l2:
            gradient[:, :-1] += 2 * self.recipe.l2 * inner
        self.steps += 1
        self.first.lerp_(gradient, 1 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        size = self.recipe.rate / (1 - beta1**self.steps)
        spread = self.second.sqrt().div_((1 - beta2**self.steps) ** 0.5).add_(epsilon)
        self.weights.addcdiv_(self.first, spread, value=-size)


def _finish(features: Features, labels: Tensor, weights: Tensor, recipe: AdamRecipe) -> Fit:
    """The layer's probes (probes, width + 1, classes) and their objective; fixed epochs give no bound on the gap."""
    mine = weights.contiguous()
    at = evaluate(features, labels, mine)
    probes, shape = len(mine), (len(mine), 1, 1)
    penalty = Penalty(torch.full(shape, recipe.l1), torch.full(shape, recipe.l2))
    objective = at.loss + penalty.value(mine[:, :-1])
    return Fit(mine, objective.float(), torch.full((probes,), float("nan")), recipe.epochs)
