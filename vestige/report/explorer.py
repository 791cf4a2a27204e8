"""The neuron explorer: what the best neurons of every model answer to, as data for the page's script.

Texts of corpora go into the page as JSON and reach the reader as text nodes only.
"""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from vestige.report.neuron_rows import ANALYSIS, STABLE, TOP
from vestige.report.reading import Reading

MOST = 30
"""Neurons of one model and task."""
ALTOGETHER = 600
"""Neurons of the page; a study of many models shows fewer of each."""


def explorer_views(reading: Reading) -> list[dict[str, Any]]:
    """One view per model and task: its name, the models it can be set beside, its neurons best first.

    Of a model with several runs of fine-tuning the first run is shown.
    """
    places = _places(reading)
    each = max(5, min(MOST, ALTOGETHER // max(1, len(places))))
    return [
        {
            "model": place["model"],
            "task": place["title"],
            "family": [place["title"], place["family"]],
            "run": place["run"],
            "neurons": [_neuron(row) for row in _best(reading.explorers[cell], each).itertuples(index=False)],
        }
        for cell, place in places.items()
    ]


def explorer_note(reading: Reading) -> str:
    """How far these rankings are the solver's doing; empty where that was not measured."""
    found = [common for group in reading.neuron_groups for name in group.models if (common := group.stability(name))]
    if not found:
        return ""
    low, high = min(one.low for one in found), max(one.high for one in found)
    levels = f"{100 * low:.0f}" if round(100 * low) == round(100 * high) else f"{100 * low:.0f} to {100 * high:.0f}"
    text = f"Re-fits of the probes have {levels}\u00a0% of the top {100 * TOP:g}\u00a0% in common."
    return f"{text} A neuron of such a ranking may be here by chance." if low < STABLE else text


def _places(reading: Reading) -> dict[str, dict[str, Any]]:
    """Which model, task and run a cell is of; the first run of every model only."""
    results = reading.results
    if not reading.explorers or "cell" not in results:
        return {}
    rows = results[(results["analysis"] == ANALYSIS) & results["cell"].isin(list(reading.explorers))]
    titles = {
        (group.corpus, group.task, group.setting.params): reading.neuron_title(group) for group in reading.neuron_groups
    }
    found: dict[str, dict[str, Any]] = {}
    for row in rows.drop_duplicates("cell").to_dict("records"):
        if not len(reading.explorers[row["cell"]]):
            continue
        reference, run = row.get("reference"), row.get("tune_seed")
        place = {
            "model": str(row["model"]),
            "title": titles[row["corpus"], row["task"], row["params"]],
            "family": str(row["model"] if pd.isna(reference) else reference),
            "run": None if pd.isna(run) else int(run),
        }
        if not any((p["model"], p["title"]) == (place["model"], place["title"]) for p in found.values()):
            found[row["cell"]] = place
    return found


def _best(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    return frame.sort_values("rank", kind="stable").head(most)


def _neuron(row: Any) -> Mapping[str, Any]:
    """One neuron as the page needs it: single occurrences are not shown."""
    told = json.loads(row.data)
    told.pop("occurrences", None)
    return {**told, "rank": int(row.rank)}
