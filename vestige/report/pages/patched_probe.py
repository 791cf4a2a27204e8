"""Patching under a frozen probe: at which depth the change sits that the probe cannot read."""

from vestige.report import default
from vestige.report.pages.patch_parts.halves import halves
from vestige.report.reading import Reading
from vestige.report.types import Page


def page(reading: Reading, analysis: str) -> Page:
    """The default page, with sentences on where half of the change is made."""
    return default.page(
        reading,
        analysis,
        halves,
        "Where a frozen probe loses its accuracy",
        "A probe of the last layer is trained once and stays as it is. Activations of the base are put into the tuned "
        "model below it, and of the tuned model into the base. Shares say what of the change of its accuracy from base "
        "to tuned is then there: 100 % as in the tuned model, 0 % as in the base. Intervals are over sentences.",
    )
