"""The sections of the page that show numbers: curves, heat-map, controls, labels, tables."""

from typing import Any

import pandas as pd

from vestige.report import figures
from vestige.report.charts import Charts
from vestige.report.groups import Group
from vestige.report.measures import FEWEST, baselines, label_changes, layer_means, of_task, twin_of, twins
from vestige.report.reading import Reading
from vestige.report.settings import Setting
from vestige.report.tables import METRIC_NAMES, Table, by_layer, comparison_table, layer_table
from vestige.report.wording import capital, layer, listing, move, percent, points

MANY = 4
"""With more groups than this, controls are folded."""


def task_sections(reading: Reading, charts: Charts) -> list[dict[str, Any]]:
    """Per task: curves and changes of every model and setting, the preferred setting unfolded."""
    sections = []
    for corpus, task in reading.tasks:
        groups = [group for group in reading.groups if (group.corpus, group.task) == (corpus, task)]
        blocks = [_compared(reading, charts, group) for group in groups]
        if not groups:
            settings = reading.settings_of(corpus, task)
            blocks = [_plain(reading, charts, corpus, task, s, s is settings[0]) for s in settings]
        sections.append({"title": reading.titles.task(corpus, task), "name": f"{corpus}/{task}", "blocks": blocks})
    return sections


def heat_section(reading: Reading, charts: Charts) -> dict[str, Any] | None:
    """Change by layer and task (model, setting); only where there is more than one row to it."""
    several = len({group.setting.params for group in reading.groups}) > 1
    frames = [
        group.accuracy.assign(row=reading.titles.group(group) + (f" \u00b7 {group.setting.name}" if several else ""))
        for group in reading.groups
    ]
    if len(frames) < 2:
        return None
    rows = pd.concat(frames, ignore_index=True)
    spec = figures.heat_map(rows, "Change of probe accuracy in points, by layer and task")
    return {"chart": charts.add(spec), "width": 240 + 46 * (int(rows["layer"].max()) + 1)}


def control_sections(reading: Reading, charts: Charts) -> list[dict[str, Any]]:
    """Control task, selectivity and random twin, per task and model."""
    if reading.groups:
        return [_control_of(reading, charts, group) for group in reading.primary]
    found = []
    for corpus, task in reading.tasks:
        setting = reading.settings_of(corpus, task)[0]
        models = [name for name in dict.fromkeys(reading.accuracy["model"]) if name not in twins(reading.lock)]
        title = reading.titles.task(corpus, task)
        drawn = []
        for metric in ("control_accuracy", "selectivity"):
            frame = of_task(layer_means(reading.probes, metric), corpus, task, setting.params)
            frame = frame[frame["model"].isin(models)].rename(columns={"model": "series"}).assign(low=None, high=None)
            if len(frame):
                drawn.append(charts.add(_control_chart(frame, metric, title)))
        table = control_table(reading, corpus, task, setting, models, None)
        found.append({"title": title, "charts": drawn, "table": table})
    return found


def label_sections(reading: Reading, charts: Charts) -> list[dict[str, Any]]:
    """The labels that differ most, per task and model: at the layer that changes most, or differs most if none does."""
    found = []
    for group in reading.primary:
        changed = group.accuracy[group.accuracy["verdict"].isin(["lower", "higher"])]
        sizes = (changed if len(changed) else group.accuracy)["difference"].abs()
        where = int(sizes.idxmax())
        table = label_changes(
            reading.results, (group.corpus, group.task, group.setting.params), (group.reference, group.model), where
        )
        if table.empty:
            continue
        title = reading.titles.group(group)
        spec = figures.label_chart(table, (group.reference, group.model), f"{title}: F1 of labels at layer {where}")
        biggest = table.loc[table["difference"].abs().idxmax()]
        text = (
            f"At {layer(where)}, {'which is' if len(changed) else 'though no layer is'} shown to change. Largest "
            f"difference: {biggest['label']}, {points(biggest['difference'])} points of F1 "
            f"({move(biggest['base'], biggest['tuned'])}, {int(biggest['n'])} occurrences)."
        )
        found.append({"title": title, "chart": charts.add(spec), "text": text, "fewest": FEWEST})
    return found


def comparison_tables(reading: Reading) -> list[tuple[str, list[Table]]]:
    """The full tables of differences by group: its title, and a table per metric."""
    several = len({group.setting.params for group in reading.groups}) > 1
    found = []
    for group in reading.groups:
        tables = [
            comparison_table(group, metric, capital(name))
            for metric, name in METRIC_NAMES.items()
            if len(group.metric(metric))
        ]
        found.append((reading.titles.group(group) + (f" ({group.setting.name})" if several else ""), tables))
    return found


