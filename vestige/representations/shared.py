"""Words that two models both have a vector of: their rows, or both representations cut to them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vestige.errors import AnalysisError
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


def shared_rows(
    mine: Representations, theirs: Representations, names: tuple[str, str], split: str
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of either model for the words that both have, in the same order; an error if sentences differ."""
    digests = [found.manifest.get("words_digest") for found in (mine, theirs)]
    if None not in digests and digests[0] != digests[1]:
        raise AnalysisError(
            f"{names[0]} and {names[1]} were shown different sentences of {split!r}",
            fix="compare representations of one corpus",
        )
    _, first, second = np.intersect1d(_keys(mine), _keys(theirs), assume_unique=True, return_indices=True)
    return first, second


def in_common(
    mine: Representations, theirs: Representations, names: tuple[str, str], split: str
) -> tuple[Representations, Representations]:
    """Both with the words that both have, in the same order; the same objects where they have the same words."""
    first, second = shared_rows(mine, theirs, names, split)
    if not len(first):
        raise AnalysisError(
            f"{names[0]} and {names[1]} have no word of {split!r} in common", fix="compare hidden states of one corpus"
        )
    if len(first) == len(mine) == len(theirs) and np.array_equal(mine.index, theirs.index):
        return mine, theirs
    return Selected(mine.folder, mine.manifest, first), Selected(theirs.folder, theirs.manifest, second)


def _keys(representations: Representations) -> np.ndarray:
    """(rows,) one number for sentence, word and, where words are in pieces, the piece's place in its word."""
    sentence, word = representations.index.astype(np.int64).T
    places = np.arange(len(word))
    opening = np.r_[True, (sentence[1:] != sentence[:-1]) | (word[1:] != word[:-1])][: len(word)]
    piece = places - np.maximum.accumulate(np.where(opening, places, 0))
    return sentence << 36 | (word + 1) << 12 | piece
