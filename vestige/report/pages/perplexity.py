"""Perplexity: what is left of the language model, and which blocks fine-tuning wrote over."""

from collections.abc import Iterator

from vestige.report import curves, default, notes, numbers
from vestige.report.reading import Part, Reading
from vestige.report.types import Page

_LAST = "last_replaced"


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with a sentence on how far replacing blocks restores the reference."""
    return default.page(
        reading,
        analysis,
        _restored,
        "What is left of the language model",
        "Perplexity of the language-model head on the tuned encoder, with the last blocks (or one block) replaced by "
        "the reference's: where it falls, fine-tuning had overwritten what the head reads.",
    )


def _restored(part: Part, model: str) -> Iterator[tuple[float, str]]:
    metric = part.declared.metrics["perplexity"]
    axis = next(axis for axis in metric.along if axis.name == _LAST)
    rows = part.rows[part.rows["subset"] == "layers"]
    points = notes.points(curves.curve_frame(rows, metric, axis), model)
    mine = part.rows[part.rows["model"] == model]
    reference = mine.loc[mine["metric"] == "reference_perplexity", "value"].astype(float)
    if 0 not in points.index or reference.empty:
        return
    start = points.loc[0]
    text = (
        f"{numbers.text(metric, float(reference.mean()))} in the reference and {notes.level(metric, start)} in {model}"
    )
    if len(points) > 1:
        best = points["value"].idxmin()
        text += (
            f"; with the last {notes.blocks(best)} replaced by the reference's it falls to "
            f"{notes.level(metric, points.loc[best])}"
            if notes.below(points.loc[best], start)
            else "; it is not shown to fall with any number of last blocks replaced by the reference's"
        )
    yield 0.0, f"Perplexity is {text}."
