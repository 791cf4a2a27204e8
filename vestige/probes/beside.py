"""Two layers side by side, as one set of rows: what a probe of [a; b] reads.

Conditional V-information (Hewitt et al. 2021, section 3) compares a probe of [a; b] with the same probe of [a; 0]. The
two must differ in nothing but what b adds. A ridge punishes weights, so a probe that is given a twice could halve its
weights: [a; b] is therefore brought to the size of [a; 0], half of it in each block. Then [a; a], or a beside a
rotation of itself, is read exactly as [a; 0] is, whatever the ridge; and [a; 0] is read as a alone is, since weights on
zeros stay zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.problem import BLOCK, RESIDENT_BYTES, Features
from vestige.representations.store import row_blocks


@dataclass(frozen=True)
class Beside:
    """The rows of two `Features`, each at root mean square 1, that belong to the same words; read piece by piece."""

    first: Features
    second: Features

    def __post_init__(self) -> None:
        if len(self.first) != len(self.second):
            raise AnalysisError(
                f"{len(self.first)} rows cannot stand beside {len(self.second)}",
                fix="take the words that both models have",
            )

    def __len__(self) -> int:
        return len(self.first)

    @property
    def width(self) -> int:
        return self.first.width + self.second.width

    @property
    def shares(self) -> tuple[float, float]:
        """What either block is multiplied by: together they are as large as a block of their mean width."""
        first, second = ((self.width / (4 * one.width)) ** 0.5 for one in (self.first, self.second))
        return first, second

    def rows(self, which: slice | np.ndarray) -> Tensor:
        """Some rows of both, as a float32 tensor."""
        parts = zip((self.first, self.second), self.shares, strict=True)
        return torch.cat([one.rows(which) * share for one, share in parts], dim=1)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[slice, Tensor]]:
        """(slice, rows) over all rows, in order."""
        return ((span, self.rows(span)) for span in row_blocks(len(self), size))

    def resident(self, budget: int = RESIDENT_BYTES) -> "Beside | Features":
        """Copied into memory if they fit the budget, else as they are."""
        if len(self) * self.width * 4 > budget:
            return self
        array = np.empty((len(self), self.width), dtype=np.float32)
        for span, rows in self.blocks():
            array[span] = rows.numpy()
        return Features(array)
