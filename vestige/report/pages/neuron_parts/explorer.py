"""The neuron explorer: what the best neurons of every model answer to, as data for the page's script.

Texts of corpora go into the page as JSON and reach the reader as text nodes only.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vestige.report.pages.neuron_parts.rows import NeuronTask

MOST = 30
"""Neurons of one model and task."""
ALTOGETHER = 600
"""Neurons of the page; a study of many models shows fewer of each."""


def explorer_views(tasks: Sequence[NeuronTask], explored: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """One view per model and task: its name, the models it can be set beside, its neurons best first.

    `explored` are tables by cell. Of a model with several runs of fine-tuning the first run is shown.
    """
    places = [(task.part.title, row) for task in tasks for row in _first_cells(task, explored)]
    each = max(5, min(MOST, ALTOGETHER // max(1, len(places))))
    return [
        {
            "model": row["model"],
            "task": title,
            "family": [title, row["model"] if pd.isna(row["reference"]) else row["reference"]],
            "run": None if pd.isna(row["tune_seed"]) else int(row["tune_seed"]),
            "neurons": _best(explored[row["cell"]], each),
        }
        for title, row in places
    ]


def _first_cells(task: NeuronTask, explored: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """A row of the first cell of every model that has neurons to show."""
    filled = [cell for cell, table in explored.items() if len(table)]
    return task.rows[task.rows["cell"].isin(filled)].drop_duplicates("model").to_dict("records")


def _best(table: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    """The neurons as the page needs them: single occurrences are not shown."""
    rows = table.sort_values("rank", kind="stable").head(most)
    parsed = [{**json.loads(data), "rank": int(rank)} for data, rank in zip(rows["data"], rows["rank"], strict=True)]
    return [{name: value for name, value in one.items() if name != "occurrences"} for one in parsed]
