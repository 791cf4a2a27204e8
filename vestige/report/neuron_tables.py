"""The tables of the neuron analysis: ablated and retrained probes, minimal sets, re-fits, what fine-tuning changed."""

from collections.abc import Sequence

import pandas as pd

from vestige.report.neuron_rows import Change, Measure, NeuronGroup, subset_title
from vestige.report.tables import Table, layer_cell
from vestige.report.wording import DASH, GLUE, bare_chance, count, number, percent, points, signed, span

KEPT, RETRAINED = " kept", " retrained"
DISTANCES = {
    "mean_layer": "mean layer",
    "earth_mover": "earth mover's distance (layers)",
    "total_variation": "total variation (points)",
}
EXCHANGE = {"stayed": "stay", "left": "leave", "entered": "enter"}


def minimal_table(group: NeuronGroup) -> Table:
    """All neurons and every minimal set: size, accuracy, control task, selectivity (durrani2020, Tables 2 and 3)."""
    controlled, refitted = (bool(len(group.select(name))) for name in ("selectivity", "ranking_overlap"))
    metrics = ["accuracy", *["control_accuracy", "selectivity"] * controlled]
    head = ["model", "set", "neurons", "% of all", "accuracy"] + ["control task", "selectivity"] * controlled
    rows = []
    for model in group.with_twins:
        for subset in ["all", *(name for _, name in group.deltas)]:
            missed = group.missed(model, subset)
            size = group.measure("neurons", model) if subset == "all" else _minimal(group, model, subset)
            if size is None and not missed:
                continue
            cells = [model, subset_title(subset), _with_missed(size, missed), _percent(_share(group, model, subset))]
            cells += [_percent(group.measure(metric, model, subset=subset)) for metric in metrics]
            cells += [_percent(group.stability(model, subset))] * refitted
            rows.append(cells)
    return Table("", head + ["re-fit in common (%)"] * refitted, rows, words=2)


def _with_missed(size: Measure | None, missed: int) -> str:
    """The size of a set; where the search ended at all neurons, that no smaller one is enough."""
    if size is None:
        return "none smaller"
    return f"{size.count()} (none smaller in {missed} of {missed + size.runs} runs)" if missed else size.count()


def subsets_of(group: NeuronGroup, ending: str) -> list[str]:
    """The subsets of probes whose other neurons were ablated (`KEPT`), or that were trained anew (`RETRAINED`)."""
    names = dict.fromkeys(group.select("accuracy")["subset"].dropna())
    return [name for name in names if name.endswith(ending)]


def subset_table(group: NeuronGroup, ending: str) -> Table | None:
    """Accuracy of all neurons and of the subsets, on dev too where it was scored (durrani2020, Tables 1 and 6)."""
    subsets = subsets_of(group, ending)
    if not subsets:
        return None
    splits = {group.scored: "accuracy"}
    if len(group.select("dev_accuracy", subset=subsets[0])):
        splits["dev"] = "dev_accuracy"
    rows = [
        [model, split, *(_percent(group.measure(metric, model, subset=name)) for name in ["all", *subsets])]
        for model in group.with_twins
        for split, metric in splits.items()
    ]
    head = ["model", "split", "all", *(subset_title(name.removesuffix(ending)) for name in subsets)]
    return Table("", head, rows, words=2)


def compared_table(rows: pd.DataFrame, reference: str, model: str, caption: str) -> Table:
    """What the comparison says of every subset, with its interval."""
    head = ["neurons", reference, model, "change", "interval", "p", "q", "verdict"]
    cells = [
        [
            subset_title(row["subset"]),
            percent(row["base"]),
            percent(row["tuned"]),
            points(row["difference"], 2),
            span(row["low"], row["high"], 2),
            bare_chance(row["p"]),
            bare_chance(row["q"]),
            str(row["verdict"]),
        ]
        for _, row in rows.iterrows()
    ]
    return Table(caption, head, cells, tuple(rows["verdict"]))


def distance_table(group: NeuronGroup, pair: tuple[str, str], caption: str) -> Table | None:
    """How far every selection moved over the layers, beside chance and re-fits."""
    reference, model = pair
    rows = [
        [subset_title(selection), title, *_distance_cells(statistic, found)]
        for selection in group.selections(model)
        for statistic, title in DISTANCES.items()
        if (found := group.change(model, selection, statistic))
    ]
    refits = [f"re-fit of {name}" for name in (reference, model)]
    head = ["selection", "what", "change", "by chance", *refits, "interval", "p of each run"]
    return Table(caption, head, rows, words=2) if rows else None


def exchange_table(group: NeuronGroup, pair: tuple[str, str], caption: str) -> Table | None:
    """How many neurons of every selection stayed, left and entered, and how many re-fits exchange."""
    reference, model = pair
    rows = []
    for selection in group.selections(model):
        found = [group.change(model, selection, name) for name in EXCHANGE]
        beyond = group.change(model, selection, "left_beyond_refit")
        if any(found):
            counts = [DASH if change is None else _whole(change.value) for change in found]
            left = found[list(EXCHANGE).index("left")]
            refits = [DASH, DASH] if left is None else [_whole(left.refit_base), _whole(left.refit_tuned)]
            more = DASH if beyond is None else signed(beyond.value, 1)
            over = DASH if beyond is None else f"{signed(beyond.low, 1)} to {signed(beyond.high, 1)}"
            rows.append([subset_title(selection), *counts, *refits, more, over])
    head = ["selection", *EXCHANGE.values(), *(f"leave in a re-fit of {name}" for name in (reference, model))]
    return Table(caption, [*head, "leave beyond re-fits", "interval"], rows) if rows else None


