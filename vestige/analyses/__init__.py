"""One file = one method. A file `name.py` here that says `name: ClassVar[str] = "name"` defines that analysis.

Third parties add theirs by the entry point group `vestige.analyses`. Nothing is imported before
it is asked for.
"""

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from vestige.analyses.base import Analysis
from vestige.errors import SpecError

GROUP = "vestige.analyses"


def analysis_names() -> list[str]:
    """Names of all analyses to be had, ours and third parties'."""
    return sorted({*_ours(), *_theirs()})


def find_analysis(name: str) -> type[Analysis]:
    """The class of the analysis called `name`."""
    theirs = _theirs()
    if name in theirs:
        return _loaded(theirs[name])
    if name not in _ours():
        near = get_close_matches(name, analysis_names(), n=1)
        raise SpecError(
            f"unknown analysis {name!r}; known: {', '.join(analysis_names())}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    module = import_module(f"{__name__}.{name}")
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Analysis) and vars(value).get("name") == name
    )


@cache
def _ours() -> frozenset[str]:
    """Files here that name an analysis as they are named; the others hold what analyses share."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py")}
    return frozenset(name for name, text in texts.items() if f'name: ClassVar[str] = "{name}"' in text)


def _theirs() -> dict[str, EntryPoint]:
    """Third parties' analyses by name; one that would take the place of another is refused."""
    ours, found = _ours(), dict[str, EntryPoint]()
    for point in entry_points(group=GROUP):
        if point.name in ours or point.name in found:
            other = f"vestige's own ({__name__}.{point.name})" if point.name in ours else _told(found[point.name])
            raise SpecError(
                f"two analyses are called {point.name!r}: {other} and {_told(point)}",
                fix="uninstall one of the packages, or rename its entry point",
            )
        found[point.name] = point
    return found


def _told(point: EntryPoint) -> str:
    package = "" if point.dist is None else f" of the package {point.dist.name}"
    return f"the entry point {point.value}{package}"


def _loaded(point: EntryPoint) -> type[Analysis]:
    try:
        kind = point.load()
    except Exception as error:
        raise SpecError(
            f"the analysis {point.name!r} ({_told(point)}) cannot be imported: {type(error).__name__}: {error}",
            fix="repair or uninstall the package",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Analysis)):
        raise SpecError(
            f"the analysis {point.name!r} ({_told(point)}) is no subclass of vestige.analyses.base.Analysis",
            fix="name the class in the entry point: package.module:Class",
        )
    return kind
