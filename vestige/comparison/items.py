"""Two models on the items of lm-evaluation-harness: paired, with intervals, tests and equivalence."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from vestige.comparison.differences import Settings, compare, control_false_discoveries
from vestige.comparison.estimators import Mean
from vestige.comparison.item_files import Item, Logged, Place, read_items
from vestige.errors import AnalysisError

MARGIN = 0.01
"""Of a metric between 0 and 1, unless another is given: differences within one point count as none."""
COLUMNS = (
    "task", "filter", "metric", "base", "base_low", "base_high", "tuned", "tuned_low", "tuned_high", "difference",
    "low", "high", "p", "q", "p_equivalence", "q_equivalence", "margin", "verdict", "items", "dropped_items",
    "other_prompts",
)  # fmt: skip


def compare_items(
    base: str | Path | Sequence[str | Path],
    tuned: str | Path | Sequence[str | Path],
    *,
    metrics: Sequence[str] = (),
    margin: float | Mapping[str, float] = MARGIN,
    resamples: int = 4999,
    confidence: float = 0.95,
    alpha: float = 0.05,
    seed: int = 0,
) -> pd.DataFrame:
    """Differences tuned - base per task, filter and metric, from the files of lm-eval's `--log_samples`.

    A side is a file, several, or the folder of one model. Items are paired by task and number of the document, and
    have to be the same documents with the same gold answers; those that only one side has are left out and counted.
    A row has both means, their difference with a bootstrap interval over documents, the p of a sign-flip test, that of
    equivalence within `margin`, and both corrected over tasks, per metric (Benjamini-Hochberg), and a verdict: lower,
    higher, unchanged, undecided, or described (fewer than 30 documents). Metrics that have no number per item are
    named in `attrs["notes"]` of the frame, as are tasks that only one side has. A metric with values outside of 0 to 1
    is tested for equivalence only where `margin` names one for it.
    """
    first, second = read_items(base), read_items(tuned)
    sides = {"base": first, "tuned": second}
    chosen = _shared(sides, metrics)
    settings = Settings(resamples, confidence, alpha, seed)
    rows = [_row(place, first.items[place], second.items[place], margin, settings) for place in chosen]
    table = control_false_discoveries(pd.concat(rows, ignore_index=True), settings)
    table = table.reindex(columns=[*COLUMNS])
    table.attrs["notes"] = _notes(sides, chosen, table)
    return table


def _shared(sides: Mapping[str, Logged], metrics: Sequence[str]) -> list[Place]:
    """Tasks, filters and metrics that both sides have."""
    first, second = (side.items for side in sides.values())
    shared = [place for place in first if place in second]
    if not shared:
        tasks = {name: ", ".join(sorted({task for task, _, _ in one.items})) for name, one in sides.items()}
        found = " and ".join(f"{name}: {own}" for name, own in tasks.items())
        raise AnalysisError(
            f"no task with a metric per item that both sides have ({found})",
            fix="evaluate both models on the same tasks",
        )
    names = dict.fromkeys(metric for _, _, metric in shared)
    for name in metrics:
        if name not in names:
            raise AnalysisError(f"no metric {name!r} per item on both sides", fix=f"choose from {', '.join(names)}")
    return [place for place in shared if not metrics or place[2] in metrics]


def _row(
    place: Place,
    base: Mapping[int, Item],
    tuned: Mapping[int, Item],
    margin: float | Mapping[str, float],
    settings: Settings,
) -> pd.DataFrame:
    shared = [number for number in base if number in tuned]
    if not shared:
        raise AnalysisError(
            f"{place[0]}: no document that both sides have",
            fix="evaluate both on the same documents (--limit, --samples)",
        )
    for number in shared:
        if base[number].document != tuned[number].document:
            raise AnalysisError(
                f"{place[0]}: document {number} is not the same on both sides ({base[number].where}, "
                f"{tuned[number].where}): its hash or that of its answer differs",
                fix="evaluate both models on the same version of the task and its data",
            )
    frames = [_frame(side, shared) for side in (base, tuned)]
    within = _margin(place[2], pd.concat(frames)["value"], margin)
    found = compare(Mean(), frames[0], [frames[1]], within, settings, places=())
    found = found.assign(p_equivalence=found["p_equivalence"] if np.isfinite(within) else np.nan)
    prompts = sum(bool(base[n].prompt and tuned[n].prompt) and base[n].prompt != tuned[n].prompt for n in shared)
    alone = len(base.keys() ^ tuned.keys())
    named = dict(zip(("task", "filter", "metric"), place, strict=True))
    return found.assign(**named, dropped_items=alone, other_prompts=prompts)


def _frame(items: Mapping[int, Item], shared: Sequence[int]) -> pd.DataFrame:
    return pd.DataFrame({"sentence": shared, "value": [items[number].value for number in shared]})


def _margin(metric: str, values: pd.Series, margin: float | Mapping[str, float]) -> float:
    """NaN where a metric is no share and has no margin of its own: nothing is then called unchanged."""
    if isinstance(margin, Mapping) and metric in margin:
        return float(margin[metric])
    share = bool(values.between(0, 1).all())
    return float(MARGIN if isinstance(margin, Mapping) else margin) if share else float("nan")


def _notes(sides: Mapping[str, Logged], chosen: Sequence[Place], table: pd.DataFrame) -> list[str]:
    notes = [f"{name}: {note}" for name, side in sides.items() for note in side.notes]
    first, second = ({task for task, _, _ in side.items} for side in sides.values())
    notes += [f"{task}: only the base has it" for task in sorted(first - second)]
    notes += [f"{task}: only the tuned model has it" for task in sorted(second - first)]
    skipped = {place: what for side in sides.values() for place, what in side.skipped.items()}
    notes += [f"{task}: {metric} is {what}, and is not compared" for (task, _, metric), what in skipped.items()]
    for row in table.drop_duplicates(["task", "filter"]).itertuples():
        if row.dropped_items:
            notes.append(f"{row.task}: {row.dropped_items} documents that only one side has are left out")
        if row.other_prompts:
            count = f"{row.other_prompts} of {row.items} prompts differ between the sides (examples, template)"
            notes.append(f"{row.task}: {count}: differences are of model and prompt together")
    return list(dict.fromkeys(notes))


def lines(table: pd.DataFrame) -> Iterator[str]:
    """The table for a terminal, and what is to be minded of it."""
    names = ["task", "filter", "metric", "base", "tuned", "difference", "low", "high", "q", "verdict", "items"]
    shown = table[names].round(dict.fromkeys(("base", "tuned", "difference", "low", "high", "q"), 4))
    yield from shown.to_string(index=False).splitlines()
    yield from (f"note: {note}" for note in table.attrs["notes"])
