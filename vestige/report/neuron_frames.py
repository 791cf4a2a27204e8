"""The frames behind the neuron charts: rows of a group brought into the columns that a chart draws."""

import pandas as pd

from vestige.report.neuron_rows import NeuronGroup, subset_title


def growing(group: NeuronGroup) -> pd.DataFrame:
    """model, run, neurons, value: dev accuracy of every size that was tried; random twins are left out."""
    rows = group.select("dev_accuracy", subset="growing set")
    rows = rows[rows["model"].isin(group.models)]
    return rows.rename(columns={"x": "neurons"})[["model", "run", "neurons", "value"]]


def reached(group: NeuronGroup, curve: pd.DataFrame) -> pd.DataFrame:
    """The minimal sets as points of the curve: model, run, neurons, value, set."""
    rows = group.select("minimal_neurons").rename(columns={"value": "neurons"})[["model", "run", "neurons", "subset"]]
    rows = rows.merge(curve, on=["model", "run", "neurons"])
    names = [name for _, name in group.deltas]
    rows = rows.sort_values("subset", key=lambda subsets: subsets.map(names.index), kind="stable")
    return rows.assign(set=[subset_title(name) for name in rows["subset"]])


def levels(group: NeuronGroup) -> pd.DataFrame:
    """model, set, value: dev accuracy of all neurons, and less each delta."""
    rows = [
        {"model": model, "set": f"{model}: {name}", "value": whole.mean - delta}
        for model in group.models
        if (whole := group.measure("dev_accuracy", model, subset="all"))
        for delta, name in [(0.0, "all neurons"), *((delta, f"{100 * delta:g} less") for delta, _ in group.deltas)]
    ]
    return pd.DataFrame(rows, columns=["model", "set", "value"])


def by_layer(group: NeuronGroup, models: list[str], subset: str) -> pd.DataFrame:
    """model, layer, share, low, high, neurons of a selection: means over runs and their range."""
    rows = group.select("selected_neurons", subset=subset)
    rows = rows[rows["model"].isin(models)]
    share = rows["value"] / rows.groupby(["model", "run"])["value"].transform("sum")
    means = rows.assign(share=share).groupby(["model", "layer"], sort=False)
    frame = means.agg(share=("share", "mean"), low=("share", "min"), high=("share", "max"), neurons=("value", "mean"))
    frame = frame.reset_index().astype({"layer": int})
    return frame.sort_values("model", key=lambda names: names.map(models.index), kind="stable").dropna()


def label_sizes(group: NeuronGroup, subset: str) -> pd.DataFrame:
    """model, label, value: neurons of each label, the mean over runs; random twins are left out."""
    rows = group.select("label_neurons", subset=subset)
    rows = rows[rows["model"].isin(group.models)]
    return rows.groupby(["model", "label"], sort=False, as_index=False)["value"].mean()


def label_homes(group: NeuronGroup, subset: str) -> pd.DataFrame:
    """model, label, run, value: the layer with most neurons of each label, run by run, for layers have no mean."""
    rows = group.select("dominant_layer", subset=subset)
    return rows.loc[rows["model"].isin(group.models), ["model", "label", "run", "value"]]


def share_changes(group: NeuronGroup, model: str, selection: str) -> pd.DataFrame:
    """layer, value, low, high: how the share of a selection in each layer changed."""
    rows = group.changes
    rows = rows[(rows["model"] == model) & (rows["selection"] == selection) & (rows["statistic"] == "share_change")]
    numbers = sorted({int(layer) for layer in rows["layer"].dropna()})
    found = [(layer, group.change(model, selection, "share_change", layer)) for layer in numbers]
    values = [{"layer": layer, "value": c.value, "low": c.low, "high": c.high} for layer, c in found if c]
    return pd.DataFrame(values, columns=["layer", "value", "low", "high"])


def search_grid(group: NeuronGroup, model: str) -> pd.DataFrame:
    """l1, l2, score, accuracy, top, bottom (means over runs), and how many runs chose the pair."""
    columns = {}
    for name in ("score", "accuracy", "top", "bottom"):
        rows = group.select(f"search_{name}", model)
        pairs = rows.assign(l2=[float(str(subset).removeprefix("l2=")) for subset in rows["subset"]])
        columns[name] = pairs.groupby(["x", "l2"])["value"].mean()
    frame = pd.DataFrame(columns).rename_axis(["l1", "l2"]).reset_index()
    picked = [_nearest(frame, *pair) for pair in chosen_pairs(group, model)] if len(frame) else []
    return frame.assign(chosen=[picked.count(place) for place in frame.index])


def chosen_pairs(group: NeuronGroup, model: str) -> list[tuple[float, float]]:
    """The penalties (l1, l2) of every run."""
    sides = [group.select(name, model).set_index("run")["value"] for name in ("l1", "l2")]
    return list(pd.concat(sides, axis=1).itertuples(index=False, name=None))


def overlaps(group: NeuronGroup, model: str) -> pd.DataFrame:
    """ranker, share, value: what the first neurons of a ranking have in common with the first ranker's."""
    rows = group.select("agreement_overlap", model).rename(columns={"x": "share"})
    first = group.rankers[:1]
    pairs = rows["subset"].str.split(" & ", expand=True).reindex(columns=[0, 1])
    rows = rows.assign(ranker=pairs[1])[pairs[0].isin(first)]
    return rows.groupby(["ranker", "share"], sort=False, as_index=False)["value"].mean()


def clusters(group: NeuronGroup) -> pd.DataFrame:
    """model, x, value: clusters of all neurons by the correlation that joins them."""
    rows = group.select("clusters", layer=None)
    return rows.groupby(["model", "x"], sort=False, as_index=False)["value"].mean()


def _nearest(frame: pd.DataFrame, l1: float, l2: float) -> int:
    """The row of a pair; the grid's l2 is read from a name, in which it may be rounded."""
    return int(((frame["l1"] - l1).abs() + (frame["l2"] - l2).abs()).idxmin())
