"""Tables for a page: headings and rows of finished strings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from vestige.report.groups import Group
from vestige.report.wording import bare_chance, percent, points, span

METRIC_NAMES = {"accuracy": "accuracy", "control_accuracy": "control task", "selectivity": "selectivity"}


@dataclass(frozen=True)
class Table:
    """A table of strings; `marks` names the verdict of a row where it has one."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str] = field(default_factory=tuple)
    words: int = 1
    """So many columns from the left are words, not numbers."""


def layer_cell(number: int) -> str:
    """Layer 0 has a name."""
    return "embeddings" if number == 0 else str(number)


def comparison_table(group: Group, metric: str, caption: str) -> Table:
    """Everything the comparison says of one metric, by layer."""
    rows = group.metric(metric)
    head = ["layer", group.reference, group.model, "change", "interval", "p", "q", "verdict"]
    head += ["sd items", "sd probe seed", "sd tuning run"]
    cells = [
        [
            layer_cell(int(row["layer"])),
            percent(row["base"]),
            percent(row["tuned"]),
            points(row["difference"], 2),
            span(row["low"], row["high"], 2),
            bare_chance(row["p"]),
            bare_chance(row["q"]),
            str(row["verdict"]),
            *(percent(row[name], 2) for name in ("sd_items", "sd_probe_seed", "sd_tuning_run")),
        ]
        for _, row in rows.iterrows()
    ]
    return Table(caption, head, cells, tuple(rows["verdict"]))


def layer_table(columns: Mapping[str, Mapping[int, float]], caption: str) -> Table:
    """Layers as rows, one column a measure (shares); missing values as dashes."""
    numbers = sorted({layer for values in columns.values() for layer in values})
    rows = [
        [layer_cell(number), *(percent(values.get(number, float("nan"))) for values in columns.values())]
        for number in numbers
    ]
    return Table(caption, ["layer", *columns], rows)


def by_layer(frame: pd.DataFrame) -> dict[int, float]:
    """A frame of layer and value as a mapping."""
    return {int(layer): float(value) for layer, value in zip(frame["layer"], frame["value"], strict=True)}


def facts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A mapping as pairs of strings, nested values written out."""
    return [(str(name), _plain(value)) for name, value in values.items() if value not in (None, "", [], {})]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, (list, tuple)):
        same = len(value) > 2 and len(set(map(str, value))) == 1
        return f"{value[0]} \u00d7 {len(value)}" if same else ", ".join(_plain(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
