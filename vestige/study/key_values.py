"""What a command line says as key=value."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from vestige.errors import SpecError
from vestige.study.yaml_file import parse_yaml


def key_values(pairs: Sequence[str], what: str, example: str) -> dict[str, Any]:
    """What the pairs say, one key once; `what` they are and an `example` go into complaints."""
    said: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise SpecError(f"{what} is written key=value, found {pair!r}", fix=f"{example}, say")
        if key in said:
            raise SpecError(f"{what} is given twice: {key} is {said[key]!r} and {value!r}", fix="give it once")
        said[key] = _value(value, pair)
    return said


def reader_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Options of a corpus' reader."""
    said = key_values(pairs, "an option of the corpus", "sentence=text")
    for key in said:
        if key in ("format", "name", "dev", "test", "seed", "derive"):
            raise SpecError(f"{key!r} is no option of a reader", fix="see `vestige ls formats` for those it has")
    return said


def _value(text: str, where: str) -> Any:
    """As YAML reads it; `5e-5` too, which YAML takes for text."""
    with suppress(ValueError):
        if "e" in text.lower():
            return float(text)
    return parse_yaml(text, repr(where))
