"""Cells of analyses that read no corpus: one for every model and, where these take two, its reference."""

from collections.abc import Iterator
from pathlib import Path

from vestige.models.files.naming import libraries
from vestige.study.naming import Named
from vestige.study.spec import AnalysisSpec, StudySpec
from vestige.study.steps.analyse import Cell, Side, cell_key, needs_model
from vestige.study.steps.origin import Origin

NOT_OF_TWINS = {"trainable_model", "logits", "tensors"}
"""What of a random twin says nothing."""


def cells_without_corpus(spec: StudySpec, named: Named, root: Path) -> Iterator[Cell]:
    """All of a study, by model and run; corpus and task are empty."""
    for (name, _), mine in named.origins.items():
        for analysis in spec.analyses:
            parameters, above = analysis.parameters, spec.reference_of(name) or ""
            two = parameters.models == 2
            reference = named.origins.get((above, 0)) if two else None
            if parameters.levels or not analysis.reads(name) or (two and reference is None and not parameters.alone):
                continue
            twins = _is_twin(spec, name) or (two and _is_twin(spec, above))
            if not (twins and parameters.needs & NOT_OF_TWINS):
                yield _cell(spec, named, root, analysis, mine, reference)


def _cell(
    spec: StudySpec, named: Named, root: Path, analysis: AnalysisSpec, mine: Origin, reference: Origin | None
) -> Cell:
    parameters, baseline = analysis.parameters, _is_twin(spec, mine.model)
    trains = "trainable_model" in parameters.needs
    threads = spec.compute.model_threads if trains else spec.compute.threads
    origins = [origin for origin in (mine, reference) if origin is not None]
    made = [named.tunes[place] for origin in origins if (place := (origin.model, origin.run)) in named.tunes]
    side, other = Side(mine, {}), None if reference is None else Side(reference, {})
    content = [analysis.name, parameters.version, parameters.parameters(), threads, baseline]
    return Cell(
        key=cell_key(side, other, None, *content, libraries()),
        cache=str(root),
        inputs=tuple(step.key for step in made),
        threads=threads,
        device=spec.compute.device if trains or needs_model(type(parameters)) else "cpu",
        stays_here=any(origin.source is None for origin in origins),
        side=side,
        corpus="",
        task="",
        task_file="",
        data="",
        analysis=analysis.name,
        version=parameters.version,
        parameters=parameters.parameters(),
        baseline=baseline,
        reference=other,
    )


def _is_twin(spec: StudySpec, name: str) -> bool:
    return name in spec.models and spec.models[name].random_twin_of is not None