def shared_table(group: NeuronGroup, subset: str) -> Table | None:
    """How many neurons serve several labels and how many a single one."""
    sides = ("shared_neurons", "exclusive_neurons")
    rows = [
        [model, *(found.count() for found in both if found)]
        for model in group.models
        if all(both := [group.measure(metric, model, subset=subset) for metric in sides])
    ]
    return Table("", ["model", "neurons of several labels", "of one label"], rows) if rows else None


def cluster_table(group: NeuronGroup, model: str) -> Table | None:
    """How many clusters of neurons remain within each layer, by the correlation that joins them."""
    rows = group.select("clusters", model)
    rows = rows[rows["layer"].notna()]
    if rows.empty:
        return None
    means = rows.groupby(["layer", "x"])["value"].mean().unstack("x")
    cells = [
        [layer_cell(int(layer)), *(DASH if pd.isna(value) else count(round(value)) for value in row)]
        for layer, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    return Table("", ["layer", *(f"\u2265 {x:g}" for x in means.columns)], cells)


def agreement_table(group: NeuronGroup, model: str) -> Table | None:
    """Rank correlations of all rankers with each other."""
    names = group.rankers
    if not len(group.select("agreement_spearman", model)):
        return None

    def cell(one: str, other: str) -> str:
        if one == other:
            return DASH
        first, second = sorted((one, other), key=names.index)
        return _decimal(group.measure("agreement_spearman", model, subset=f"{first} & {second}"))

    rows = [[_spoken(one), *(cell(one, other) for other in names)] for one in names]
    return Table("", ["Spearman", *map(_spoken, names)], rows)


def ranker_table(group: NeuronGroup, model: str) -> Table | None:
    """Accuracy of probes trained on the tops of every ranking."""
    rows = group.select("accuracy", model)
    parts = rows["subset"].str.extract(r"^(.*) (top [\d.]+%)$")
    if parts[1].isna().all():
        return None
    means = rows.assign(ranker=parts[0], top=parts[1]).groupby(["ranker", "top"], sort=False)["value"].mean()
    tops = list(dict.fromkeys(means.index.get_level_values("top")))
    cells = [
        [_spoken(name), *(percent(means[name, top]) for top in tops)]
        for name in dict.fromkeys(means.index.get_level_values("ranker"))
    ]
    return Table("", ["ranker", *(top.replace("%", f"{GLUE}%") for top in tops)], cells)


def representative_table(group: NeuronGroup, model: str) -> Table | None:
    """What probes reach on one neuron of every cluster, and the minimal set among these."""
    whole, oracle = (group.measure(metric, model, subset="all") for metric in ("accuracy", "dev_accuracy"))
    sizes, total = group.select("minimal_neurons", model), group.measure("neurons", model)
    if whole is None or oracle is None or sizes.empty:
        return None
    within = oracle.mean - float(sizes["x"].iloc[0])

    def minimal(name: str) -> str:
        size, reached = (group.measure(m, model, subset=name) for m in ("minimal_neurons", "minimal_dev_accuracy"))
        if size is None or reached is None:
            return DASH
        if total is not None and size.mean >= total.mean:
            return "none smaller"
        return size.count() if reached.mean >= within else "not reached"

    rows = [["all neurons", DASH, whole.percent(), minimal("all neurons")]]
    for x in sorted(group.select("clusters", model)["x"].unique(), reverse=True):
        name = f"representatives at {x:g}"
        found, clusters = (
            group.measure("accuracy", model, subset=name),
            group.measure("clusters", model, x=x, layer=None),
        )
        if found is not None and clusters is not None:
            rows.append([f"correlation {x:g}", clusters.count(), found.percent(), minimal(name)])
    return Table("", ["joined from", "clusters", "accuracy of representatives", "minimal set"], rows)


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _minimal(group: NeuronGroup, model: str, subset: str) -> Measure | None:
    return group.measure("minimal_neurons", model, subset=subset)


def _share(group: NeuronGroup, model: str, subset: str) -> Measure | None:
    return Measure(1.0, 1.0, 1.0, 1) if subset == "all" else group.measure("minimal_share", model, subset=subset)


def _distance_cells(statistic: str, found: Change) -> Sequence[str]:
    """Value, expectation, re-fits, interval and p as strings; layers as they are, shares in points."""
    scale = 100 if statistic == "total_variation" else 1
    write = signed if statistic == "mean_layer" else number
    over = DASH if pd.isna(found.low) else f"{write(scale * found.low, 2)} to {write(scale * found.high, 2)}"
    values = (found.value, found.expected, found.refit_base, found.refit_tuned)
    return *(write(scale * value, 2) for value in values), over, ", ".join(map(bare_chance, found.p)) or DASH


def _whole(value: float) -> str:
    return DASH if pd.isna(value) else count(value) if value == round(value) else number(value, 1)


def _percent(found: Measure | None) -> str:
    return DASH if found is None else found.percent()


def _decimal(found: Measure | None) -> str:
    return DASH if found is None else number(found.mean, 2)
