"""The results of a neuron analysis as plain curves."""

from vestige.report import curves
from vestige.report.drawing.curves import curves_chart
from vestige.report.reading import Part
from vestige.report.types import Block, Figure


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
