"""Which neurons enter and leave a selection by fine-tuning, and how it shifts between layers (durrani2021).

Works on the table that an analysis leaves (`Analysis.selection`): every neuron of a model, best first, with its place
in the ranking of a re-fit (`refit`) and the largest `delta` whose minimal set has it. A selection is a minimal set, or
the top of the ranking at some shares of all neurons; the re-fit's has as many neurons. What a re-fit of the same model
exchanges stands beside what fine-tuning does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings
from vestige.neurons.moves import Fits, moves
from vestige.neurons.ranking import share_to_count
from vestige.neurons.refit import TOPS
from vestige.neurons.spread import entered_left, spread_shift

_COLUMNS = ["selection", "axis", "x", "statistic", "layer", "run", "value", "low", "high", "expected", "p"]
_REFITS = ["refit_base", "refit_tuned"]

Row = dict[str, object]


class Selection(NamedTuple):
    """`minimal` within a `delta` of accuracy, or the `top` of the ranking at a `share` of all neurons."""

    selection: str
    axis: str
    x: float

    def size(self, table: pd.DataFrame) -> int:
        """How many neurons of a table it has; they are the first ones."""
        if self.axis == "share":
            return share_to_count(self.x, len(table))
        return int((table["delta"] >= self.x).sum())


def compare_selections(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None
) -> pd.DataFrame:
    """Per selection and run: distance of the spreads with its permutation test, and how many neurons changed.

    Columns: selection, axis, x, statistic, layer, run, value, low, high, expected, p, refit_base and refit_tuned (the
    same statistic between the two fits of one model). Rows without a `run` are over all runs and both fits, with
    Student's intervals: mean_layer and, per layer, share_change; the distances, with an interval where there are
    several runs; and left_beyond_refit, how many more neurons leave a selection than leave it in re-fits.
    """
    settings = settings or Settings()
    rows = [row for chosen in _selections(base, tuned) for row in _changes(chosen, base, tuned, settings)]
    numbers = [*_COLUMNS[7:], *_REFITS]
    kinds = {"layer": "Int16", "run": "Int32"} | dict.fromkeys(numbers, "Float64")
    return pd.DataFrame(rows, columns=[*_COLUMNS, *_REFITS]).astype(kinds)


def same_shape(base: pd.DataFrame, tuned: pd.DataFrame) -> bool:
    """Whether two models have the same neurons, so that their ids can be compared."""
    return np.array_equal(_offsets(base), _offsets(tuned))


def _selections(base: pd.DataFrame, tuned: Sequence[pd.DataFrame]) -> list[Selection]:
    """Minimal sets that are smaller than all neurons in every model; tops of at least a neuron."""
    deltas = sorted({delta for table in (base, *tuned) for delta in table["delta"].dropna()})
    chosen = [Selection("minimal", "delta", delta) for delta in deltas]
    chosen += [Selection("top", "share", share) for share in TOPS]
    return [one for one in chosen if all(0 < one.size(table) < len(table) for table in (base, *tuned))]


def _selected(table: pd.DataFrame, selection: Selection) -> Fits:
    count, neurons = selection.size(table), table["neuron"].to_numpy()
    return Fits(neurons[:count], neurons[np.argsort(table["refit"].to_numpy())[:count]])


def _offsets(table: pd.DataFrame) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(table["layer"]))])


def _changes(
    selection: Selection, base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings
) -> Iterator[Row]:
    offsets, before = _offsets(base), _selected(base, selection)
    after = [_selected(table, selection) for table in tuned]
    of_base = _between_fits(before, offsets)
    by_run = []
    for run, fits in enumerate(after):
        of_tuned = _between_fits(fits, offsets)
        rows = [
            {**row, "refit_base": of_base.get(row["statistic"]), "refit_tuned": of_tuned.get(row["statistic"])}
            for row in _one_run(before, fits, offsets, settings)
        ]
        by_run.append(rows)
        yield from ({**selection._asdict(), "run": run, **row} for row in rows)
    for row in _over_runs(before, after, offsets, by_run, settings):
        yield {**selection._asdict(), **row}


def _between_fits(fits: Fits, offsets: np.ndarray) -> Mapping[Any, float]:
    """What a re-fit of one model changes, by statistic."""
    turnover = fits.turnover
    exchanged = {"left": turnover, "entered": turnover, "stayed": len(fits.first) - turnover}
    return {**fits.shift(offsets), **{name: float(count) for name, count in exchanged.items()}}


def _one_run(before: Fits, after: Fits, offsets: np.ndarray, settings: Settings) -> Iterator[Row]:
    """What one run changes in the selection of the first fit."""
    shift = spread_shift(before.first, after.first, offsets, settings.resamples, settings.seed)
    for name, value in shift.distance.items():
        yield {"statistic": name, "value": value, "expected": shift.expected[name], "p": shift.p[name]}
    for name, ids in entered_left(before.first, after.first)._asdict().items():
        yield {"statistic": name, "value": float(len(ids))}
    for layer, change in enumerate(shift.tuned - shift.base):
        yield {"statistic": "share_change", "layer": layer, "value": change}


def _over_runs(
    before: Fits, after: Sequence[Fits], offsets: np.ndarray, by_run: Sequence[Sequence[Row]], settings: Settings
) -> Iterator[Row]:
    """The rows over all runs and both fits."""
    found = moves(before, after, offsets, settings.confidence)
    means = pd.DataFrame([row for rows in by_run for row in rows]).groupby("statistic")
    means = means[["value", *_REFITS]].mean()
    for name, one in found.statistic.items():
        yield {"statistic": name, **vars(one), **means.loc[name, _REFITS]}
    for name in ("entered", "left", "stayed"):
        yield {"statistic": name, **means.loc[name]}
    for layer, one in enumerate(found.share):
        yield {"statistic": "share_change", "layer": layer, **vars(one)}
    if found.beyond is not None:
        yield {"statistic": "left_beyond_refit", **vars(found.beyond)}
