"""One file = one method. A file `name.py` here defines the analysis called `name`.

Third parties add theirs by the entry point group `vestige.analyses`. Nothing is imported before
it is asked for.
"""

from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from vestige.analyses.base import Analysis
from vestige.errors import SpecError

GROUP = "vestige.analyses"
_NOT_ANALYSES = {"base", "rows", "tuning"}


def analysis_names() -> list[str]:
    """Names of all analyses to be had, ours and third parties'."""
    ours = {module.name for module in iter_modules(__path__)} - _NOT_ANALYSES
    theirs = {point.name for point in entry_points(group=GROUP)}
    return sorted(ours | theirs)


def find_analysis(name: str) -> type[Analysis]:
    """The class of the analysis called `name`."""
    if name not in analysis_names():
        near = get_close_matches(name, analysis_names(), n=1)
        raise SpecError(
            f"unknown analysis {name!r}; known: {', '.join(analysis_names())}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    module = import_module(f"{__name__}.{name}")
    return next(
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Analysis) and vars(value).get("name") == name
    )
