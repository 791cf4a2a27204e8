"""The neuron analysis on the page: per task what was found in words, then blocks of charts and tables."""

from dataclasses import replace

from vestige.report import neuron_figures as figures
from vestige.report import neuron_frames as frames
from vestige.report import neuron_tables as tables
from vestige.report.blocks import Block, Folded, Section
from vestige.report.chart_parts import FURTHER, QUIET
from vestige.report.charts import Charts
from vestige.report.neuron_findings import of_pair
from vestige.report.neuron_rows import NeuronGroup, subset_title
from vestige.report.neuron_stability import in_common, stability_table, warning
from vestige.report.reading import Reading
from vestige.report.tables import Table
from vestige.report.wording import capital

MOST_LABELS = 40
"""With more labels than this, half as many of the largest and of the smallest are drawn."""
MOST_LEVELS = 2
"""With more models than this, the levels that minimal sets had to reach are not drawn: they would hide the curves."""


def neuron_sections(reading: Reading, charts: Charts) -> list[Section]:
    """Per task and setting: findings that do not open the page, and the blocks."""
    return [
        Section(
            reading.neuron_title(group),
            f"{group.corpus}/{group.task}",
            reading.further_neuron_findings(group),
            neuron_blocks(group, reading.neuron_title(group), charts),
        )
        for group in reading.neuron_groups
    ]


def neuron_blocks(group: NeuronGroup, title: str, charts: Charts) -> list[Block]:
    """Everything that the rows of the group allow."""
    colours = {name: FURTHER[i % len(FURTHER)] for i, name in enumerate(group.models)}
    colours |= dict.fromkeys(group.twins, QUIET)
    made = (
        _enough(group, title, colours, charts),
        _stability(group),
        _ablated(group),
        _spread(group, title, colours, charts),
        _labels(group, title, colours, charts),
        _retrained(group),
        _moved(group, title, charts),
        _search(group, title, charts),
        _agreement(group, title, charts),
        _clusters(group, title, colours, charts),
    )
    return [block for block in made if block is not None]


def _enough(group: NeuronGroup, title: str, colours: dict[str, str], charts: Charts) -> Block | None:
    """Minimal sets, and the curve on which they were found."""
    if not group.deltas:
        return None
    table = tables.minimal_table(group)
    curve, levels = frames.growing(group), frames.levels(group)
    levels = levels if len(curve) and len(group.models) <= MOST_LEVELS else levels.head(0)
    block = Block(
        "How few neurons are enough",
        "Probes are trained anew on the first neurons of the ranking, more and more of them, until dev accuracy "
        f"is within the named distance of the probe on all neurons{' (dashed)' if len(levels) else ''}. Accuracy in "
        f"percent, selectivity in points, on {group.scored}{_ranges(group)}.",
        tables=[table],
    )
    if len(curve):
        marks = frames.reached(group, curve)
        described = f"{title}: dev accuracy of growing sets of neurons"
        block.charts = [charts.add(figures.growing_chart(curve, marks, levels, colours, described))]
    return block


def _stability(group: NeuronGroup) -> Block | None:
    """How far the rankings are the solver's doing."""
    table = stability_table(group)
    if table is None:
        return None
    return Block(
        "How sure is the ranking?",
        "Probes are trained until they are near their optimum: at most so far above it as the gap says. A re-fit has "
        "the same words and penalties, another order of mini-batches and another beginning; at the optimum it would "
        f"be the same probe. It says nothing of other training sentences{_ranges(group)}.{warning(group)}",
        tables=[table],
    )


def _ablated(group: NeuronGroup) -> Block | None:
    """All, top, random and bottom neurons in the probe that has all."""
    table = tables.subset_table(group, tables.KEPT)
    if table is None:
        return None
    return Block(
        "What the top and the bottom of the ranking do",
        "The probe on all neurons, with the activations of all but the named neurons set to zero and no training "
        f"in between. Accuracy in percent{_ranges(group)}.",
        tables=[table],
    )


