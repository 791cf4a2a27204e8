"""The corpora of a study: read, checked against what analyses take, and described."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vestige.corpus.load import load_corpus
from vestige.corpus.types import Corpus, words_digest
from vestige.errors import SpecError
from vestige.models.encoders.encoder import Encoder
from vestige.study.spec import AnalysisSpec, StudySpec


@dataclass
class Given:
    """Models and corpora handed over in memory, by the names the spec uses for them."""

    models: Mapping[str, Encoder] = field(default_factory=dict)
    corpora: Mapping[str, Corpus] = field(default_factory=dict)


def read_corpora(spec: StudySpec, given: Given) -> dict[str, Corpus]:
    """Every corpus of a study by name; an error where a task does not exist or does not fit its analysis."""
    corpora = {name: _corpus(spec, name, given) for name in spec.corpora}
    for analysis in spec.analyses:
        _check_levels(analysis, corpora)
    return corpora


def _corpus(spec: StudySpec, name: str, given: Given) -> Corpus:
    if name in given.corpora:
        corpus = given.corpora[name]
    else:
        wanted = spec.corpora[name]
        corpus = load_corpus(
            wanted.files or wanted.name or "",
            format=wanted.format,
            name=None if wanted.files is None else name,
            dev=wanted.dev,
            test=wanted.test,
            seed=wanted.seed,
            derive=wanted.derive,
            **wanted.options,
        )
        if wanted.sample is not None:
            corpus = corpus.sample(wanted.sample, wanted.seed)
    return corpus if spec.limit is None else corpus.limit(spec.limit)


def _check_levels(analysis: AnalysisSpec, corpora: Mapping[str, Corpus]) -> None:
    """Say before any work starts that a task does not exist or does not fit."""
    if not analysis.parameters.levels:
        if analysis.tasks:
            raise SpecError(
                f"{analysis.name} reads no corpus, so that it has no task {analysis.tasks[0]!r}", fix="leave tasks out"
            )
        return
    if not analysis.tasks:
        raise SpecError(f"{analysis.name} has no tasks", fix="add tasks: [corpus/task, ...]")
    for name in analysis.tasks:
        corpus, _, label = name.partition("/")
        task = corpora[corpus].task(label)
        if task.level not in analysis.parameters.levels:
            raise SpecError(
                f"{analysis.name} takes tasks at level {', '.join(analysis.parameters.levels)}; "
                f"{name} is at level {task.level}",
                fix="choose another task or analysis",
            )


def describe_corpus(corpus: Corpus) -> dict[str, Any]:
    """Name, notes and size of every split, as study.lock.json keeps them."""
    return {
        "name": corpus.name,
        "notes": list(corpus.notes),
        "splits": {
            split: {
                "sentences": len(s),
                "words": sum(len(x.words) for x in s),
                "digest": words_digest(s),
                "in_train": corpus.shared_with_train(split),
            }
            for split, s in corpus.splits.items()
        },
    }
