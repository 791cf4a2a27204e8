"""Every analysis by its name, ours and third parties'; loaded when asked for, and checked when loaded.

Ours are the files beside this one in which a class gives its `name`, which is read without importing them. Theirs
are entry points of the group `vestige.analyses`, and may take the place of none.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from inspect import isabstract
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from vestige.errors import AnalysisError, SpecError

if TYPE_CHECKING:
    from vestige.analyses.base import Analysis

GROUP = "vestige.analyses"
BY_DEFAULT = ("layer_probe",)
"""What a comparison runs where nothing else is asked for."""
WHILE_TRAINING = ("layer_probe", "similarity")
"""What a model is watched by while it is trained."""


def analysis_names() -> list[str]:
    """Names of all analyses to be had, ours and third parties'."""
    return sorted({*_ours(), *_theirs()})


def find_analysis(name: str) -> "type[Analysis]":
    """The class of the analysis called `name`."""
    ours, theirs = _ours(), _theirs()
    if name in ours:
        module = import_module(f"{GROUP}.{name}")
        return _checked(getattr(module, ours[name]), name, f"{module.__name__}:{ours[name]}")
    if name in theirs:
        return _checked(_loaded(theirs[name]), name, _named(theirs[name]))
    near = get_close_matches(name, analysis_names(), n=1)
    raise SpecError(
        f"unknown analysis {name!r}; known: {', '.join(analysis_names())}",
        fix=f"did you mean {near[0]!r}?" if near else "name one of them",
    )


@cache
def _ours() -> dict[str, str]:
    """Class by name; a file without a class that gives its name holds what analyses share."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        for name, kind in _named_classes(ast.parse(path.read_text(encoding="utf-8"))):
            if name != path.stem:
                raise AnalysisError(
                    f"{path} defines the analysis {name!r} ({kind})",
                    fix=f"one file, one analysis: move it to {name}.py, or rename it",
                )
            found[name] = kind
    return found


def _named_classes(module: ast.Module) -> Iterator[tuple[str, str]]:
    """What `name` is in every class that sets it, and the class; a field of that name, which has a type, is none."""
    classes = [kind for kind in module.body if isinstance(kind, ast.ClassDef)]
    for kind in classes:
        for line in kind.body:
            target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
            field = isinstance(line, ast.AnnAssign) and "ClassVar" not in ast.unparse(line.annotation)
            value = getattr(line, "value", None)
            if isinstance(target, ast.Name) and target.id == "name" and isinstance(value, ast.Constant) and not field:
                yield str(value.value), kind.name


def _theirs() -> dict[str, EntryPoint]:
    """Third parties' analyses by name; one that would take the place of another is refused."""
    ours, found = _ours(), dict[str, EntryPoint]()
    for point in entry_points(group=GROUP):
        if point.name in ours or point.name in found:
            other = f"vestige's own ({GROUP}.{point.name})" if point.name in ours else _named(found[point.name])
            raise SpecError(
                f"two analyses are called {point.name!r}: {other} and {_named(point)}",
                fix="uninstall one of the packages, or rename its entry point",
            )
        found[point.name] = point
    return found


def _named(point: EntryPoint) -> str:
    package = "" if point.dist is None else f" of the package {point.dist.name}"
    return f"the entry point {point.value}{package}"


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise SpecError(
            f"the analysis {point.name!r} ({_named(point)}) cannot be imported: {type(error).__name__}: {error}",
            fix="repair or uninstall the package",
        ) from error


@cache
def _checked(kind: Any, name: str, where: str) -> "type[Analysis]":
    """The class, if it declares all that the study, the report and the documentation read off it."""
    from vestige.analyses.base import Analysis

    if not (isinstance(kind, type) and issubclass(kind, Analysis)):
        raise SpecError(
            f"the analysis {name!r} ({where}) is no subclass of vestige.analyses.base.Analysis",
            fix="name the class in the entry point: package.module:Class",
        )
    for problem, fix in _mistakes(kind, name):
        raise AnalysisError(f"the analysis {name!r} ({where}) {problem}", fix=fix)
    return kind


def _mistakes(kind: "type[Analysis]", name: str) -> Iterator[tuple[str, str]]:
    """What a class does not declare as it should, each with what to do."""
    from vestige.analyses.base import Need
    from vestige.analyses.guide import about, parameters
    from vestige.corpus.types import Level

    if getattr(kind, "name", None) != name:
        yield f"calls itself {getattr(kind, 'name', None)!r}", f"set name to {name!r}"
    for said in ("title", "source"):
        if not getattr(kind, said, ""):
            yield f"has no {said}", f"set {said}: see vestige.analyses.base.Analysis"
    if not about(kind):
        yield "has no docstring", "say in the class' docstring what it computes"
    for said, known in (("needs", get_args(Need)), ("levels", get_args(Level))):
        given = getattr(kind, said, ())
        if isinstance(given, str):
            yield f"has {said} that are a text, {given!r}", f"write {said} = ({given!r},)"
        unknown = [each for each in given if each not in known]
        if unknown or not (given or (said == "levels" and hasattr(kind, said))):
            found = f"has {said} {unknown[0]!r}" if unknown else f"does not say its {said}"
            yield found, f"choose from {', '.join(known)}"
    if not getattr(kind, "levels", True) and (kind.uses_labels or {"hidden_states", "logits"} & {*kind.needs}):
        yield "has no levels, but reads words", "name its levels, or set uses_labels = False and needs without states"
    if isabstract(kind):
        yield "has no method run", "write run(self, inputs: Inputs) -> Outcome"
    yield from _mistaken_metrics(getattr(kind, "metrics", None))
    for parameter in parameters(kind):
        if parameter.meaning == "":
            yield f"does not explain its parameter {parameter.name!r}", "put a docstring under the field"


def _mistaken_metrics(metrics: Any) -> Iterator[tuple[str, str]]:
    from vestige.analyses.metric import Metric

    if not (isinstance(metrics, tuple) and metrics and all(isinstance(metric, Metric) for metric in metrics)):
        yield "declares no metrics", "set metrics to a tuple of vestige.analyses.metric.Metric, one or more"
        return
    twice = [name for name, count in Counter(metric.name for metric in metrics).items() if count > 1]
    if twice:
        yield f"declares the metric {twice[0]!r} twice", "give every metric a name of its own"
    for metric in metrics:
        if metric.confirmed_by and metric.confirmed_by not in {other.name for other in metrics}:
            yield f"lets {metric.name!r} be confirmed by {metric.confirmed_by!r}", "name one of its metrics"
