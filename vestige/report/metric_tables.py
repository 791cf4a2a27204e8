"""One metric of a run as a data frame or a chart: what `StudyRun.table` and `StudyRun.plot` give."""

from collections.abc import Iterable, Iterator, Sequence

import altair as alt
import pandas as pd

from vestige.analyses.metric import Axis, Metric
from vestige.errors import VestigeError
from vestige.report import changes, curves
from vestige.report.drawing.curves import change_chart, curves_chart, fitting, map_chart
from vestige.report.reading import Part, Reading
from vestige.report.types import Figure

_DIFFERENCES = (
    "reference", "base", "base_low", "base_high", "tuned", "tuned_low", "tuned_high", "difference", "low", "high",
    "margin", "q", "verdict", "sentences", "runs",
)  # fmt: skip
_APART = ("split", "pooling", "label", "input", "side", "subset", "subset2", "head")


def values_table(reading: Reading, analysis: str, metric: str, task: str, model: str) -> pd.DataFrame:
    """Values with their intervals: a row for every model and place; means over probe seeds and tuning runs."""
    frames = []
    for part, one in _chosen(reading, analysis, metric, task):
        for axis in one.along:
            frame = curves.part_frame(part, one, axis)
            if axis.name and len(frame):
                frame = frame.assign(**{axis.name: _whole(frame["x"])})
            frames.append(_named(part, one, frame.drop(columns="x")))
    return _of_model(_together(frames, metric or analysis), model)


def differences_table(reading: Reading, analysis: str, metric: str, task: str, model: str) -> pd.DataFrame:
    """Differences between tuned models and their references, with intervals, q and verdict."""
    frames = []
    for part, one in _chosen(reading, analysis, metric, task):
        rows = changes.of(part, one)
        if len(rows):
            where = [axis.name for axis in one.along if axis.name and axis.name != "layer"]
            rows = rows.assign(**{name: rows["x"].where(rows["axis"] == name) for name in where})
            where += [name for name in ("layer", *_APART) if rows[name].notna().any()]
            frames.append(_named(part, one, rows[["model", *where, *_DIFFERENCES]]))
    if not frames:
        raise VestigeError(
            f"no model is compared by {metric or analysis!r}{f' on {task}' if task else ''}",
            fix="leave `changes` out to see the values of every model",
        )
    return _of_model(_together(frames, metric or analysis), model)


def plots(
    reading: Reading, analysis: str, metric: str, task: str, model: str, compared: bool, width: int
) -> "alt.LayerChart | alt.ConcatChart":
    """Curves with bands (`compared`: changes with intervals) as on the page; a chart a task, or a model and task."""
    found = list(_figures(reading, analysis, metric, task, model, compared))
    if not found:
        raise VestigeError(
            f"nothing of {metric or analysis!r} lies along an axis, so there is nothing to draw",
            fix="`table` has its numbers",
        )
    charts = [figure.chart.properties(width=width) for figure in found]
    return charts[0] if len(charts) == 1 else alt.concat(*charts, columns=2)


def _figures(reading: Reading, analysis: str, metric: str, task: str, model: str, compared: bool) -> Iterator[Figure]:
    for part, one in _chosen(reading, analysis, metric, task):
        axes = [axis for axis in one.along if axis.name]
        if compared:
            rows = _of_model(changes.of(part, one), model)
            yield from (figure for axis in axes for figure in _change_figures(part, one, axis, rows))
            continue
        drawn = [figure for axis in axes if (figure := _curves(reading, part, one, axis, model))]
        yield from drawn or _maps(part, one, model)


def _curves(reading: Reading, part: Part, metric: Metric, axis: Axis, model: str) -> Figure | None:
    frame = curves.named_series(_of_model(curves.part_frame(part, metric, axis), model))
    if frame["x"].nunique() < 2:
        return None
    shown, _ = fitting(frame, curves.baselines(part, metric))
    quiet = {name for name, own in zip(frame["series"], frame["model"], strict=True) if own in reading.twins}
    figure = curves_chart(frame, metric, axis, f"{part.title}: {metric.title}", shown, quiet)
    return _titled(figure, part.title)