def control_table(
    reading: Reading, corpus: str, task: str, setting: Setting, models: list[str], twin: str | None
) -> Table:
    """Accuracy, control task and selectivity of models by layer, with the random twin."""
    random = [twin] if twin else list(twins(reading.lock))
    columns = {}
    for metric, name in METRIC_NAMES.items():
        frame = of_task(layer_means(reading.probes, metric), corpus, task, setting.params)
        for model in [*models, *(random if metric == "accuracy" else [])]:
            rows = frame[frame["model"] == model]
            if len(rows):
                columns[f"{name}, {model}"] = by_layer(rows)
    lines = baselines(reading.results, corpus, task, setting.params)
    caption = ", ".join(f"{name} {percent(value)} %" for name, value in lines.items())
    return layer_table(columns, capital(caption))


def _compared(reading: Reading, charts: Charts, group: Group) -> dict[str, Any]:
    """Curves of base and tuned with bands, and beside them the change per layer."""
    title = reading.titles.group(group)
    curves = _both_sides(group, "accuracy")
    twin = twin_of(reading.lock, group.reference)
    references = _references(reading, group.corpus, group.task, group.setting, [twin] if twin else [])
    spec, hidden = figures.curve_chart(curves, references, "accuracy (%)", f"{title}: probe accuracy by layer")
    change = figures.change_chart(group.accuracy, reading.judging.margin, f"{title}: change of accuracy by layer")
    return {
        "heading": _heading(reading, group.model, group.setting),
        "folded": group not in reading.primary,
        "charts": [charts.add(spec), charts.add(change)],
        "note": _off_axis(references, hidden),
        "findings": reading.further_findings(group),
    }


def _plain(reading: Reading, charts: Charts, corpus: str, task: str, setting: Setting, first: bool) -> dict[str, Any]:
    """Curves of all models of a study that compares none."""
    frame = of_task(reading.accuracy, corpus, task, setting.params)
    random = [name for name in twins(reading.lock) if name in set(frame["model"])]
    curves = frame[~frame["model"].isin(random)].rename(columns={"model": "series"})
    references = _references(reading, corpus, task, setting, random)
    title = reading.titles.task(corpus, task)
    curves = curves[["layer", "series", "value"]].assign(low=float("nan"), high=float("nan"))
    spec, hidden = figures.curve_chart(curves, references, "accuracy (%)", f"{title}: probe accuracy by layer")
    return {
        "heading": setting.name,
        "folded": not first,
        "charts": [charts.add(spec)],
        "note": _off_axis(references, hidden),
        "findings": [],
    }


def _heading(reading: Reading, model: str, setting: Setting) -> str:
    return f"{model}: {setting.name}" if reading.titles.models > 1 else setting.name


def _both_sides(group: Group, metric: str) -> pd.DataFrame:
    """Base and tuned of one metric as curves with bands."""
    rows = group.metric(metric)
    sides = (("base", group.reference), ("tuned", group.model))
    parts = [
        pd.DataFrame(
            {
                "layer": rows["layer"].astype(int),
                "series": name,
                "value": rows[side],
                "low": rows[f"{side}_low"],
                "high": rows[f"{side}_high"],
            }
        )
        for side, name in sides
    ]
    return pd.concat(parts, ignore_index=True)


def _references(
    reading: Reading, corpus: str, task: str, setting: Setting, random: list[str]
) -> dict[str, pd.DataFrame]:
    """Random twins by layer, and the baselines as level lines."""
    frame = of_task(reading.accuracy, corpus, task, setting.params)
    found = {name: frame.loc[frame["model"] == name, ["layer", "value"]] for name in random}
    found = {name: rows for name, rows in found.items() if len(rows)}
    numbers = sorted(set(frame["layer"]))
    for name, value in baselines(reading.results, corpus, task, setting.params).items():
        found[name] = pd.DataFrame({"layer": numbers, "value": value})
    return found


def _off_axis(references: dict[str, pd.DataFrame], hidden: list[str]) -> str:
    if not hidden:
        return ""
    named = []
    for name in hidden:
        low, high = percent(references[name]["value"].min()), percent(references[name]["value"].max())
        named.append(f"{name} {low} %" if low == high else f"{name} {low} to {high} %")
    return f"Off the axis: {listing(named)}."


def _control_chart(curves: pd.DataFrame, metric: str, title: str) -> dict[str, Any]:
    name = {"control_accuracy": "control-task accuracy (%)", "selectivity": "selectivity (points)"}[metric]
    return figures.curve_chart(curves, {}, name, f"{title}: {name} by layer")[0]


def _control_of(reading: Reading, charts: Charts, group: Group) -> dict[str, Any]:
    title = reading.titles.group(group)
    drawn = [
        charts.add(_control_chart(_both_sides(group, metric), metric, title))
        for metric in ("control_accuracy", "selectivity")
        if len(group.metric(metric))
    ]
    models = [group.reference, group.model]
    twin = twin_of(reading.lock, group.reference)
    table = control_table(reading, group.corpus, group.task, group.setting, models, twin)
    return {"title": title, "charts": drawn, "table": table}
