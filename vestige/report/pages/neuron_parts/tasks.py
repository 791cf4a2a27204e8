"""A task of a neuron analysis as its pages read it, and its results as plain curves."""

from vestige.report import curves
from vestige.report.drawing.curves import curves_chart
from vestige.report.pages.neuron_parts.rows import NeuronTask
from vestige.report.reading import Part, Reading
from vestige.report.types import Block, Figure


def neuron_task(reading: Reading, part: Part, page: str) -> NeuronTask:
    """The rows of a part, with what fine-tuning did to its selections; `page` is the title of its page."""
    changes = reading.changes
    if len(changes):
        own = (changes["corpus"] == part.corpus) & (changes["task"] == part.task) & (changes["params"] == part.params)
        changes = changes[own]
    return NeuronTask.of(
        part.rows,
        part.changes,
        changes,
        title=part.title,
        lead=f"{page}: {part.title}",
        name=part.name,
        key=(part.declared.analysis, part.corpus, part.task, part.params),
        scored=str(part.setting.parameters.get("split") or "test"),
        metrics=part.declared.metrics,
        twins=tuple(reading.twins),
    )


def curve_figures(part: Part) -> list[Figure]:
    """Every result along each of its axes."""
    drawn = []
    for metric in curves.of_metric(part):
        for axis in metric.along:
            frame = curves.named_series(curves.part_frame(part, metric, axis))
            if axis.name and frame["x"].nunique() > 1:
                description = f"{part.title}: {metric.title} by {axis.name}"
                drawn.append(curves_chart(frame, metric, axis, description))
    return drawn


def curve_block(part: Part) -> Block | None:
    """The same, folded, where charts of their own show what matters."""
    drawn = curve_figures(part)
    lede = "As measured: where a search ended at all neurons, a minimal set has all of them."
    return Block("Every result along its axis", lede, figures=drawn, closed=True) if drawn else None
