"""Some rows of stored representations: the words that two models have in common."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vestige.representations.store import Representations


@dataclass(frozen=True)
class Selected(Representations):
    """Representations of which only some rows count. A layer is read into memory when it is asked for."""

    chosen: np.ndarray
    """(rows,): numbers of the rows, in ascending order."""

    def layer(self, index: int) -> np.ndarray:
        """The vectors of one layer, (rows, width)."""
        return super().layer(index)[self.chosen]

    @cached_property
    def index(self) -> np.ndarray:
        """Per row (sentence number, word number)."""
        return Representations(self.folder, self.manifest).index[self.chosen]

    def __len__(self) -> int:
        return len(self.chosen)


def in_common(one: Representations, other: Representations) -> tuple[Representations, Representations]:
    """Both with the words that both have, in the same order; the same objects where they have the same words."""
    if np.array_equal(one.index, other.index):
        return one, other
    mine, theirs = (found.index.astype(np.int64) @ np.array([1 << 32, 1]) for found in (one, other))
    _, first, second = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return Selected(one.folder, one.manifest, first), Selected(other.folder, other.manifest, second)
