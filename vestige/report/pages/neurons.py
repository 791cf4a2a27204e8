"""The neuron analysis: per task what was found in words, then blocks of charts and tables; and the explorer."""

from collections.abc import Iterator

from vestige.report.pages.neuron_parts import figures, frames, tables
from vestige.report.pages.neuron_parts.curves import curve_block
from vestige.report.pages.neuron_parts.explorer import explorer_views
from vestige.report.pages.neuron_parts.findings import neuron_findings
from vestige.report.pages.neuron_parts.rows import NeuronTask, Selection
from vestige.report.pages.neuron_parts.stability import explorer_note, in_common, limits, stability_block, stable
from vestige.report.reading import Reading
from vestige.report.types import Block, Figure, Folded, Page, Section
from vestige.report.wording import capital

TITLE = "Neurons"
MOST_LABELS = 40
"""With more labels than this, half as many of the largest and of the smallest are drawn."""
MOST_LEVELS = 2
"""With more models than this, the levels that minimal sets had to reach are not drawn: they would hide the curves."""


def page(reading: Reading, analysis: str) -> Page:
    """Per task and setting: findings, the heaviest first, and blocks."""
    tasks = [NeuronTask.of(reading, part, TITLE) for part in reading.parts(analysis)]
    return Page(
        TITLE,
        "One linear probe reads the neurons of all layers at once; its weights rank them. All numbers are of single "
        "neurons' activations, not of whole layers.",
        [
            Section(
                task.part.title,
                task.part.name,
                sorted([*neuron_findings(task, reading.judging), *stable(task)], key=lambda one: -one.weight),
                [block for block in (*blocks(task), curve_block(task.part)) if block is not None],
            )
            for task in tasks
        ],
        limits=limits(tasks),
        explorer=explorer_views(tasks, reading.kept("explorer")),
        explorer_note=explorer_note(tasks),
    )


def blocks(task: NeuronTask) -> Iterator[Block | None]:
    """Everything that the rows of the task allow."""
    for made in (_enough, stability_block, _ablated, _spread, _labels, _retrained, _moved, _search):
        yield made(task)


def _enough(task: NeuronTask) -> Block | None:
    """Minimal sets, and the curve on which they were found."""
    if not task.deltas:
        return None
    curve, levels = frames.growing(task), frames.levels(task)
    levels = levels if len(curve) and len(task.models) <= MOST_LEVELS else levels.head(0)
    drawn = []
    if len(curve):
        marks, described = frames.reached(task, curve), f"{task.part.title}: growing sets of neurons, scored on dev"
        drawn = [figures.growing_chart(curve, marks, levels, figures.colours_of(task), described)]
    return Block(
        "How few neurons are enough",
        "Probes are trained anew on the first neurons of the ranking, more and more of them, until dev accuracy "
        f"is within the named distance of the probe on all neurons{' (dashed)' if len(levels) else ''}. Accuracy in "
        f"percent, selectivity in points, on {task.scored}{task.ranges}.",
        figures=drawn,
        tables=[tables.minimal_table(task)],
    )


def _ablated(task: NeuronTask) -> Block | None:
    """All, top, random and bottom neurons in the probe that has all."""
    table = tables.probe_table(task, "ablated")
    if table is None:
        return None
    return Block(
        "What the top and the bottom of the ranking do",
        "The probe on all neurons, with the activations of all but the named neurons set to zero and no training "
        f"in between. Accuracy in percent{task.ranges}.",
        tables=[table],
    )


def _spread(task: NeuronTask) -> Block | None:
    """The layers of the minimal sets, base and tuned side by side."""
    families = [list(pair) for pair in task.pairs]
    families += [[name] for name in task.roots if not task.tuned_from(name)]
    drawn: dict[Selection, list[Figure]] = {}
    for chosen in task.deltas:
        for models in families:
            frame = frames.by_layer(task, models, chosen)
            if len(frame):
                described = f"{task.part.title}: layers of the {chosen.title}, {' and '.join(models)}"
                chart = figures.spread_chart(frame, figures.colours_of(task), described)
                drawn.setdefault(chosen, []).append(chart)
    if not drawn:
        return None
    first, *rest = drawn
    return Block(
        "Where they are",
        f"The neurons of the {first.title}, by layer; shares, since sets differ in size"
        + ("; whiskers: the range of runs." if task.several else ".")
        + in_common(task, first),
        figures=drawn[first],
        folded=[Folded(capital(chosen.title), drawn[chosen]) for chosen in rest],
    )


