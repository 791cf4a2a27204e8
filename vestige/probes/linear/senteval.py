"""SentEval's probe: mini-batches of Adam, a grid of weight decays, early stopping (Conneau & Kiela 2018).

Every weight decay of the grid trains a probe from the same first weights on the same batches. Dev is
scored every `epoch_size` epochs; the best weights by dev are kept, and the probe stops at the
(tenacity + 1)-th validation pass without a gain. Such passes are counted over the whole training: a gain does
not start the count anew. Between the weight decays the dev accuracy in percent, rounded to two
decimals, decides, and the smallest of equals. SentEval then trains the winner once more from the same
seed, which gives the same weights: here they are kept instead.

The weight decay is added to the gradient, of biases too, as torch's Adam does it. The loss is the
mean over a batch, which is what SentEval's code computes since torch 0.4; earlier it was the sum, so
that numbers of that time correspond to weight decays smaller by the size of a batch.

First weights, order of rows and dropout come from the random streams that SentEval seeds (torch's and
NumPy's), so that the probe of seed 1111 is SentEval's own, given the sentences in its order: by length
and label, where ties are left as its files have them and here are broken by id.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.problem import Features, check_labels

SEED = 1111
"""SentEval's."""


@dataclass(frozen=True)
class SentEvalRecipe:
    """The classifier of SentEval's published numbers; `hidden` 0 is logistic regression."""

    l2: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)
    hidden: int = 0
    dropout: float = 0.0
    """Of hidden units, before the sigmoid."""
    rate: float = 1e-3
    batch: int = 64
    tenacity: int = 5
    epoch_size: int = 4
    max_epoch: int = 200


@dataclass(frozen=True)
class SentEvalFit:
    """P probes of one layer, each under the weight decay that was best on dev."""

    parameters: tuple[Tensor, ...]
    """Weights (P, width, outputs) and biases (P, 1, outputs), of one layer or two."""
    l2: Tensor
    """(P,)."""
    dev_accuracy: Tensor
    """(P,), not rounded."""
    epochs: Tensor
    """(P,): after how many epochs training stopped."""

    def log_probabilities(self, features: Features) -> Tensor:
        """(P, rows, classes)."""
        return torch.cat([_logits(self.parameters, rows).log_softmax(-1) for _, rows in features.blocks()], dim=1)


class Stopping:
    """When each of several probes stops, from their dev accuracies."""

    def __init__(self, probes: int, recipe: SentEvalRecipe) -> None:
        self.recipe = recipe
        self.best = torch.full((probes,), -1.0, dtype=torch.float64)
        self.running = torch.ones(probes, dtype=torch.bool)
        self.stale = torch.zeros(probes, dtype=torch.long)
        self.epochs = torch.zeros(probes, dtype=torch.long)

    def record(self, accuracy: Tensor) -> Tensor:
        """After `epoch_size` more epochs: which probes are better than ever; those that stopped are not."""
        self.epochs[self.running] += self.recipe.epoch_size
        better = self.running & (accuracy > self.best)
        missed = self.running & ~better
        self.best = torch.where(better, accuracy, self.best)
        out_of_patience = missed & (self.stale >= self.recipe.tenacity)
        self.stale += missed
        self.running &= ~out_of_patience & (self.epochs <= self.recipe.max_epoch)
        return better


