"""All layers of a corpus side by side: a row per word, a column per neuron."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.representations.store import Representations, expect, row_blocks

BLOCK_BYTES = 16 << 20
"""About as much as is read at once. Blocks of 32 MiB and more are new pages to the system each time, which takes longer
than what is done with them."""


COLUMN_ROWS = 256
"""Rows of which columns are picked at once, and then put in order: few enough to stay in the processor's cache."""


@dataclass(frozen=True)
class Neurons:
    """(rows, neurons), read piece by piece; a neuron's id counts through the layers, embeddings first.

    Layers may differ in width. Solvers read it like `vestige.probes.problem.Features`.
    """

    layers: tuple[np.ndarray, ...]
    """Per layer (rows, width), in memory or memory-mapped."""

    def __post_init__(self) -> None:
        shapes = [layer.shape for layer in self.layers]
        if not shapes or any(len(shape) != 2 or shape[0] != shapes[0][0] for shape in shapes):
            raise AnalysisError(
                f"layers of the shapes {shapes} are no matrix of rows and neurons",
                fix="give at least one layer (rows, width), all of the same rows",
            )

    @classmethod
    def of(cls, representations: Representations) -> "Neurons":
        """All layers of stored representations."""
        return cls(tuple(representations.layer(index) for index in range(representations.layers)))

    def __len__(self) -> int:
        return self.layers[0].shape[0]

    @cached_property
    def offsets(self) -> np.ndarray:
        """The first neuron of every layer, and the number of all neurons."""
        return np.concatenate([[0], np.cumsum([layer.shape[1] for layer in self.layers])])

    @property
    def width(self) -> int:
        """How many neurons there are."""
        return int(self.offsets[-1])

    def layer_of(self, neurons: np.ndarray) -> np.ndarray:
        """The layer of each neuron id."""
        return np.searchsorted(self.offsets, neurons, side="right") - 1

    def unit_of(self, neurons: np.ndarray) -> np.ndarray:
        """The number of each neuron within its layer."""
        return np.asarray(neurons) - self.offsets[self.layer_of(neurons)]

    def rows(self, which: slice | np.ndarray) -> Tensor:
        """Some rows of all neurons, as a float32 tensor of their own."""
        if isinstance(which, slice):
            for layer in self.layers:
                expect(layer, which)
        parts = [layer[which] for layer in self.layers]
        found = torch.empty(len(parts[0]), self.width)
        for first, part in zip(self.offsets[:-1], parts, strict=True):
            place = found[:, first : first + part.shape[1]]
            if part.dtype == np.float16:
                place.copy_(torch.from_numpy(np.array(part)))  # torch converts it faster than numpy
            else:
                place.numpy()[:] = part
        return found

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """(slice, rows) over all rows, in order."""
        size = size or max(1, BLOCK_BYTES // (4 * self.width))
        return ((span, self.rows(span)) for span in row_blocks(len(self), size))

    def columns(self, neurons: np.ndarray) -> np.ndarray:
        """(rows, len(neurons)) float32: the chosen neurons, in the order given."""
        neurons = np.asarray(neurons, dtype=np.int64)
        outside = neurons[(neurons < 0) | (neurons >= self.width)]
        if len(outside):
            raise AnalysisError(
                f"there is no neuron {outside[0]} among {self.width}",
                fix="take ids that belong to this model: they count through its layers from 0, embeddings first",
            )
        order = np.argsort(neurons, kind="stable")
        units, layers = self.unit_of(neurons[order]), self.layer_of(neurons[order])
        cuts = np.searchsorted(layers, np.arange(len(self.layers) + 1))
        out = np.empty((len(self), len(neurons)), dtype=np.float32)
        for span in row_blocks(len(self), COLUMN_ROWS):
            block = np.empty((span.stop - span.start, len(neurons)), dtype=np.float32)
            for layer, (start, end) in zip(self.layers, pairwise(cuts), strict=True):
                if start < end:
                    block[:, start:end] = np.take(layer[span], units[start:end], axis=1, mode="clip")
            np.take(block, np.argsort(order), axis=1, out=out[span], mode="clip")
        return out
