"""Patching: at which depth the change sits, as far as intervals allow to say."""

from vestige.report import default
from vestige.report.pages.patch_parts.halves import halves
from vestige.report.reading import Reading
from vestige.report.types import Page


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with sentences on where half of every change is made."""
    return default.page(
        reading,
        analysis,
        halves,
        "Where the change sits",
        "Activations of the base are put into the tuned model, and of the tuned model into the base: the output of a "
        "block (which holds all below it), of its attention or of its MLP, or a block itself with its weights. Shares "
        "say what of the change from base to tuned is then there: 100 % as tuned, 0 % as the base. Intervals are over "
        "sentences.",
    )
