"""Two models tensor by tensor: which names belong together, and what changed between them.

One pair of tensors is in memory at a time, in float32; what is larger than a few million numbers is read in rows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.measures.spectra import intruder_dimensions, sketch, spectral_norm
from vestige.models.files.kinds import AFTER_LAYERS, EMBEDDINGS, MATRICES, Place, places
from vestige.models.files.tensors import Weights

_AT_ONCE = 2**22
"""Numbers that are read at once."""
_OLD_NAMES = ((re.compile(r"(LayerNorm)\.gamma$"), r"\1.weight"), (re.compile(r"(LayerNorm)\.beta$"), r"\1.bias"))
TENTHS = 10


@dataclass(frozen=True)
class Matched:
    """The weights of two models by the names of the reference."""

    pairs: Mapping[str, str]
    """What a weight of the reference is called in the tuned model."""
    only_reference: tuple[str, ...]
    only_tuned: tuple[str, ...]


def match(reference: Weights, tuned: Weights) -> Matched:
    """Weights that are the same part of both models: of one name, but for what a head's model puts in front of it."""
    sides = [{name: _modern(name) for name in one.shapes} for one in (reference, tuned)]
    best: tuple[int, int, dict[str, str], dict[str, str]] | None = None
    for first in _fronts(sides[0].values()):
        mine = {name.removeprefix(first): old for old, name in sides[0].items()}
        for second in _fronts(sides[1].values()):
            theirs = {name.removeprefix(second): old for old, name in sides[1].items()}
            score = len(mine.keys() & theirs.keys()), -len(first) - len(second)
            if best is None or score > best[:2]:
                best = (*score, mine, theirs)
    assert best is not None
    _, _, mine, theirs = best
    pairs = {old: theirs[name] for name, old in mine.items() if name in theirs}
    if not pairs:
        raise AnalysisError(
            "the two models have no weight of the same name: "
            f"{next(iter(reference.shapes), 'none')} and {next(iter(tuned.shapes), 'none')}, for example",
            fix="compare a model with the one that it was tuned from",
        )
    taken = set(pairs.values())
    return Matched(
        pairs,
        tuple(name for name in reference.shapes if name not in pairs),
        tuple(name for name in tuned.shapes if name not in taken),
    )


def _modern(name: str) -> str:
    for old, new in _OLD_NAMES:
        name = old.sub(new, name)
    return name


def _fronts(names: Iterable[str]) -> list[str]:
    """What may stand in front of the names of a backbone: nothing, or what names begin with."""
    firsts = dict.fromkeys(f"{name.partition('.')[0]}." for name in names if "." in name)
    return ["", *firsts]


@dataclass
class Change:
    """What changed in one tensor."""

    name: str
    """In the reference."""
    place: Place
    rows: int
    columns: int
    squared: float = 0.0
    """Of the reference, the sum of all its numbers squared."""
    changed: float = 0.0
    """The same of the change."""
    rounded: float = 0.0
    """The same of the change that storing the reference in the tuned model's precision would make."""
    differs: bool = False
    """Whether any number differs by more than that."""
    resized: bool = False
    """Whether the models have different numbers of rows, so that the shared ones are compared."""
    spectral: float | None = None
    """The largest singular value of the change, of a matrix."""
    intruders: int | None = None
    looked_at: int = 0
    """Leading singular vectors that were looked at for intruders."""
    tenths: np.ndarray | None = None
    """(2, 10): of word embeddings, the sums of squares of change and reference by tenth of the vocabulary."""

    @property
    def size(self) -> int:
        return self.rows * self.columns

    @property
    def shapes_layers(self) -> bool:
        """Whether some layer depends on it: a pooler and a head come after all of them."""
        return self.place.kind not in AFTER_LAYERS

    @property
    def stable_rank(self) -> float | None:
        """|dW|_F^2 / |dW|_2^2; of no change there is none."""
        return None if not self.spectral else self.changed / self.spectral**2


