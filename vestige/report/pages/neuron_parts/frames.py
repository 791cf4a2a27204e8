"""The frames behind the neuron charts: rows of a task brought into the columns that a chart draws."""

import pandas as pd

from vestige.report.pages.neuron_parts.rows import ALL, NeuronTask, Selection


def growing(task: NeuronTask) -> pd.DataFrame:
    """model, run, neurons, value: dev accuracy of every size that was tried; random twins are left out."""
    rows = task.select("dev_accuracy", subset="growing")
    rows = rows[rows["model"].isin(task.models)]
    return rows.rename(columns={"x": "neurons"})[["model", "run", "neurons", "value"]]


def reached(task: NeuronTask, curve: pd.DataFrame) -> pd.DataFrame:
    """The minimal sets as points of the curve: model, run, neurons, value, set."""
    rows = task.select("minimal_neurons").rename(columns={"value": "neurons"})[["model", "run", "neurons", "x"]]
    rows = rows.merge(curve, on=["model", "run", "neurons"]).sort_values("x", kind="stable")
    return rows.assign(set=[Selection("minimal", x=x).title for x in rows["x"]])


def levels(task: NeuronTask) -> pd.DataFrame:
    """model, set, value: dev accuracy of all neurons, and less each delta."""
    lost = {"all neurons": 0.0, **{f"{100 * (chosen.x or 0):g} less": chosen.x or 0.0 for chosen in task.deltas}}
    rows = [
        {"model": model, "set": f"{model}: {name}", "value": whole.mean - delta}
        for model in task.models
        if (whole := task.measure("dev_accuracy", model, ALL))
        for name, delta in lost.items()
    ]
    return pd.DataFrame(rows, columns=["model", "set", "value"])


def by_layer(task: NeuronTask, models: list[str], chosen: Selection) -> pd.DataFrame:
    """model, layer, share, low, high, neurons of a selection: means over runs and their range."""
    rows = task.select("selected_neurons", None, chosen)
    rows = rows[rows["model"].isin(models)]
    share = rows["value"] / rows.groupby(["model", "run"])["value"].transform("sum")
    means = rows.assign(share=share).groupby(["model", "layer"], sort=False)
    frame = means.agg(share=("share", "mean"), low=("share", "min"), high=("share", "max"), neurons=("value", "mean"))
    frame = frame.reset_index().astype({"layer": int})
    return frame.sort_values("model", key=lambda names: names.map(models.index), kind="stable").dropna()


def label_sizes(task: NeuronTask, chosen: Selection) -> pd.DataFrame:
    """model, label, value: neurons of each label, the mean over runs; random twins are left out."""
    rows = task.select("label_neurons", None, chosen)
    rows = rows[rows["model"].isin(task.models)]
    return rows.groupby(["model", "label"], sort=False, as_index=False)["value"].mean()


def label_homes(task: NeuronTask, chosen: Selection) -> pd.DataFrame:
    """model, label, run, value: the layer with most neurons of each label, run by run, for layers have no mean."""
    rows = task.select("dominant_layer", None, chosen)
    return rows.loc[rows["model"].isin(task.models), ["model", "label", "run", "value"]]


def share_changes(task: NeuronTask, model: str, chosen: Selection) -> pd.DataFrame:
    """layer, value, low, high: how the share of a selection in each layer changed."""
    numbers = sorted({int(layer) for layer in task.changes["layer"].dropna()})
    found = [(layer, task.change(model, chosen, "share_change", layer)) for layer in numbers]
    values = [{"layer": layer, "value": c.value, "low": c.low, "high": c.high} for layer, c in found if c]
    return pd.DataFrame(values, columns=["layer", "value", "low", "high"])


def search_grid(task: NeuronTask, model: str) -> pd.DataFrame:
    """l1, l2, score, accuracy, top, bottom (means over runs), and how many runs chose the pair."""
    columns = {
        name: task.select(f"search_{name}", model).groupby(["x", "x2"])["value"].mean()
        for name in ("score", "accuracy", "top", "bottom")
    }
    frame = pd.DataFrame(columns).rename_axis(["l1", "l2"]).reset_index()
    pairs = chosen_pairs(task, model)
    return frame.assign(chosen=[pairs.count(pair) for pair in zip(frame["l1"], frame["l2"], strict=True)])


def chosen_pairs(task: NeuronTask, model: str) -> list[tuple[float, float]]:
    """The penalties (l1, l2) of every run."""
    sides = [task.select(name, model).set_index("run")["value"] for name in ("l1", "l2")]
    return list(pd.concat(sides, axis=1).itertuples(index=False, name=None))
