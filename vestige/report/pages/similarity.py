"""Similarity to the reference: how far representations moved, and how the domain of the tuning bears on it."""

from collections.abc import Iterator

from vestige.analyses.metric import LAYER
from vestige.report import curves, default, notes, numbers
from vestige.report.pages.domains import add_domains
from vestige.report.reading import Part, Reading
from vestige.report.types import Answer, Page


def page(reading: Reading, analysis: str) -> Page:
    """The default page; in words, the least similar layers of every model, and the corpora it is compared on."""
    found = default.page(
        reading,
        analysis,
        _least_alike,
        "How far representations moved",
        "How alike the same inputs are in the tuned model and its reference, layer by layer: 1 says that they are "
        "the same up to what the measure leaves open (scale, rotation, or any linear map).",
    )
    found.answers = [answer for part in reading.parts(analysis) for answer in _answers(reading, part)]
    for section, part in zip(found.sections, reading.parts(analysis), strict=True):
        if len(part.domains):
            add_domains(reading, part, section, default.lead_of(part, found.title))
    return found


def _answers(reading: Reading, part: Part) -> Iterator[Answer]:
    """How alike every model is to its reference by the first measure: the least similar layer, where one is shown."""
    metric, several = curves.of_metric(part)[0], len(reading.parts(part.declared.analysis)) > 1
    for model in (name for name in part.models if name not in reading.twins):
        points = notes.points(curves.curve_frame(part.rows, metric, LAYER), model)
        if points.empty:
            continue
        least = points.loc[points["value"].idxmin()]
        others = points.drop(index=least.name)
        title = f"{metric.title} with the base{f' on {part.title}' if several else ''}"
        if len(others) and all(notes.below(least, other) for _, other in others.iterrows()):
            where = numbers.places(LAYER, [least.name])
            text = f"Hidden states are least like the base's at {where} ({title}: {notes.level(metric, least)})."
        else:
            text = f"{title} is {notes.span(metric, LAYER, points)}."
        yield Answer("representations", model, text)


def _least_alike(part: Part, model: str) -> Iterator[tuple[float, str]]:
    for metric in curves.of_metric(part):
        points = notes.points(curves.curve_frame(part.rows, metric, LAYER), model)
        if len(points) > 1:
            where = notes.span(metric, LAYER, points)
            yield -float(points["value"].min()), f"{metric.title} of {model} and its reference is {where}."
            return
