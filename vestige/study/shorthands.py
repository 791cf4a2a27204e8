"""The shorthands of study files: ${NAME}, names for mappings, and paths relative to the file."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vestige.errors import SpecError

_DEEPEST = 40
_MEANT = {"VESTIGE_DATA": "FOLDER, the folder with the corpora; `vestige ls corpora NAME` says where one is had"}
"""What a variable has to name, where that is known."""


def write_out(value: Any, where: str, depth: int = 0) -> Any:
    """Replace ${NAME} by the environment's value, everywhere."""
    if depth > _DEEPEST:
        raise SpecError(f"{where}: nested more than {_DEEPEST} deep", fix="see examples/ for how a study is written")
    if isinstance(value, str):

        def lookup(match: re.Match[str]) -> str:
            if match[1] not in os.environ:
                raise SpecError(
                    f"{where}: the environment variable {match[1]} is not set",
                    fix=f"export {match[1]}={_MEANT.get(match[1], '...')}",
                )
            return os.environ[match[1]]

        return re.sub(r"\$\{(\w+)\}", lookup, value)
    if isinstance(value, Mapping):
        return {key: write_out(item, where, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [write_out(item, where, depth + 1) for item in value]
    return value


def names_of(raw: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """The models or the corpora of a file, by name."""
    value = raw.get(key)
    if not isinstance(value, Mapping) or not value:
        raise SpecError(f"{where}: {key!r} should map names to {key}, found {value!r:.80}", fix=f"add {key}:")
    return value


def plain_model(value: Any, base: Path | None, where: str) -> Any:
    """`name: minilm` is short for `name: {load: minilm}`; files and folders are relative to the study file."""
    value = {"load": value} if isinstance(value, str | list) else plain_mapping(value, where)
    for key in ("load", "base", "checkpoints", "tokenizer"):
        if key in value:
            value[key] = _relative(value[key], base)
    return value


def plain_mapping(value: Any, where: str) -> dict[str, Any]:
    """A mapping of its own; nothing at all is an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise SpecError(f"{where} should be a name or a mapping, found {value!r:.80}", fix="see examples/")
    return dict(value or {})


def _relative(value: Any, base: Path | None) -> Any:
    """The path of a file that lies beside the study file; anything else as it is."""
    if isinstance(value, list):
        return [_relative(item, base) for item in value]
    return str(base / value) if isinstance(value, str) and base is not None and _exists(base / value) else value


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def plain_corpus(value: Any, base: Path | None, where: str) -> Any:
    """`name: treebank` is short for `name: {name: treebank}`."""
    value = {"name": value} if isinstance(value, str) else plain_mapping(value, where)
    files = value.get("files")
    if isinstance(files, Mapping) and base is not None:
        value["files"] = {
            split: [_beside(base, path) for path in paths] if isinstance(paths, list) else _beside(base, paths)
            for split, paths in files.items()
        }
    elif "files" in value:
        value["files"] = _relative(files, base)
    return value


def _beside(base: Path, path: Any) -> Any:
    return str(base / path) if isinstance(path, str) else path
