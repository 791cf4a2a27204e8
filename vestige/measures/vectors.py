"""Two lists of vectors of the same items, read in blocks of rows as float64, whatever holds them.

Rows are items (words, sentences), columns are units. An array may be memory-mapped: it is never
copied whole. What a measure wants done to the rows first (moved to their mean, scaled to length one)
is found in one pass and applied to every block that is read.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import torch

from vestige.errors import AnalysisError
from vestige.measures.jackknife import LEAST_ITEMS
from vestige.representations.store import row_blocks

Array: TypeAlias = np.ndarray | torch.Tensor
Items: TypeAlias = np.ndarray | slice
Prepare = Literal["plain", "unit", "centred", "centred_unit"]

BLOCK_VALUES = 2**21
"""Values of one block (16 MB)."""

RESIDENT = 2**28
"""Bytes of prepared vectors that one layer may take in memory."""


_NOTHING = 1e-12
"""Share of the sum of squares that differences of float32 values may reach by rounding alone."""


class UndefinedSimilarityError(AnalysisError):
    """The measure has no value for these vectors: all alike, or a zero among them."""


class SimilarityWarning(UserWarning):
    """The value is defined, but says less than it seems to."""


@dataclass(frozen=True)
class Vectors:
    """The vectors of one layer: an array, which of its rows, and what is done to them."""

    array: np.ndarray
    name: str = "x"
    rows: np.ndarray | None = None
    """Numbers of the rows that are meant; None: all."""
    centre: np.ndarray | None = None
    """(units,) taken from every row."""
    lengths: np.ndarray | None = None
    """(items,) by which rows are divided then."""

    @classmethod
    def of(cls, array: Array, name: str = "x", rows: np.ndarray | None = None) -> "Vectors":
        """Checked for shape only; values are checked where they are first read."""
        if isinstance(array, torch.Tensor):
            array = array.detach().cpu()
            array = (array.float() if array.dtype == torch.bfloat16 else array).numpy()
        if not isinstance(array, np.ndarray):
            try:
                array = np.asarray(array)
            except ValueError as error:
                raise AnalysisError(
                    f"{name}: rows of different lengths", fix="give as many units of every item"
                ) from error
        if array.ndim != 2 or array.dtype.kind not in "fiu" or not array.shape[1]:
            raise AnalysisError(
                f"{name}: expected numbers of shape (items, units), found {array.dtype} of shape {array.shape}",
                fix="give a row per word (or sentence) and a column per unit",
            )
        made = cls(array, name, rows)
        if len(made) < LEAST_ITEMS:
            raise AnalysisError(
                f"{name}: {len(made)} items, but a similarity needs at least {LEAST_ITEMS}", fix="give more items"
            )
        return made

    def __len__(self) -> int:
        return len(self.array) if self.rows is None else len(self.rows)

    @property
    def width(self) -> int:
        return self.array.shape[1]

    def block(self, items: Items) -> np.ndarray:
        """(items, units) in float64, prepared; not to be written to."""
        values = np.asarray(self.array[items if self.rows is None else self.rows[items]], dtype=np.float64)
        if self.centre is not None:
            values = values - self.centre
        if self.lengths is not None:
            values = values / self.lengths[items][:, None]
        return values

    def prepared(self, how: Prepare) -> "Vectors":
        """The same vectors moved to their mean and scaled to length one, as asked."""
        made = replace(self, centre=self._mean()) if how.startswith("centred") else self
        return replace(made, lengths=made._lengths()) if how.endswith("unit") else made

    def resident(self, budget: int | None = None) -> "Vectors":
        """Prepared once and kept in memory, unless that takes more bytes than the budget (`RESIDENT`)."""
        if 8 * len(self) * self.width > (RESIDENT if budget is None else budget):
            return self
        return Vectors(self.block(slice(None)), self.name)

    def chunks(self, items: np.ndarray | None = None) -> Iterator[Items]:
        """Items (all, or those given) in blocks."""
        size = max(16, BLOCK_VALUES // self.width)
        if items is None:
            return row_blocks(len(self), size)
        return (items[start : start + size] for start in range(0, len(items), size))

    def must_differ(self) -> None:
        """Refuse vectors that are all alike."""
        self._mean()

    def _mean(self) -> np.ndarray:
        total, first = np.zeros(self.width), self.block(slice(1))
        spread = size = 0.0
        for items in self.chunks():
            values = self.block(items)
            self._check_finite(values, items)
            total += values.sum(0)
            size += float(np.vdot(values, values))
            apart = values - first
            spread += float(np.vdot(apart, apart))
        if spread <= _NOTHING * size:
            raise all_alike(self.name)
        return total / len(self)

    def _lengths(self) -> np.ndarray:
        lengths = np.empty(len(self))
        for items in self.chunks():
            values = self.block(items)
            self._check_finite(values, items)
            lengths[items] = np.sqrt(np.einsum("ij,ij->i", values, values))
        zero = np.flatnonzero(lengths == 0)
        if len(zero):
            raise UndefinedSimilarityError(
                f"{self.name}: the vector of item {zero[0]} is zero ({len(zero)} of {len(self)} are), "
                "so its cosine with others is not defined",
                fix="leave such items out, or use a measure without cosines (cka)",
            )
        return lengths

    def _check_finite(self, values: np.ndarray, items: Items) -> None:
        if not np.isfinite(values.sum()):
            bad = np.arange(len(self))[items][~np.isfinite(values).all(axis=1)]
            raise AnalysisError(
                f"{self.name}: NaN or infinite values, first in item {bad[0]}",
                fix="remove such items; a model tuned to divergence gives them",
            )


def all_alike(name: str) -> UndefinedSimilarityError:
    """The error for vectors among which there is nothing to compare."""
    return UndefinedSimilarityError(
        f"{name}: its vectors do not differ, beyond rounding or chance, so no similarity is defined",
        fix="leave this layer out (the first token's vector before the first block is the same for all sentences), "
        "or give more items",
    )


def pair_of(x: Array, y: Array) -> tuple[Vectors, Vectors]:
    """Both arrays, which must hold the same items."""
    first, second = Vectors.of(x, "x"), Vectors.of(y, "y")
    check_items(first, second)
    return first, second


def warn_few_items(x: Vectors, y: Vectors, measure: str, fix: str) -> None:
    """Say so where even unrelated vectors would look alike."""
    if len(x) < (width := max(x.width, y.width)):
        warnings.warn(
            f"{measure}: {len(x)} items of {width} units; with fewer items than units even unrelated vectors "
            f"look alike: {fix}, or give more items",
            SimilarityWarning,
            stacklevel=3,
        )


def check_items(x: Vectors, y: Vectors) -> None:
    """Raise unless both have a vector for every item."""
    if len(x) != len(y):
        raise AnalysisError(
            f"{x.name} has {len(x)} items, {y.name} has {len(y)}: rows are compared by position",
            fix="keep the items that both have, in the same order",
        )
