"""The probes of `v_information`: of one layer, of two layers side by side, and of nothing; what each says of a word."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.beside import Beside
from vestige.probes.linear.least_loss import Told, label_shares, least, least_loss_probe
from vestige.probes.linear.least_loss_mlp import least_loss_mlp
from vestige.probes.problem import Features
from vestige.probes.rows import LabelledRows

LN2 = float(np.log(2))
Seeds = tuple[Told, ...]
"""What the probes of one place say, a seed each; of linear probes, which have one answer, a single one."""
Given = tuple[Features | Beside, Tensor]
"""Rows and their labels."""
Family = Callable[[Given, Given, Given, int, int], Seeds]
"""Trains on the first, chooses by the second, and reads the third; then the number of classes, and the width of two
layers side by side."""


def linear(l2: float | None, tolerance: float) -> Family:
    """Softmax regressions; `l2` None: each has the ridge of least cross-entropy on dev."""

    def trained(train: Given, dev: Given, held: Given, classes: int, _: int) -> Seeds:
        return (least_loss_probe(*train, dev, held, classes, l2=l2, tolerance=tolerance),)

    return trained


def mlp(hidden: int, seeds: int) -> Family:
    """Networks with one hidden layer."""

    def trained(train: Given, dev: Given, held: Given, classes: int, width: int) -> Seeds:
        return least_loss_mlp(*train, dev, held, classes, width=width, hidden=hidden, seeds=range(seeds))

    return trained


@dataclass(frozen=True)
class Probes:
    """Trains the probes of one task and scored split; all of a family that may ignore what it is given."""

    rows: LabelledRows
    """Of the model; labels are those of any model's rows, which are of the same words."""
    split: str
    family: Family

    def __post_init__(self) -> None:
        for split in ("dev", self.split):
            if not bool((self.rows.labels[split] >= 0).any()):
                raise AnalysisError(
                    f"no word of {split!r} of task {self.rows.task.name!r} has a label that occurs in train",
                    fix="check the splits: labels must be written alike in all of them; or take more of train",
                )

    @cached_property
    def nothing(self) -> Told:
        """The probe that knows the shares of labels in train, and nothing of the word."""
        labels = self.rows.labels
        return label_shares(labels["train"], len(self.rows.classes), labels["dev"], labels[self.split])

    @cached_property
    def known(self) -> np.ndarray:
        """(rows,) of the scored split: which have a label that train has; only they are in what a probe says."""
        return (self.rows.labels[self.split] >= 0).numpy()

    def alone(self, rows: LabelledRows, layer: int) -> Seeds:
        """The probe of one layer, [h; 0], even where it is worse than the shares of labels."""
        train, dev, held = (rows.features(split, layer) for split in ("train", "dev", self.split))
        return self._trained(train.resident(), dev, held, 2 * train.width)

    def informed(self, trained: Seeds) -> Seeds:
        """Those probes, or that of nothing where it says more of dev."""
        return tuple(least([self.nothing, one]) for one in trained)

    def both(self, one: tuple[LabelledRows, int], other: tuple[LabelledRows, int], parts: Sequence[Seeds]) -> Seeds:
        """The probe of two layers side by side; or one of those of its parts, which the family has too."""
        sides = (
            [mine.features(split, layer) for mine, layer in (one, other)] for split in ("train", "dev", self.split)
        )
        train, dev, held = (Beside(*side) for side in sides)
        trained = self._trained(train.resident(), dev, held, train.width)
        return tuple(least(told) for told in zip(*parts, trained, strict=True))

    def bits(self, told: Seeds) -> np.ndarray:
        """(seeds, scored rows): pointwise V-information, log2 p(y | what the probe read) - log2 p(y)."""
        return np.stack([(one.held - self.nothing.held) / LN2 for one in told])

    def _trained(self, train: Features | Beside, dev: Features | Beside, held: Features | Beside, width: int) -> Seeds:
        labels = {split: torch.as_tensor(mine) for split, mine in self.rows.labels.items()}
        sides = (train, labels["train"]), (dev, labels["dev"]), (held, labels[self.split])
        return self.family(*sides, len(self.rows.classes), width)
