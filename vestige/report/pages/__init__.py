"""One file for every analysis that has more to show than the default page."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from vestige.report.reading import Reading
from vestige.report.types import Page

ORDER = (
    "layer_probe", "sentence_probe", "neurons", "neuron_rankers", "neuron_redundancy", "freezing", "truncation",
    "pruning", "similarity", "concepts", "attention", "perplexity", "patching", "patched_probe",
    "output_drift", "lens", "minimal_pairs", "structural_probe", "description_length", "erasure", "edge_probe",
)  # fmt: skip
"""In which pages follow each other; those of other analyses come after them."""


def page_of(analysis: str) -> Callable[[Reading, str], Page]:
    """What writes the page of an analysis: `page` of the file of its name in this folder, or the default page.

    Pages are loaded by their names, so that only those of the run are.
    """
    name = f"{__name__}.{analysis}"
    own = import_module(name) if analysis.isidentifier() and find_spec(name) else None
    found: Callable[[Reading, str], Page] = getattr(own, "page", None) or import_module("vestige.report.default").page
    return found