def _spread(group: NeuronGroup, title: str, colours: dict[str, str], charts: Charts) -> Block | None:
    """The layers of the minimal sets, base and tuned side by side."""
    families = [list(pair) for pair in group.pairs]
    families += [[name] for name in group.roots if not group.tuned_from(name)]
    drawn: dict[str, list[str]] = {}
    for _, subset in group.deltas:
        for models in families:
            frame = frames.by_layer(group, models, subset)
            if len(frame):
                described = f"{title}: layers of the {subset_title(subset)}, {' and '.join(models)}"
                spec = figures.spread_chart(frame, colours, described)
                drawn.setdefault(subset, []).append(charts.add(spec))
    if not drawn:
        return None
    first, *rest = drawn
    return Block(
        "Where they are",
        f"The neurons of the {subset_title(first)}, by layer; shares, since sets differ in size"
        + ("; whiskers: the range of runs." if _several(group) else ".")
        + in_common(group, group.models, first),
        charts=drawn[first],
        folded=[(capital(subset_title(subset)), drawn[subset], []) for subset in rest],
    )


def _labels(group: NeuronGroup, title: str, colours: dict[str, str], charts: Charts) -> Block | None:
    """Neurons of every label and the layer that holds most of them."""
    measured = [name for _, name in group.deltas if len(group.select("label_neurons", subset=name))]
    if not measured:
        return None
    subset = measured[0]
    sizes, homes = frames.label_sizes(group, subset), frames.label_homes(group, subset)
    if sizes.empty:
        return None
    means = sizes.groupby("label", sort=False)["value"].mean()
    order = list(means.sort_values(ascending=False, kind="stable").index)
    left_out = max(0, len(order) - MOST_LABELS)
    if left_out:
        order = [*order[: MOST_LABELS // 2], *order[-(MOST_LABELS // 2) :]]
    sizes, homes = (frame[frame["label"].isin(order)] for frame in (sizes, homes))
    drawn = [charts.add(figures.label_size_chart(sizes, colours, order, f"{title}: neurons of labels"))]
    if len(homes):
        layers = int(group.select("selected_neurons")["layer"].max()) + 1
        described = f"{title}: the layer with most neurons of each label"
        drawn.append(charts.add(figures.label_layer_chart(homes, colours, order, layers, described)))
    lede = (
        "Labels that many neurons serve are spread out, labels of few are held in one place. A label's neurons are "
        f"those that it brings into a set of the size of the {subset_title(subset)}."
        + (" Layers are drawn run by run." if _several(group) else "")
        + (f" {left_out} labels between the largest and the smallest are not drawn." if left_out else "")
        + in_common(group, group.models, subset)
    )
    table = tables.shared_table(group, subset)
    return Block("Labels", lede, charts=drawn, tables=[table] if table else [])


def _retrained(group: NeuronGroup) -> Block | None:
    """New probes on top and bottom neurons, and what fine-tuning does to all probes."""
    table = tables.subset_table(group, tables.RETRAINED)
    found = [table] if table else []
    for pair in group.pairs:
        rows = of_pair(group.compared, pair)
        if len(rows):
            rows = rows[[not any(group.missed(model, name) for model in pair) for name in rows["subset"]]]
            caption = (
                f"Change by fine-tuning on the same sentences, {pair[1]} minus {pair[0]}, in points; means over fits"
            )
            found.append(tables.compared_table(rows, *pair, caption))
    if not found:
        return None
    refits = (
        " Changes are over the probe and its re-fit, which chooses neurons of its own: intervals and tests hold what "
        "that alone changes."
        if group.pairs and len(group.select("refit_accuracy"))
        else ""
    )
    return Block(
        "Top and bottom neurons, trained anew",
        "New probes on the top or the bottom of the ranking alone: what the bottom neurons still tell is held "
        f"redundantly. Accuracy in percent{_ranges(group)}.{refits}",
        tables=found,
    )


def _moved(group: NeuronGroup, title: str, charts: Charts) -> Block | None:
    """Where the selected neurons went, and how many were exchanged."""
    drawn, found = [], []
    for reference, model in group.pairs:
        for selection in group.selections(model)[:1]:
            frame = frames.share_changes(group, model, selection)
            named = f"{subset_title(selection)}: {model} minus {reference}"
            if len(frame):
                described = f"{title}: change of the share in each layer, {named}"
                drawn.append(charts.add(figures.share_change_chart(frame, described, capital(named))))
        pair = reference, model
        distances = tables.distance_table(group, pair, f"Layers of the selected neurons, {model} against {reference}")
        exchange = tables.exchange_table(group, pair, f"Neurons of the selections, {model} against {reference}")
        found += [table for table in (distances, exchange) if table]
    if not found:
        return None
    return Block(
        "What fine-tuning does to the selection",
        "Selections of base and tuned set side by side, beside what a re-fit of the same model changes: no more than "
        "that is noise of the solver. The mean layer may move by chance alone where the two selections differ in "
        "size. p: how often a distance as large arises when the neurons of only one selection are dealt out anew; it "
        "speaks of two selections. Intervals are Student's, over runs and over the two fits of every model; that of "
        "the neurons that leave beyond re-fits is also over neurons.",
        charts=drawn,
        tables=found,
    )


def _search(group: NeuronGroup, title: str, charts: Charts) -> Block | None:
    """The grid of penalties of every model, with the pair that was chosen."""
    drawn = []
    for model in group.models:
        grid = frames.search_grid(group, model)
        if len(grid):
            named = f"{model}: {_chosen(group, model)}"
            drawn.append(charts.add(figures.search_map(grid, f"{title}: search for penalties, {named}", named)))
    if not drawn:
        return None
    return Block(
        "How the penalties were chosen",
        "Score on dev, in points: half of what separates top from bottom neurons, less half of what the penalties "
        f"cost{'; means over runs' if _several(group) else ''}. Framed: chosen.",
        charts=drawn,
    )


def _chosen(group: NeuronGroup, model: str) -> str:
    pairs = frames.chosen_pairs(group, model)
    return "; ".join(
        f"l1 {l1:g}, l2 {l2:g}" + (f" in {pairs.count((l1, l2))} of {len(pairs)} runs" if len(pairs) > 1 else "")
        for l1, l2 in dict.fromkeys(pairs)
    )


def _agreement(group: NeuronGroup, title: str, charts: Charts) -> Block | None:
    """How far rankers choose the same neurons, and which choose the better ones."""
    names = group.rankers
    if not names:
        return None
    colours = {name: FURTHER[i % len(FURTHER)] for i, name in enumerate(names[1:])}
    block = Block(
        "Do rankings choose the same neurons, and which choose better ones?",
        f"What the first neurons of a ranking have in common with those of the {names[0]} (dotted: by chance); "
        f"accuracy of probes trained on the first neurons alone, in percent on {group.scored}; rank correlations over "
        "all neurons.",
    )
    for model in group.models:
        frame = frames.overlaps(group, model)
        if len(frame):
            described = f"{title}: neurons in common with {names[0]}, {model}"
            block.charts.append(charts.add(figures.agreement_chart(frame, colours, described, model)))
        made = (tables.ranker_table(group, model), tables.agreement_table(group, model))
        block.tables += [_captioned(table, group, model) for table in made if table is not None]
    return block


def _clusters(group: NeuronGroup, title: str, colours: dict[str, str], charts: Charts) -> Block | None:
    """How many clusters of correlated neurons there are, and what one neuron of each can do."""
    whole = frames.clusters(group)
    inner = [(model, tables.cluster_table(group, model)) for model in group.with_twins]
    folded: list[Folded] = [
        (f"Within each layer of {model}", [], [table]) for model, table in inner if table is not None
    ]
    if whole.empty and not folded:
        return None
    described = f"{title}: clusters of correlated neurons"
    made = [(model, tables.representative_table(group, model)) for model in group.with_twins]
    return Block(
        "Neurons that repeat each other",
        "Neurons whose activations correlate at least so strongly, with either sign, are joined into one cluster: "
        "the fewer clusters, the more neurons repeat others. The best-ranked neuron of each cluster represents it; "
        f"accuracy in percent on {group.scored}.",
        charts=[charts.add(figures.cluster_chart(whole, colours, described))] if len(whole) else [],
        tables=[_captioned(table, group, model) for model, table in made if table is not None],
        folded=folded,
    )


def _captioned(table: Table, group: NeuronGroup, model: str) -> Table:
    """With the model's name where there are several."""
    return replace(table, caption=model) if len(group.with_twins) > 1 else table


def _several(group: NeuronGroup) -> bool:
    return max(group.runs.values(), default=1) > 1


def _ranges(group: NeuronGroup) -> str:
    return "; means over runs of fine-tuning, the range of runs in brackets" if _several(group) else ""
