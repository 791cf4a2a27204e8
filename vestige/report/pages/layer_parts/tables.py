"""The tables of layer probes: differences in full, levels beside each other, labels."""

import pandas as pd

from vestige.analyses.metric import LAYER, Metric
from vestige.report import numbers
from vestige.report.changes import cells
from vestige.report.curves import curve_frame
from vestige.report.pages.layer_parts.group import Group, Measure
from vestige.report.types import Table
from vestige.report.wording import DASH, capital, number

FEWEST = 20
"""Labels that occur less often than this are not shown: their F1 jumps."""
_MOST = 12
"""So many labels are shown."""


def difference_table(group: Group, measure: Measure) -> Table:
    """Everything the comparison says of one metric, by layer."""
    metric, rows = measure.metric, measure.changes
    head = ["layer", group.reference, group.model, "change", "interval", "p", "q", "verdict"]
    head += ["sd items", "sd probe seed", "sd tuning run"]
    lines = [
        [
            numbers.place_cell(LAYER, row["layer"]),
            *cells(metric, row, 1, tests=("p", "q")),
            *(
                number(numbers.scale(metric) * row[name], metric.decimals + 1)
                for name in ("sd_items", "sd_probe_seed", "sd_tuning_run")
            ),
        ]
        for _, row in rows.iterrows()
    ]
    return Table(capital(metric.title), head, lines, tuple(rows["verdict"]))


def level_table(group: Group) -> Table:
    """Accuracy, control task and selectivity of all models by layer, and random twins; baselines in the caption."""
    columns: dict[str, dict[float, str]] = {}
    for measure in group.measures:
        frame = curve_frame(group.part.rows, measure.metric, LAYER)
        for model in [*group.models, *group.twins]:
            mine = frame[frame["model"] == model]
            levels = {x: numbers.text(measure.metric, value) for x, value in zip(mine["x"], mine["value"], strict=True)}
            columns |= {f"{measure.metric.title}, {model}": levels} if levels else {}
    places = sorted({x for levels in columns.values() for x in levels})
    lines = [[numbers.place_cell(LAYER, x), *(levels.get(x, DASH) for levels in columns.values())] for x in places]
    baselines = {name: value for measure in group.measures for name, value in measure.levels.items()}
    caption = ", ".join(f"{name} {numbers.text(group.accuracy.metric, value)} %" for name, value in baselines.items())
    return Table(capital(caption), ["layer", *columns], lines)


def label_changes(group: Group, metric: Metric, layer: int) -> pd.DataFrame:
    """The labels of which a metric changed most at one layer: label, n, base, tuned, difference.

    Means over probe seeds and tuning runs; labels with fewer than `FEWEST` occurrences are left out.
    """
    rows = group.part.rows
    rows = rows[(rows["metric"] == metric.name) & rows["label"].notna() & (rows["layer"] == layer)]
    rows = rows.astype({"value": float, "n": float})
    means = rows.groupby(["label", "model"], sort=False)["value"].mean().unstack().reindex(columns=list(group.models))
    base, tuned = (means[model] for model in group.models)
    often = rows[rows["model"] == group.reference].groupby("label")["n"].max()
    table = pd.DataFrame({"n": often, "base": base, "tuned": tuned, "difference": tuned - base}).dropna()
    table = table[table["n"] >= FEWEST].rename_axis("label").reset_index()
    table = table.sort_values("difference", key=abs, ascending=False, kind="stable").head(_MOST)
    return table.sort_values("difference", kind="stable").reset_index(drop=True)
