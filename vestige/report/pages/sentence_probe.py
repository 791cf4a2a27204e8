"""The page of the sentence probes: probes of layers that read one vector per sentence, so they share a page."""

from dataclasses import replace

from vestige.report.pages import page_of
from vestige.report.reading import Reading
from vestige.report.types import Page


def page(reading: Reading, analysis: str) -> Page:
    """That of the layer probes, every pooling by itself."""
    return replace(page_of("layer_probe")(reading, analysis), title="Sentences, layer by layer")
