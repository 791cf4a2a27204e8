"""vestige: what did fine-tuning do to the linguistic knowledge inside this model, and where?

Public names are resolved on first use, so that importing the package (or asking the CLI for
help) loads neither torch nor transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vestige.version import __version__

_WHERE = {
    "load_corpus": "vestige.corpus.load",
    "Corpus": "vestige.corpus.types",
    "Sentence": "vestige.corpus.types",
    "Task": "vestige.corpus.types",
    "load_model": "vestige.models.files.load",
    "random_twin": "vestige.models.files.load",
    "find_checkpoints": "vestige.models.files.series",
    "represent": "vestige.representations.extract",
    "import_activations": "vestige.representations.interchange",
    "export_activations": "vestige.representations.interchange",
    "rsa": "vestige.measures.rsa",
    "cka": "vestige.measures.cka",
    "minibatch_cka": "vestige.measures.cka",
    "svcca": "vestige.measures.cca",
    "pwcca": "vestige.measures.cca",
    "procrustes": "vestige.measures.cca",
    "neighbour_overlap": "vestige.measures.neighbours",
    "similarities": "vestige.measures.similarity",
    "LinearProbe": "vestige.probes.linear.estimator",
    "erase_and_score": "vestige.analyses.erased_scores",
    "Recipe": "vestige.finetune.recipe",
    "load_recipe": "vestige.finetune.recipe",
    "Watch": "vestige.study.watch",
    "WatchCallback": "vestige.study.watch",
    "compare": "vestige.study.compare",
    "compare_items": "vestige.comparison.items",
    "Study": "vestige.study.run",
    "StudyRun": "vestige.study.finished",
    "VestigeError": "vestige.errors",
}

__all__ = [*_WHERE, "__version__"]

if TYPE_CHECKING:
    from vestige.analyses.erased_scores import erase_and_score
    from vestige.comparison.items import compare_items
    from vestige.corpus.load import load_corpus
    from vestige.corpus.types import Corpus, Sentence, Task
    from vestige.errors import VestigeError
    from vestige.finetune.recipe import Recipe, load_recipe
    from vestige.measures.cca import procrustes, pwcca, svcca
    from vestige.measures.cka import cka, minibatch_cka
    from vestige.measures.neighbours import neighbour_overlap
    from vestige.measures.rsa import rsa
    from vestige.measures.similarity import similarities
    from vestige.models.files.load import load_model, random_twin
    from vestige.models.files.series import find_checkpoints
    from vestige.probes.linear.estimator import LinearProbe
    from vestige.representations.extract import represent
    from vestige.representations.interchange import export_activations, import_activations
    from vestige.study.compare import compare
    from vestige.study.finished import StudyRun
    from vestige.study.run import Study
    from vestige.study.watch import Watch, WatchCallback


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"vestige has no public name {name!r}; it has {', '.join(_WHERE)}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