def solve_senteval(
    train: Features,
    labels: Tensor,
    dev: Features,
    dev_labels: Tensor,
    classes: int,
    recipe: SentEvalRecipe,
    seed: int = SEED,
    order: np.ndarray | None = None,
) -> SentEvalFit:
    """Train P probes on one layer; labels (P, rows), dev_labels (P, dev rows).

    `order` says in which order the rows are before they are shuffled (SentEval: by length and label).
    """
    check_labels(labels, classes, len(train))
    order = np.arange(len(train)) if order is None else order
    grid = len(recipe.l2)
    gold, dev_gold = labels.repeat_interleave(grid, 0), dev_labels.repeat_interleave(grid, 0)
    decay = torch.tensor(recipe.l2).repeat(len(labels)).view(-1, 1, 1)
    generator, shuffles = torch.Generator().manual_seed(seed), np.random.RandomState(seed)
    parameters = _initial(train.width, classes, recipe.hidden, len(gold), generator)
    optimiser = torch.optim.Adam(parameters, lr=recipe.rate)
    best = [parameter.detach().clone() for parameter in parameters]
    stopping = Stopping(len(gold), recipe)
    while stopping.running.any():
        for _ in range(recipe.epoch_size):
            shuffled = order[shuffles.permutation(len(train))]
            for start in range(0, len(train), recipe.batch):
                which = shuffled[start : start + recipe.batch]
                logits = _logits(parameters, train.rows(which), _dropout(recipe, len(which), generator))
                loss = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), gold[:, which].flatten(), reduction="sum"
                )
                gradients = torch.autograd.grad(loss / len(which), parameters)
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient.addcmul(decay, parameter.detach())
                optimiser.step()
        better = stopping.record(_accuracy(parameters, dev, dev_gold))
        for kept, parameter in zip(best, parameters, strict=True):
            kept[better] = parameter.detach()[better]
    return _winners(best, stopping, recipe, len(labels))


def _winners(best: Sequence[Tensor], stopping: Stopping, recipe: SentEvalRecipe, probes: int) -> SentEvalFit:
    """Of each probe the weight decay with the best rounded dev accuracy; the first of equals."""
    grid = len(recipe.l2)
    percent = np.round(100 * stopping.best.numpy().reshape(probes, grid), 2)
    chosen = percent.argmax(1)
    which = torch.from_numpy(np.arange(probes) * grid + chosen)
    l2 = torch.tensor(recipe.l2, dtype=torch.float64)[torch.from_numpy(chosen)]
    return SentEvalFit(tuple(kept[which] for kept in best), l2, stopping.best[which], stopping.epochs[which])


def _initial(width: int, classes: int, hidden: int, probes: int, generator: torch.Generator) -> list[Tensor]:
    """torch.nn.Linear's first weights under SentEval's seed, the same for every probe."""
    sizes = [(width, hidden), (hidden, classes)] if hidden else [(width, classes)]
    parameters = []
    for inputs, outputs in sizes:
        bound = inputs**-0.5
        weights = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator).T
        biases = torch.empty(1, outputs).uniform_(-bound, bound, generator=generator)
        parameters += [weights.repeat(probes, 1, 1), biases.repeat(probes, 1, 1)]
    return [parameter.requires_grad_() for parameter in parameters]


def _dropout(recipe: SentEvalRecipe, rows: int, generator: torch.Generator) -> Tensor | None:
    """(rows, hidden): what hidden units are multiplied by; None where none is dropped."""
    if not recipe.hidden or not recipe.dropout:
        return None
    kept = 1 - recipe.dropout
    return torch.empty(rows, recipe.hidden).bernoulli_(kept, generator=generator).div_(kept)


def _logits(parameters: Sequence[Tensor], rows: Tensor, dropout: Tensor | None = None) -> Tensor:
    """(P, rows, classes) of rows (rows, width)."""
    out = torch.einsum("nw,pwc->pnc", rows, parameters[0]) + parameters[1]
    if len(parameters) == 4:
        out = out if dropout is None else out * dropout
        out = torch.baddbmm(parameters[3], out.sigmoid(), parameters[2])
    return out


@torch.no_grad()
def _accuracy(parameters: Sequence[Tensor], features: Features, gold: Tensor) -> Tensor:
    """(P,): share of rows predicted right."""
    predicted = torch.cat([_logits(parameters, rows).argmax(-1) for _, rows in features.blocks()], dim=1)
    return (predicted == gold).double().mean(1)
