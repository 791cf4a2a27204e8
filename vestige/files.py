"""Files from outside: opened only if they are ordinary files, unpacked and parsed only within bounds."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vestige.errors import VestigeError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_SMALL = 64 * 2**20
_MOST_PACKED = 100
"""Text is packed to a tenth or so; a file that grows a hundredfold was made to fill a disk."""


def check_file(path: str | Path, kind: type[VestigeError]) -> int:
    """The size of an ordinary file; an error of the kind for all else: to open a pipe would wait for ever."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise kind(f"{path}: no such file", fix="check the path") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, kind, error) from None
    if stat.S_ISDIR(found.st_mode):
        raise kind(f"{path}: a folder, not a file", fix="name the file itself")
    if not stat.S_ISREG(found.st_mode):
        what = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise kind(f"{path}: {what}, not a file", fix="name an ordinary file")
    return found.st_size


def read_file(path: str | Path, kind: type[VestigeError], largest: int | None = None) -> bytes:
    """The content of an ordinary file, of at most `largest` bytes."""
    size = check_file(path, kind)
    if largest is not None and size > largest:
        raise kind(f"{path}: {size} bytes, where at most {largest} are expected", fix="check that it is the right file")
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (OSError, MemoryError) as error:
        raise _unreadable(path, kind, error) from None


def check_folder_files(folder: Path, kind: type[VestigeError]) -> None:
    """An error where a folder holds pipes, sockets or devices, which would block whoever opens them."""
    try:
        found = [entry.path for entry in os.scandir(folder)]
    except OSError as error:
        raise _unreadable(folder, kind, error) from None
    for path in found:
        if os.path.exists(path) and not os.path.isdir(path):
            check_file(path, kind)


def unpacked_limit(path: Path) -> int:
    """How many bytes may come out of an archive."""
    return max(_SMALL, _MOST_PACKED * path.stat().st_size)


def too_large(path: Path, kind: type[VestigeError]) -> VestigeError:
    """The error for an archive that holds more than `unpacked_limit`."""
    return kind(
        f"{path}: unpacks to more than {unpacked_limit(path) // 2**20} MiB, {_MOST_PACKED} times its size",
        fix="get the file again from its source; if it is right, unpack it yourself",
    )


def load_json(text: str | bytes, nan: bool = False) -> Any:
    """What JSON holds; every complaint is a ValueError: on depth, huge numbers, keys that occur twice, NaN unless said.

    Python's own reader takes NaN and Infinity for numbers, which JSON does not have.
    """
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=float if nan else _no_constant)
        if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair, which is no text") from None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"the key {next(_repeated(pairs))!r:.80} occurs twice in one object")
    return made


def _repeated(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            yield key
        seen.add(key)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _unreadable(path: str | Path, kind: type[VestigeError], error: Exception) -> VestigeError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return kind(f"{str(path)!r:.200}: cannot be read ({reason})", fix="check the path and its permissions")
