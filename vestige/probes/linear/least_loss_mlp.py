"""The probe with a hidden layer that has the least cross-entropy on held-out words, for measures of information.

What `least_loss` is for linear probes. Its training depends on the axes of a layer and on its width, by Adam's steps
and by starting weights; an information must not. Rows are therefore read on their principal axes, beside zeros: what
one layer gives alone is read as [h; 0] (Hewitt et al. 2021), so that [h; h], or a layer beside its rotation, is the
same numbers, and adds nothing. The epoch is the one of least cross-entropy on dev. The problem is not convex, so every
seed trains another probe, and no distance from the optimum is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.axes import principal_rotation
from vestige.probes.linear.least_loss import Told
from vestige.probes.linear.mlp import MlpFit, MlpRecipe, solve_mlp
from vestige.probes.problem import BLOCK, RESIDENT_BYTES, Features
from vestige.probes.visit import Rows
from vestige.representations.store import row_blocks


@dataclass(frozen=True)
class OnAxes:
    """Rows multiplied by a matrix (width of the rows, width) when they are read."""

    source: Rows
    axes: Tensor

    def __len__(self) -> int:
        return len(self.source)

    @property
    def width(self) -> int:
        return self.axes.shape[1]

    def rows(self, which: slice | np.ndarray) -> Tensor:
        """Some rows, as a float32 tensor."""
        return self.source.rows(which) @ self.axes

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Tensor]]:
        """(slice, rows) over all rows, in order."""
        return ((span, self.rows(span)) for span in row_blocks(len(self), size))

    def resident(self, budget: int = RESIDENT_BYTES) -> Rows:
        """Copied into memory if they fit the budget, else as they are."""
        if len(self) * self.width * 4 > budget:
            return self
        array = np.empty((len(self), self.width), dtype=np.float32)
        for span, rows in self.blocks():
            array[span] = rows.numpy()
        return Features(array)


def least_loss_mlp(
    train: Rows,
    labels: Tensor,
    dev: tuple[Rows, Tensor],
    held: tuple[Rows, Tensor],
    classes: int,
    *,
    width: int,
    hidden: int,
    seeds: Sequence[int],
) -> tuple[Told, ...]:
    """A probe a seed, trained on labels (rows,); what each says of dev and of the scored rows, given with their labels.

    A label that train lacks is -1. Rows that are narrower than `width` are read beside zeros.
    """
    axes = torch.from_numpy(principal_rotation([train]))
    axes = torch.cat([axes, axes.new_zeros(len(axes), max(0, width - axes.shape[1]))], dim=1)
    rows, own, scored = (OnAxes(mine, axes).resident() for mine in (train, dev[0], held[0]))
    many = len(seeds), -1
    recipe = MlpRecipe(hidden=hidden, kept_by="loss")
    fit = solve_mlp([rows], labels.expand(many), [own], dev[1].expand(many), classes, recipe, seeds)
    learnt, read = (_log_p(fit, mine) for mine in (rows, own))
    said = _log_p(fit, scored)
    return tuple(
        Told(
            _gold(read[seed], dev[1]),
            _gold(said[seed], held[1]),
            ridge=0.0,
            gap=float("nan"),
            accuracies=(_accuracy(learnt[seed], labels), _accuracy(read[seed], dev[1])),
        )
        for seed in range(len(seeds))
    )


def _log_p(fit: MlpFit, rows: Rows) -> Tensor:
    """(seeds, rows, classes)."""
    return fit.log_probabilities([rows])[0]


def _gold(log_p: Tensor, labels: Tensor) -> np.ndarray:
    """Log-probability of the right label of every row that has one, in float64."""
    found = log_p.double().log_softmax(-1).gather(-1, labels[:, None].clamp(min=0)).squeeze(-1)
    return found[labels >= 0].numpy()


def _accuracy(log_p: Tensor, labels: Tensor) -> float:
    return float((log_p.argmax(-1) == labels).double().mean())
