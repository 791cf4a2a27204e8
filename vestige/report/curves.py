"""Values of a metric as they are drawn and tabulated: along an axis, by label, on a grid of two axes."""

from collections.abc import Iterator, Sequence

import pandas as pd

from vestige.analyses.metric import LAYER, Axis, Metric
from vestige.report.reading import Part

VARIANTS = ("split", "pooling", "input", "side", "subset", "subset2")
"""Columns that tell curves of one metric and model apart, where they differ."""


def varying(rows: pd.DataFrame) -> list[str]:
    """The columns that tell variants of a metric apart: those in which the rows differ."""
    return [name for name in VARIANTS if name in rows and rows[name].nunique(dropna=False) > 1]


def variants(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """The variant of every row in words: 'top, ablated'; empty where it is not one of several."""
    texts = [", ".join(str(one) for one in line if pd.notna(one)) for line in rows[[*columns]].itertuples(index=False)]
    return pd.Series(texts if columns else "", index=rows.index, dtype=object)


def of_metric(part: Part, role: str = "result") -> list[Metric]:
    """The metrics of a role that the part has rows of, in the order of the declaration."""
    measured = set(part.rows["metric"])
    return [one for one in part.declared.metrics.values() if one.role == role and one.name in measured]


def leading(part: Part) -> Metric:
    """The result that an analysis reports first: of a tuned task, the measure it is judged by."""
    known = part.declared.metrics
    return next(known[name] for name in part.rows["metric"].drop_duplicates() if known[name].role == "result")


def on_axis(rows: pd.DataFrame, metric: Metric, axis: Axis, labelled: bool = False) -> pd.DataFrame:
    """The rows of a metric that lie along an axis and nothing else, with their place in `x`; or those of labels."""
    mine = rows[rows["metric"] == metric.name]
    plain = mine[["head", "layer2", "axis2"]].isna().all(axis=1) & (mine["label"].notna() == labelled)
    if axis.name == LAYER.name:
        mine = mine[plain & mine["layer"].notna() & mine["axis"].isna()]
        return mine.assign(x=mine["layer"].astype(float))
    plain &= mine["layer"].isna()
    if axis.name:
        return mine[plain & (mine["axis"] == axis.name).fillna(False)].astype({"x": float})
    return mine[plain & mine["axis"].isna()].assign(x=0.0)


def curve_frame(rows: pd.DataFrame, metric: Metric, axis: Axis) -> pd.DataFrame:
    """One row a point: model, variant, x, value, low, high, intervals, runs.

    Values are means over runs of fine-tuning and probe seeds. An interval reaches from the lowest end to the highest
    of the intervals that the analysis gives of the runs; where it lacks one, it is the range of the runs, and
    `intervals` (how many runs had one) is less than `runs`.
    """
    mine = on_axis(rows, metric, axis)
    named = mine.assign(variant=variants(mine, varying(mine)), run=mine["tune_seed"].fillna(0))
    place, sides = ["model", "variant", "x"], ["value", "low", "high"]
    named = named[[*place, "run", *sides]].astype(dict.fromkeys(sides, float))
    by_run = named.groupby([*place, "run"], sort=False)[sides].mean().reset_index()
    found = by_run.groupby(place, sort=False).agg(
        value=("value", "mean"), low=("low", "min"), high=("high", "max"), least=("value", "min"),
        most=("value", "max"), intervals=("low", "count"), runs=("value", "size"),
    ).reset_index()  # fmt: skip
    only_range = (found["intervals"] < found["runs"]) & (found["runs"] > 1)
    found["low"] = found["low"].mask(only_range, found["least"])
    found["high"] = found["high"].mask(only_range, found["most"])
    found = found.drop(columns=["least", "most"]).sort_values("x", kind="stable")
    order = {name: index for index, name in enumerate(rows["model"].drop_duplicates())}
    return found.sort_values("model", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def part_frame(part: Part, metric: Metric, axis: Axis) -> pd.DataFrame:
    """The same of a part; where the analysis gives no interval, the level (or contrast) and its interval in the
    comparison."""
    frame = curve_frame(part.rows, metric, axis)
    changes = part.changes
    if changes.empty or not (changes["metric"] == metric.name).any():
        return frame
    columns = varying(on_axis(part.rows, metric, axis))
    changes = on_axis(changes, metric, axis)
    changes = changes.assign(variant=variants(changes, columns))
    key = ["model", "variant", "x"]
    shown = [(name, side, f"{side}_low", f"{side}_high") for name, side in (("model", "tuned"), ("reference", "base"))]
    if all(metric.sides):  # a contrast is itself the difference
        shown = [("model", "difference", "low", "high")]
    known = pd.concat(
        [
            changes[["variant", "x"]].assign(
                model=changes[name], level=changes[level], least=changes[low], most=changes[high]
            )
            for name, level, low, high in shown
        ]
    )
    frame = frame.merge(known.drop_duplicates(key), "left", key)
    lacking = (frame["intervals"] < frame["runs"]) & frame["least"].notna()
    for own, compared in {"value": "level", "low": "least", "high": "most", "intervals": "runs"}.items():
        frame[own] = frame[own].mask(lacking, frame[compared].astype(frame[own].dtype))
    return frame.drop(columns=["level", "least", "most"])


def named_series(frame: pd.DataFrame) -> pd.DataFrame:
    """With a column `series`: the model, the variant, or both, whatever tells curves apart."""
    several_models, several = frame["model"].nunique() > 1, frame["variant"].nunique() > 1
    if several and not several_models:
        series = frame["variant"].where(frame["variant"] != "", frame["model"])
    elif several:
        series = (frame["model"] + ", " + frame["variant"]).str.removesuffix(", ")
    else:
        series = frame["model"]
    return frame.assign(series=series)


def baselines(part: Part, metric: Metric, model: str | None = None) -> dict[str, float]:
    """Level lines beside a metric: baselines in its unit that are of this metric alone (`subset`), or else of any."""
    alike = [one.name for one in of_metric(part, "baseline") if one.unit == metric.unit]
    rows = part.rows[part.rows["metric"].isin(alike)]
    rows = rows[rows["layer"].isna() & rows["axis"].isna() & rows["label"].isna()]
    rows = rows if model is None else rows[rows["model"] == model]
    own = rows[rows["subset"] == metric.name]
    rows = own if len(own) else rows[rows["subset"].isna()]
    found: dict[str, float] = {}
    for name, mine in rows.groupby("metric", sort=False):
        title = part.declared.metrics[str(name)].title
        means = mine.groupby("model", sort=False)["value"].mean().astype(float)
        if means.round(6).nunique() == 1:
            found[title] = float(means.iloc[0])
        else:
            found |= {f"{title}, {model}": float(value) for model, value in means.items()}
    return found


def grids(rows: pd.DataFrame, metric: Metric) -> Iterator[tuple[str, tuple[str, str], pd.DataFrame]]:
    """Every grid of a metric: pairs of layers, heads, an axis of its own by layer, two axes of its own.

    Whose it is, the titles of x and y, and the values (columns x, y, value).
    """
    mine = rows[(rows["metric"] == metric.name) & rows["label"].isna()]
    titles = {axis.name: axis.title for axis in metric.along}
    kinds = [
        (mine["layer2"].notna(), "layer2", "layer", "layer of the reference", "layer"),
        (mine["head"].notna() & mine["layer2"].isna(), "head", "layer", "head", "layer"),
    ]
    for name in mine["axis"].dropna().unique():
        on = mine["axis"] == name
        kinds.append((on & mine["layer"].notna() & mine["axis2"].isna(), "x", "layer", titles[name], "layer"))
        for second in mine.loc[on, "axis2"].dropna().unique():
            kinds.append((on & (mine["axis2"] == second), "x", "x2", titles[name], str(second)))
    for chosen, x, y, x_title, y_title in kinds:
        part = mine[chosen]
        part = part.assign(variant=variants(part, varying(part)))
        for (model, variant), own in part.groupby(["model", "variant"], sort=False):
            means = own.astype({"value": float}).groupby([x, y], as_index=False)["value"].mean()
            means.columns = pd.Index(["x", "y", "value"])
            yield ", ".join(filter(None, [str(model), str(variant)])), (x_title, y_title), means
