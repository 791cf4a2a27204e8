"""In which order training rows are visited: shuffled, and without reading a disk at random."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError, RepresentationError
from vestige.probes.problem import RESIDENT_BYTES

SAMPLE = 4096
"""Rows from which a property of all of them is estimated."""
STRETCH = 128
"""Neighbouring rows that are read from disk at once."""
BLOCK_BYTES = 1 << 20
"""Read at once of rows that are copied into memory: as much as stays in the processor's cache."""
WINDOW = 32
"""Stretches, from anywhere in the corpus, that are shuffled together."""


class Rows(Protocol):
    """What solvers read: `Features` of a layer, or the `Neurons` of all of them."""

    @property
    def width(self) -> int: ...

    def __len__(self) -> int: ...

    def rows(self, which: slice | np.ndarray) -> Tensor: ...

    def blocks(self, size: int = ...) -> Iterator[tuple[slice, Tensor]]: ...


def sample_rows(count: int, most: int = SAMPLE, seed: int = 0) -> np.ndarray:
    """Numbers of up to `most` rows, from everywhere, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng([seed, count, 1]).choice(count, most, replace=False))


def refuse_not_finite(rows: Tensor, which: np.ndarray) -> None:
    """Name the first value of `rows` that is NaN or infinite, if there is one; `which` are the numbers of the rows."""
    bad = ~torch.isfinite(rows)
    if bool(bad.any()):
        row, column = bad.nonzero()[0].tolist()
        raise RepresentationError(
            f"row {which[row]}, column {column} of the training rows (both counted from 0) is {rows[row, column]:g}",
            fix="check the model and extract its representations again, in float32",
        )


def refuse_diverged(biases: Tensor, rows: Tensor, which: np.ndarray) -> None:
    """End a training whose probes are no numbers any more, and say whether the rows of the last step are to blame."""
    if math.isfinite(float(biases.sum())):
        return
    refuse_not_finite(rows, which)
    raise AnalysisError(
        "the weights of a probe have grown beyond all numbers, though the rows are finite",
        fix="train with a lower rate or stronger penalties",
    )


@dataclass(frozen=True)
class Frame:
    """Where rows lie and how large they are around there, estimated from a sample.

    Probes are trained on rows with the centre taken off. As biases are free of penalty that is
    the same problem, but one whose columns do not all pull at the biases.
    """

    centre: Tensor
    """(width,)."""
    size: float
    """Root mean square of the rows around the centre; 1 where all are at it."""

    @classmethod
    def of(cls, source: Rows, which: np.ndarray | None = None) -> "Frame":
        """The frame that a sample shows, or the rows `which`."""
        which = sample_rows(len(source)) if which is None else which
        rows = source.rows(which)
        centre = rows.mean(0, dtype=torch.float64).float()
        length = float(torch.linalg.vector_norm(rows - centre, dtype=torch.float64))
        if not math.isfinite(length):
            refuse_not_finite(rows, which)
        return cls(centre, length / rows.numel() ** 0.5 or 1.0)


class Visit:
    """Endless mini-batches (rows, row numbers), no row again before the others had their turn.

    A remainder smaller than a batch waits for the next round.

    Rows that fit into memory are permuted freely. Larger sets are read in stretches of neighbours,
    drawn from everywhere, and shuffled within a window of them.
    """

    def __init__(
        self,
        source: Rows,
        batch: int,
        seed: int,
        resident_bytes: int | None = None,
        centre: Tensor | None = None,
    ) -> None:
        """`centre` (width,) is taken off every row."""
        self.source, self.batch, self.seed, self.centre = source, min(batch, len(source)), seed, centre
        self.memory: Tensor | None = None
        if len(source) * source.width * 4 <= (RESIDENT_BYTES if resident_bytes is None else resident_bytes):
            self.memory = self._resident()

    def __iter__(self) -> Iterator[tuple[Tensor, np.ndarray]]:
        return self.batches()

    def batches(self, stage: int = 0) -> Iterator[tuple[Tensor, np.ndarray]]:
        """The visit from its beginning, in an order that is this stage's own."""
        rng = np.random.default_rng([self.seed, len(self.source), stage])
        while True:
            yield from self._shuffled(rng) if self.memory is not None else self._by_windows(rng)

    def _read(self, span: slice, out: Tensor) -> None:
        rows = self.source.rows(span)
        out.copy_(rows) if self.centre is None else torch.sub(rows, self.centre, out=out)

    def _resident(self) -> Tensor:
        if self.centre is None:
            return self.source.rows(slice(0, len(self.source)))
        memory = self.centre.new_empty(len(self.source), self.source.width)
        for span, rows in self.source.blocks(max(1, BLOCK_BYTES // (4 * self.source.width))):
            torch.sub(rows, self.centre, out=memory[span])
        return memory

    def _shuffled(self, rng: np.random.Generator) -> Iterator[tuple[Tensor, np.ndarray]]:
        assert self.memory is not None
        order = rng.permutation(len(self.source))
        for start in range(0, len(order) - self.batch + 1, self.batch):
            which = order[start : start + self.batch]
            yield self.memory.index_select(0, torch.from_numpy(which).to(self.memory.device)), which

    def _by_windows(self, rng: np.random.Generator) -> Iterator[tuple[Tensor, np.ndarray]]:
        starts = rng.permutation(np.arange(0, len(self.source), STRETCH))
        rows = torch.empty(min(WINDOW * STRETCH, len(self.source)), self.source.width)
        for first in range(0, len(starts), WINDOW):
            spans = [slice(s, min(s + STRETCH, len(self.source))) for s in np.sort(starts[first : first + WINDOW])]
            numbers = np.concatenate([np.arange(span.start, span.stop) for span in spans])
            for at, span in zip(np.searchsorted(numbers, [span.start for span in spans]), spans, strict=True):
                self._read(span, rows[at : at + span.stop - span.start])
            order = rng.permutation(len(numbers))
            for start in range(0, max(1, len(order) - self.batch + 1), self.batch):
                which = order[start : start + self.batch]
                yield rows.index_select(0, torch.from_numpy(which)), numbers[which]
