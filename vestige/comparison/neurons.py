"""Which neurons fine-tuning brought into a selection, which it put out, and between which layers (durrani2021).

Works on the table `neurons` that the neuron analysis leaves: every neuron of a model, best first.
A selection is a minimal set, or the top of the ranking at some shares of all neurons.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings
from vestige.neurons.ranking import share_to_count
from vestige.neurons.spread import entered_left, shift_over_runs, spread_shift

SHARES = (0.05, 0.1)
"""Tops of the ranking that are compared beside the minimal sets."""


def compare_selections(
    base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings | None = None
) -> pd.DataFrame:
    """Per selection and run: distance of the spreads with its permutation test, and how many neurons changed.

    With several runs also their means, with intervals over runs (`run` is then missing), and the
    change of the share of every layer. Columns: selection, statistic, layer, run, value, low,
    high, expected, p.
    """
    settings = settings or Settings()
    rows = [row for name in _selections(base, tuned) for row in _changes(name, base, tuned, settings)]
    columns = ["selection", "statistic", "layer", "run", "value", "low", "high", "expected", "p"]
    kinds = {"layer": "Int16", "run": "Int32"} | dict.fromkeys(("low", "high", "expected", "p"), "Float64")
    return pd.DataFrame(rows, columns=columns).astype(kinds)


def same_shape(base: pd.DataFrame, tuned: pd.DataFrame) -> bool:
    """Whether two models have the same neurons, so that their ids can be compared."""
    return np.array_equal(_offsets(base), _offsets(tuned))


def _selections(base: pd.DataFrame, tuned: Sequence[pd.DataFrame]) -> list[str]:
    minimal = [name for name in base if name.startswith("minimal ") and all(name in frame for frame in tuned)]
    return [*minimal, *(f"top {100 * share:g}%" for share in SHARES)]


def _selected(table: pd.DataFrame, selection: str) -> np.ndarray:
    if selection in table:
        return table.loc[table[selection].astype(bool), "neuron"].to_numpy()
    share = float(selection.removeprefix("top ").removesuffix("%")) / 100
    return table["neuron"].to_numpy()[: share_to_count(share, len(table))]


def _offsets(table: pd.DataFrame) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(table["layer"]))])


def _changes(
    selection: str, base: pd.DataFrame, tuned: Sequence[pd.DataFrame], settings: Settings
) -> Iterator[dict[str, object]]:
    offsets, before = _offsets(base), _selected(base, selection)
    after = [_selected(table, selection) for table in tuned]
    counts = []
    for run, ids in enumerate(after):
        shift = spread_shift(before, ids, offsets, settings.resamples, settings.seed)
        for name, value in shift.distance.items():
            chance = {"expected": shift.expected[name], "p": shift.p[name]}
            yield {"selection": selection, "statistic": name, "run": run, "value": value, **chance}
        counts.append({name: len(which) for name, which in entered_left(before, ids)._asdict().items()})
        for name, count in counts[-1].items():
            yield {"selection": selection, "statistic": name, "run": run, "value": float(count)}
        for layer, change in enumerate(shift.tuned - shift.base):
            yield {"selection": selection, "statistic": "share_change", "layer": layer, "run": run, "value": change}
    if len(after) == 1:
        return
    runs = shift_over_runs(before, after, offsets, settings.confidence, settings.resamples, settings.seed)
    for name, found in runs.distance.items():
        yield {"selection": selection, "statistic": name, "value": found.mean, "low": found.low, "high": found.high}
    for name in counts[0]:
        yield {"selection": selection, "statistic": name, "value": float(np.mean([count[name] for count in counts]))}
    for layer, (mean, low, high) in enumerate(zip(runs.share.mean, runs.share.low, runs.share.high, strict=True)):
        where = {"selection": selection, "statistic": "share_change", "layer": layer}
        yield {**where, "value": mean, "low": low, "high": high}