def _change_figures(part: Part, metric: Metric, axis: Axis, rows: pd.DataFrame) -> Iterator[Figure]:
    mine = curves.on_axis(rows, metric, axis).dropna(subset="difference") if len(rows) else rows
    if mine.empty:
        return
    mine = mine.assign(variant=curves.variants(mine, curves.varying(mine)))
    for (model, variant), own in mine.groupby(["model", "variant"], sort=False):
        whose = ", ".join(filter(None, (part.title, f"{model} minus {own['reference'].iloc[0]}", str(variant))))
        if own["x"].nunique() > 1:
            yield change_chart(own.sort_values("x"), metric, axis, f"change of {metric.title}: {whose}", whose)


def _maps(part: Part, metric: Metric, model: str) -> Iterator[Figure]:
    rows = _of_model(part.rows, model)
    for named, titles, frame in curves.grids(rows, metric):
        yield map_chart(frame, metric, titles, f"{metric.title} of {named}", f"{part.title}: {named}")


def _titled(figure: Figure, title: str) -> Figure:
    return Figure(figure.chart.properties(title=alt.TitleParams(title, anchor="start")), figure.description)


def _chosen(reading: Reading, analysis: str, metric: str, task: str) -> list[tuple[Part, Metric]]:
    """Every part that was asked for, and which of its metrics; what there is none of is named with a choice."""
    _known("analysis", analysis, reading.analyses)
    parts = reading.parts(analysis)
    tasks = list(dict.fromkeys(name for part in parts for name in (part.name, part.task)))
    if task:
        _known("task", task, [name for name in tasks if name])
        parts = [part for part in parts if task in (part.name, part.task)]
    if metric:
        shown = [name for part in parts for name in part.declared.metrics if (part.rows["metric"] == name).any()]
        _known("metric", metric, list(dict.fromkeys(shown)))
    found = [(part, part.declared.metrics[metric] if metric else curves.leading(part)) for part in parts]
    return [(part, one) for part, one in found if (part.rows["metric"] == one.name).any()]


def _known(what: str, name: str, choices: Sequence[str]) -> None:
    if name not in choices:
        raise VestigeError(f"this run has no {what} {name!r}", fix=f"choose from {', '.join(choices) or '(none)'}")


def _of_model(frame: pd.DataFrame, model: str) -> pd.DataFrame:
    if not model or frame.empty:
        return frame
    _known("model", model, [str(name) for name in frame["model"].drop_duplicates()])
    return frame[frame["model"] == model].reset_index(drop=True)


def _named(part: Part, metric: Metric, frame: pd.DataFrame) -> pd.DataFrame:
    named = {"corpus": part.corpus, "task": part.task, "setting": part.setting.name, "metric": metric.name}
    front = pd.DataFrame(named, index=frame.index)
    return pd.concat([front, frame], axis=1)


def _together(frames: Iterable[pd.DataFrame], what: str) -> pd.DataFrame:
    """One table, the places before the numbers; columns that say nothing are left out."""
    found = [frame for frame in frames if len(frame)]
    if not found:
        raise VestigeError(
            f"{what!r} has no values that lie along one axis", fix="`results` has every number of the run, one a row"
        )
    table = pd.concat(found, ignore_index=True)
    empty = [name for name in ("corpus", "task", "variant") if name in table and (table[name] == "").all()]
    numbers = [name for name in table if name in ("value", "low", "high", "intervals", "runs", *_DIFFERENCES)]
    places = [name for name in table if name not in numbers]
    return table[[*places, *numbers]].drop(columns=[*empty, *(["intervals"] if "intervals" in table else [])])


def _whole(x: pd.Series) -> pd.Series:
    return x.astype(int) if (x == x.round()).all() else x