@dataclass
class Measuring:
    """Measures pairs of tensors; what it does not compare is counted."""

    reference: Weights
    tuned: Weights
    leading: int
    below: float
    largest: int
    """Smaller side of a matrix up to which intruder dimensions are looked for."""
    matched: Matched = field(init=False)
    places: dict[str, Place] = field(init=False)
    unlike: list[str] = field(default_factory=list)
    """Weights of one name whose shapes differ in more than rows."""

    def __post_init__(self) -> None:
        self.matched = match(self.reference, self.tuned)
        self.places = places(self.reference.shapes)
        self._words = self._word_embeddings()

    def _word_embeddings(self) -> str | None:
        """The largest table of embeddings: that of the vocabulary."""
        found = [name for name in self.matched.pairs if self.places[name].kind == EMBEDDINGS]
        tables = [name for name in found if len(self.reference.shapes[name]) == 2]
        return max(tables, key=lambda name: self.reference.shapes[name][0], default=None)

    def changes(self) -> Iterator[tuple[Change, Tensor]]:
        """Every pair of tensors: what changed, and the sketch of the change."""
        for name, other in self.matched.pairs.items():
            here, there = self.reference.shapes[name], self.tuned.shapes[other]
            if len(here) != len(there) or here[1:] != there[1:]:
                self.unlike.append(name)
                continue
            rows = min(here[0], there[0]) if here else 1
            found = Change(name, self.places[name], rows, prod(here[1:]), resized=here != there)
            difference = self._difference(found, other)
            if found.changed and min(found.rows, found.columns) > 1:
                found.spectral = spectral_norm(difference)
            if found.place.kind in MATRICES and 1 < min(found.rows, found.columns) <= self.largest:
                self._look_for_intruders(found, difference)
            yield found, sketch(difference, name)

    def _difference(self, found: Change, other: str) -> Tensor:
        """(rows, columns): the change in float32; sums of squares are taken on the way."""
        known = self.tuned.change(other, self.reference)
        kinds = self.reference.dtype(found.name), self.tuned.dtype(other)
        coarse = max(kinds, key=lambda kind: torch.finfo(kind).eps)
        difference = torch.empty(found.rows, found.columns)
        tenths = np.zeros((2, TENTHS)) if found.name == self._words else None
        step = max(1, _AT_ONCE // found.columns)
        for start in range(0, found.rows, step):
            stop = min(start + step, found.rows)
            mine = self.reference.rows(found.name, start, stop).reshape(stop - start, -1)
            if known is not None:
                part = known[start:stop].reshape(stop - start, -1)
                found.differs |= bool(part.any())
            else:
                theirs = self.tuned.rows(other, start, stop).reshape(stop - start, -1)
                found.differs |= not torch.equal(mine.to(coarse), theirs.to(coarse))
                part = theirs.float() - mine.float()
                if coarse == kinds[1] != kinds[0]:
                    found.rounded += _squares(mine.float() - mine.to(coarse).float()).sum()
            difference[start:stop] = part
            changed, squared = _squares(part), _squares(mine.float())
            found.changed += changed.sum()
            found.squared += squared.sum()
            if tenths is not None:
                tenth = np.arange(start, stop) * TENTHS // found.rows
                for row, values in enumerate((changed, squared)):
                    tenths[row] += np.bincount(tenth, values, TENTHS)
        if not np.isfinite(found.changed + found.squared):
            raise AnalysisError(f"{found.name} holds NaN or infinite values", fix="use another checkpoint")
        found.tenths = tenths
        return difference

    def _look_for_intruders(self, found: Change, difference: Tensor) -> None:
        found.looked_at, found.intruders = min(self.leading, found.rows, found.columns), 0
        if found.differs:
            base = self.reference.rows(found.name, 0, found.rows).reshape(found.rows, -1).float()
            found.intruders = intruder_dimensions(base, base + difference, self.leading, self.below)


def _squares(rows: Tensor) -> np.ndarray:
    """(rows,): sums of squares."""
    return (torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64) ** 2).numpy()
