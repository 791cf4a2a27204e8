"""What a study compares with what: models without a reference are said, and analyses that need one refuse."""

import re
from collections.abc import Sequence

from vestige.errors import SpecError
from vestige.study.spec import AnalysisSpec, StudySpec


def check_references(spec: StudySpec) -> list[str]:
    """Lines on models that are compared with nothing; an error where an analysis of two models has no pair."""
    lines = []
    if len(_compared(spec)) == 0 and len(_plain(spec)) > 1:
        lines.append(f"No model of this study has a reference, so none is compared with another. {_to_compare(spec)}")
    for analysis in spec.analyses:
        if analysis.parameters.models == 1 or analysis.parameters.alone:
            continue
        if not any(map(analysis.reads, _compared(spec))):
            raise _no_pair(spec, analysis)
        alone = [name for name in _plain(spec) if analysis.reads(name) and name not in _paired(spec)]
        if alone:
            lines.append(
                f"{analysis.name} compares a model with its reference; {', '.join(alone)} "
                f"{'has' if len(alone) == 1 else 'have'} none and {'is' if len(alone) == 1 else 'are'} left out of it."
            )
    return lines


def _plain(spec: StudySpec) -> list[str]:
    """Models that are no baselines."""
    return [name for name, model in spec.models.items() if model.random_twin_of is None]


def _compared(spec: StudySpec) -> list[str]:
    return [name for name in spec.models if spec.reference_of(name) is not None]


def _paired(spec: StudySpec) -> set[str]:
    """Models that are compared, and those they are compared with."""
    return {*_compared(spec), *filter(None, map(spec.reference_of, spec.models))}


def _no_pair(spec: StudySpec, analysis: AnalysisSpec) -> SpecError:
    read = [name for name in _plain(spec) if analysis.reads(name)]
    if len(_plain(spec)) < 2:
        return SpecError(
            f"{analysis.name} compares a model with its reference, and the study has one model, {', '.join(read)}",
            fix="add the model it is to be compared with",
        )
    return SpecError(
        f"{analysis.name} compares a model with its reference, and of {', '.join(read)} none has one",
        fix=_to_compare(spec, read),
    )


def _to_compare(spec: StudySpec, read: Sequence[str] = ()) -> str:
    """The line of the study file that would make a comparison of the first two models."""
    base = re.split("[#@]", _plain(spec)[0])[0]
    others = [re.split("[#@]", name)[0] for name in (*read, *_plain(spec))]
    other = next((name for name in others if name != base), None)
    if other is None:
        return "Add the model they are to be compared with, and name it as their reference."
    source = next(model for name, model in spec.models.items() if re.split("[#@]", name)[0] == other)
    how = f"load: {source.load}" if source.load is not None else "..."
    return f"To compare {other} with {base}, write in the study file: `{other}: {{{how}, reference: {base}}}`"
