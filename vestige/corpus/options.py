"""Options that come from study files and command lines, checked against the function that takes them."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

from annotated_types import Ge, Le

from vestige.errors import CorpusError

Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
Bounds = tuple[Whole, Whole]
"""The least and the most."""


def check_options(
    where: str, function: Callable[..., Any], options: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> None:
    """Every option is one of the function's, or of `more` (with their kinds), of its kind, and none is missing.

    The function's first argument is what it works on, and no option.
    """
    hints = get_type_hints(function, include_extras=True)
    own = dict(list(signature(function).parameters.items())[1:])
    kinds = {**{name: hints[name] for name in own}, **(more or {})}
    for name, value in options.items():
        if name not in kinds:
            near = get_close_matches(str(name), kinds, n=1)
            raise CorpusError(
                f"{where} has no option {name!r}; it has {', '.join(kinds) or 'none'}",
                fix=f"did you mean {near[0]!r}?" if near else "drop it",
            )
        check_value(f"{where}: {name}", kinds[name], value)
    missing = [name for name, one in own.items() if one.default is Parameter.empty and name not in options]
    if missing:
        raise CorpusError(f"{where} needs the option {missing[0]!r}", fix=f"give {missing[0]}=...")


def check_value(where: str, kind: Any, value: Any) -> None:
    """An error unless the value is of the kind; lists will do where tuples are expected."""
    from pydantic import TypeAdapter, ValidationError

    given = tuple(value) if isinstance(value, list) else value
    try:
        TypeAdapter(kind).validate_python(given, strict=True)
    except ValidationError as error:
        said = error.errors()[0]["msg"].replace("Input should", "it should")
        raise CorpusError(f"{where} is {value!r:.80}", fix=said) from None