def _labels(task: NeuronTask) -> Block | None:
    """Neurons of every label and the layer that holds most of them."""
    measured = [chosen for chosen in task.deltas if len(frames.label_sizes(task, chosen))]
    if not measured:
        return None
    chosen, colours = measured[0], figures.colours_of(task)
    sizes, homes = frames.label_sizes(task, chosen), frames.label_homes(task, chosen)
    means = sizes.groupby("label", sort=False)["value"].mean()
    order = list(means.sort_values(ascending=False, kind="stable").index)
    left_out = max(0, len(order) - MOST_LABELS)
    if left_out:
        order = [*order[: MOST_LABELS // 2], *order[-(MOST_LABELS // 2) :]]
    sizes, homes = (frame[frame["label"].isin(order)] for frame in (sizes, homes))
    drawn = [figures.label_size_chart(sizes, colours, order, f"{task.part.title}: neurons of labels")]
    if len(homes):
        layers = int(task.select("selected_neurons")["layer"].max()) + 1
        described = f"{task.part.title}: the layer with most neurons of each label"
        drawn.append(figures.label_layer_chart(homes, colours, order, layers, described))
    table = tables.shared_table(task, chosen)
    return Block(
        "Labels",
        "Labels that many neurons serve are spread out, labels of few are held in one place. A label's neurons are "
        f"those that it brings into a set of the size of the {chosen.title}."
        + (" Layers are drawn run by run." if task.several else "")
        + (f" {left_out} labels between the largest and the smallest are not drawn." if left_out else "")
        + in_common(task, chosen),
        figures=drawn,
        tables=[table] if table else [],
    )


def _retrained(task: NeuronTask) -> Block | None:
    """New probes on top and bottom neurons, and what fine-tuning does to all probes."""
    table = tables.probe_table(task, "retrained")
    found = [*([table] if table else []), *tables.compared_tables(task)]
    if not found:
        return None
    refits = (
        " Changes are over the probe and its re-fit, which chooses neurons of its own: intervals and tests hold what "
        "that alone changes."
        if task.pairs and len(task.select("refit_accuracy"))
        else ""
    )
    return Block(
        "Top and bottom neurons, trained anew",
        "New probes on the top or the bottom of the ranking alone: what the bottom neurons still tell is held "
        f"redundantly. Accuracy in percent{task.ranges}.{refits}",
        tables=found,
    )


def _moved(task: NeuronTask) -> Block | None:
    """Where the selected neurons went, and how many were exchanged."""
    drawn, found = [], []
    for pair in task.pairs:
        reference, model = pair
        for chosen in task.changed(model)[:1]:
            frame = frames.share_changes(task, model, chosen)
            named = f"{chosen.title}: {model} minus {reference}"
            if len(frame):
                described = f"{task.part.title}: change of the share in each layer, {named}"
                drawn.append(figures.share_change_chart(frame, described, capital(named)))
        made = (tables.distance_table(task, pair), tables.exchange_table(task, pair))
        found += [table for table in made if table]
    if not found:
        return None
    return Block(
        "What fine-tuning does to the selection",
        "Selections of base and tuned set side by side, beside what a re-fit of the same model changes: no more than "
        "that is noise of the solver. The mean layer may move by chance alone where the two selections differ in "
        "size. p: how often a distance as large arises when the neurons of only one selection are dealt out anew; it "
        "speaks of two selections. Intervals are Student's, over runs and over the two fits of every model; that of "
        "the neurons that leave beyond re-fits is also over neurons.",
        figures=drawn,
        tables=found,
    )


def _search(task: NeuronTask) -> Block | None:
    """The grid of penalties of every model, with the pair that was chosen."""
    drawn = []
    for model in task.models:
        grid = frames.search_grid(task, model)
        if len(grid):
            named = f"{model}: {_chosen(task, model)}"
            drawn.append(figures.search_map(grid, f"{task.part.title}: search for penalties, {named}", named))
    if not drawn:
        return None
    return Block(
        "How the penalties were chosen",
        "Score on dev, in points: half of what separates top from bottom neurons, less half of what the penalties "
        f"cost{'; means over runs' if task.several else ''}. Framed: chosen.",
        figures=drawn,
    )


def _chosen(task: NeuronTask, model: str) -> str:
    pairs = frames.chosen_pairs(task, model)
    return "; ".join(
        f"l1 {l1:g}, l2 {l2:g}" + (f" in {pairs.count((l1, l2))} of {len(pairs)} runs" if len(pairs) > 1 else "")
        for l1, l2 in dict.fromkeys(pairs)
    )
