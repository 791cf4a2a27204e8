"""Whether a selection of neurons moved by more than a re-fit of the same model moves it.

Base and every tuned run have two fits each (see `refit`), so that a selection comes twice. How far the two lie apart
is noise of the solver, and a move counts from there. Intervals are Student's: a bootstrap of three runs covers 78 %
where it should cover 95 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vestige.errors import AnalysisError
from vestige.measures.student import Student
from vestige.neurons.spread import STATISTICS, by_layer_share, entered_left, shift_statistics


@dataclass(frozen=True)
class Fits:
    """The neurons that are selected by a probe, and by its re-fit."""

    first: np.ndarray
    again: np.ndarray

    @property
    def turnover(self) -> int:
        """How many neurons of the first leave the selection in the re-fit."""
        return len(entered_left(self.first, self.again).left)

    def shares(self, offsets: ArrayLike) -> np.ndarray:
        """(2, layers): how the two lie over the layers."""
        return np.stack([by_layer_share(ids, offsets) for ids in (self.first, self.again)])

    def shift(self, offsets: ArrayLike) -> dict[str, float]:
        """How far the re-fit lies from the first, by the statistics of a shift."""
        return {name: float(value) for name, value in shift_statistics(*self.shares(offsets)).items()}


@dataclass(frozen=True)
class Range:
    """A value with its interval; NaN where there is none."""

    value: float
    low: float = float("nan")
    high: float = float("nan")


@dataclass(frozen=True)
class Moves:
    """How far selections moved, over all runs of fine-tuning and both fits of every model."""

    statistic: dict[str, Range]
    """By statistic of a shift. Distances are means over runs and have an interval where there are several runs."""
    share: tuple[Range, ...]
    """By layer: the change of its share of the selection."""
    beyond: Range | None
    """So many more neurons leave the selection than leave it in re-fits; None of selections of different sizes."""


def moves(base: Fits, tuned: Sequence[Fits], offsets: ArrayLike, confidence: float = 0.95) -> Moves:
    """The moves from a base model to its tuned runs."""
    if not tuned:
        raise AnalysisError("a move needs at least one tuned run", fix="give the selections of a tuned model")
    before, after = base.shares(offsets), np.stack([run.shares(offsets) for run in tuned])
    layers = np.arange(before.shape[-1])
    mean_layer = _range(mean_move(before @ layers, after @ layers), confidence)
    shares = mean_move(before, after)
    low, high = shares.interval(confidence)
    found = shift_statistics(before[0], after[:, 0])
    distances = {name: _over_runs(found[name], confidence) for name in STATISTICS if name != "mean_layer"}
    return Moves(
        {**distances, "mean_layer": mean_layer},
        tuple(Range(*map(float, one)) for one in zip(shares.value, low, high, strict=True)),
        _beyond(base, tuned, int(np.asarray(offsets)[-1]), confidence),
    )


def mean_move(base: np.ndarray, tuned: np.ndarray) -> Student:
    """The mean move from `base` (2 fits, ...) to `tuned` (runs, 2 fits, ...), over runs and fits.

    The spread of fits is that of every model's two, taken together; that of runs, where there are several, holds the
    fits of the tuned models already, so that only the base's come beside it.
    """
    runs = len(tuned)
    value = tuned.mean((0, 1)) - base.mean(0)
    squares = (base[0] - base[1]) ** 2 / 2 + ((tuned[:, 0] - tuned[:, 1]) ** 2 / 2).sum(0)
    of_fits = np.sqrt(squares / (1 + runs))
    if runs == 1:
        return Student.of(value, [of_fits], [2])
    of_runs = tuned.mean(1).std(0, ddof=1) / runs**0.5
    return Student.of(value, [of_fits / 2**0.5, of_runs], [1 + runs, runs - 1])


def _beyond(base: Fits, tuned: Sequence[Fits], neurons: int, confidence: float) -> Range | None:
    """How many more neurons are exchanged between models than between fits of one, with an interval over neurons.

    Per neuron: how often one of base and tuned selects it and the other does not, less how often two fits of one
    model disagree. Its mean is the squared difference of the chances that the two models select the neuron.
    """
    sizes = {len(ids) for fits in (base, *tuned) for ids in (fits.first, fits.again)}
    if len(sizes) > 1:
        return None
    before = _members(base, neurons)
    more = np.stack([_disagreement(before, _members(run, neurons)) for run in tuned])
    by_run = more.sum(1) / 2
    error = more.mean(0).std(ddof=1) * neurons**0.5 / 2
    if len(tuned) == 1:
        return _range(Student.of(by_run[0], [error], [neurons - 1]), confidence)
    return _range(Student.over_runs(by_run, error, neurons), confidence)


def _members(fits: Fits, neurons: int) -> np.ndarray:
    """(2, neurons): whether each fit selects each neuron."""
    return np.stack([np.isin(np.arange(neurons), ids) for ids in (fits.first, fits.again)])


def _disagreement(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    between = (before[:, None] != after[None, :]).mean((0, 1))
    return between - ((before[0] != before[1]).astype(float) + (after[0] != after[1])) / 2


def _over_runs(values: np.ndarray, confidence: float) -> Range:
    """The mean of distances over runs, which are never negative."""
    if len(values) == 1:
        return Range(float(values[0]))
    found = Student.of(values.mean(), [values.std(ddof=1) / len(values) ** 0.5], [len(values) - 1])
    low, high = found.interval(confidence)
    return Range(float(found.value), max(0.0, float(low)), float(high))


def _range(found: Student, confidence: float) -> Range:
    low, high = found.interval(confidence)
    return Range(float(found.value), float(low), float(high))
