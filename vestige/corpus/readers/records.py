"""JSON records, read so that every complaint names a file, a line and a field."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vestige.errors import CorpusError
from vestige.files import load_json

_KINDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def parse_json(text: str, path: str | Path, line: int = 1) -> Any:
    """The value that `text` holds, which starts at `line` of the file."""
    try:
        return load_json(text)
    except json.JSONDecodeError as error:
        line, problem = line + error.lineno - 1, f"{error.msg} at column {error.colno}"
    except ValueError as error:
        problem = str(error)
    raise CorpusError(f"{path}:{line}: not JSON: {problem}", fix="check that the file is whole and of the format named")


def read_records(lines: Iterable[str], path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The object of every line that is not blank, each after its `path:line`."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path}:{number}", as_kind(f"{path}:{number}", "the line", parse_json(line, path, number), dict)


def field(where: str, record: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """The value under `name`, which must be there and of one of the kinds."""
    if name not in record:
        raise CorpusError(
            f"{where}: expected a field {name!r}, found {', '.join(record) or 'none'}",
            fix="check that the file is of the format named",
        )
    return as_kind(where, f"{name!r}", record[name], *kinds)


def as_kind(where: str, name: str, value: Any, *kinds: type) -> Any:
    """The value itself, if its type is one of the kinds."""
    if type(value) not in kinds:
        expected = " or ".join(_KINDS[kind] for kind in kinds)
        raise CorpusError(
            f"{where}: expected {name} to be {expected}, found {value!r:.80}",
            fix="check that the file is of the format named",
        )
    return value
