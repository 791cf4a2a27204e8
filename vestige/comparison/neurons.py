"""Which neurons fine-tuning brought into a selection, which it put out, and between which layers (durrani2021).

Works on the table `neurons` that the neuron analysis leaves: every neuron of a model, best first, with its place in
the ranking of a re-fit (`refit`). A selection is a minimal set, or the top of the ranking at some shares of all
neurons; the re-fit's has as many neurons. What a re-fit of the same model exchanges stands beside what fine-tuning
does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings
from vestige.neurons.moves import Fits, moves
from vestige.neurons.ranking import share_to_count
from vestige.neurons.refit import TOPS
from vestige.neurons.spread import entered_left, spread_shift

_COLUMNS = ["selection", "statistic", "layer", "run", "value", "low", "high", "expected", "p"]
_REFITS = ["refit_base", "refit_tuned"]

Row = dict[str, object]


def compare_selections(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None
) -> pd.DataFrame:
    """Per selection and run: distance of the spreads with its permutation test, and how many neurons changed.

    Columns: selection, statistic, layer, run, value, low, high, expected, p, refit_base and refit_tuned (the same
    statistic between the two fits of one model). Rows without a `run` are over all runs and both fits, with Student's
    intervals: mean_layer and, per layer, share_change; the distances, with an interval where there are several runs;
    and left_beyond_refit, how many more neurons leave a selection than leave it in re-fits.
    """
    settings = settings or Settings()
    rows = [row for name in _selections(base, tuned) for row in _changes(name, base, tuned, settings)]
    numbers = [*_COLUMNS[5:], *_REFITS]
    kinds = {"layer": "Int16", "run": "Int32"} | dict.fromkeys(numbers, "Float64")
    return pd.DataFrame(rows, columns=[*_COLUMNS, *_REFITS]).astype(kinds)


def same_shape(base: pd.DataFrame, tuned: pd.DataFrame) -> bool:
    """Whether two models have the same neurons, so that their ids can be compared."""
    return np.array_equal(_offsets(base), _offsets(tuned))


def _selections(base: pd.DataFrame, tuned: Sequence[pd.DataFrame]) -> list[str]:
    """Minimal sets that all models have and that are smaller than all neurons; tops of at least a neuron."""
    minimal = [
        name
        for name in base
        if name.startswith("minimal ") and all(name in table and not table[name].all() for table in (base, *tuned))
    ]
    tops = [f"top {100 * share:g}%" for share in TOPS if share_to_count(share, len(base))]
    return [*minimal, *tops]


def _selected(table: pd.DataFrame, selection: str) -> Fits:
    if selection in table:
        count = int(table[selection].sum())
    else:
        count = share_to_count(float(selection.removeprefix("top ").removesuffix("%")) / 100, len(table))
    again = table["neuron"].to_numpy()[np.argsort(table["refit"].to_numpy())[:count]]
    return Fits(table["neuron"].to_numpy()[:count], again)


def _offsets(table: pd.DataFrame) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(table["layer"]))])


def _changes(selection: str, base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings) -> Iterator[Row]:
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
        yield from ({"selection": selection, "run": run, **row} for row in rows)
    for row in _over_runs(before, after, offsets, by_run, settings):
        yield {"selection": selection, **row}


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
