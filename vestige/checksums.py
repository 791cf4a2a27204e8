"""Checksums of the files in a folder: what is read is what was written.

`seal` lists every file with its size and checksum in `checksums.json`, written last and flushed to
disk. `fault` says what has changed since: sizes and names are looked at every time, content once in
a process for every file that is read. Hidden files are work in progress and not part of the folder.
A folder inside that has checksums of its own is listed by these alone, and read only when asked for.

The checksum is XXH3 with 128 bits: it finds every kind of accident, and a layer of 1 GB takes about
as long as reading it. It is no protection from somebody who writes checksums of his own.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import xxhash

CHECKSUMS = "checksums.json"
FORMAT = 1
_BLOCK = 1 << 22
_right: dict[str, tuple[int, ...]] = {}
"""Files whose content was found right in this process, by path; any change to a file changes the numbers."""


def seal(folder: Path, place: Path) -> None:
    """Write the checksums of a folder that is to become `place`, and flush all of it to disk."""
    files: dict[str, list[Any]] = {}
    for name in _listed(folder):
        path = folder / name
        flush(path)
        files[name] = [path.stat().st_size, checksum(path)]
    for parent, _, _ in os.walk(folder):
        flush(Path(parent))
    content = {"format": FORMAT, "of": _identity(place), "files": files}
    (folder / CHECKSUMS).write_text(json.dumps(content, indent=1), encoding="utf-8")
    flush(folder / CHECKSUMS)
    flush(folder)


def list_checksums(folder: Path, names: Iterable[str]) -> bytes:
    """Content of a `checksums.json` for these files of a folder that may hold others too."""
    files = {name: [(folder / name).stat().st_size, checksum(folder / name)] for name in sorted(names)}
    return json.dumps({"format": FORMAT, "files": files}, indent=1).encode()


def read_checksums(folder: Path) -> dict[str, list[Any]]:
    """What `list_checksums` listed: size and checksum of every file."""
    return dict(json.loads((folder / CHECKSUMS).read_bytes())["files"])


def fault(folder: Path, reads: Callable[[str], bool] = lambda name: True) -> str | None:
    """What is wrong with a sealed folder; None if nothing is. The content of files that `reads` names is compared."""
    try:
        return next(_faults(folder, reads), None)
    except OSError as error:
        return f"{Path(error.filename or folder).name} cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return f"{CHECKSUMS} is no list of checksums"


def file_is_right(path: Path) -> bool:
    """Whether this process has compared the file, and it has not changed since."""
    try:
        return _right.get(os.fspath(path)) == _state(path)
    except OSError:
        return False


def checksum(path: Path) -> str:
    """Of a file's bytes."""
    state, block = xxhash.xxh3_128(), memoryview(bytearray(_BLOCK))
    with open(path, "rb", buffering=0) as stream:
        while count := stream.readinto(block):
            state.update(block[:count])
    return state.hexdigest()


def marked(path: Path, content: bytes) -> bytes:
    """The content of a file under a line with its checksum, which the file's name is part of."""
    return _mark(path, content) + content


def unmarked(path: Path) -> bytes | None:
    """The content that `marked` was given; None if it is not what the file holds now."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    mark, newline, content = path.read_bytes().partition(b"\n")
    return content if mark + newline == _mark(path, content) else None


def flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to disk now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _faults(folder: Path, reads: Callable[[str], bool]) -> Iterator[str]:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        yield "it is no folder"
        return
    if not (folder / CHECKSUMS).is_file() or (folder / CHECKSUMS).is_symlink():
        yield f"it has no {CHECKSUMS}"
        return
    content = json.loads((folder / CHECKSUMS).read_bytes())
    if content["format"] != FORMAT or content["of"] != _identity(folder):
        yield f"{CHECKSUMS} is that of another folder"
        return
    files: dict[str, list[Any]] = content["files"]
    found = set(_listed(folder))
    for name in sorted(found ^ set(files)):
        yield f"{name} is {'missing' if name in files else 'not one of its files'}"
    for name, (size, expected) in files.items():
        path = folder / name
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            yield f"{name} is no file"
        elif state.st_size != size:
            yield f"{name} has {state.st_size} bytes instead of {size}"
        elif path.name == CHECKSUMS:
            if checksum(path) != expected:
                yield f"{name} has changed"
            yield from (f"{path.parent.name}: {problem}" for problem in _faults(path.parent, lambda _: False))
        elif reads(name) and not _compare(path, expected):
            yield f"{name} has changed"


def _compare(path: Path, expected: str) -> bool:
    if file_is_right(path):
        return True
    before = _state(path)
    if checksum(path) != expected:
        return False
    _right[os.fspath(path)] = before
    return True


def _listed(folder: Path) -> Iterator[str]:
    """Files by their path in the folder, sorted; of a sealed folder inside, its checksums alone. Links are no files."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == CHECKSUMS:
            continue
        if path.is_symlink() or not path.is_dir():
            yield path.name
        elif (path / CHECKSUMS).exists():
            yield f"{path.name}/{CHECKSUMS}"
        else:
            yield from (f"{path.name}/{name}" for name in _listed(path))


def _state(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _identity(place: Path) -> str:
    """The last two names of its path: no folder passes for another. Temporary names stand for what they become."""
    parent = place.parent.name
    return f"{parent.split('.')[1] if parent.startswith('.') else parent}/{place.name}"


def _mark(path: Path, content: bytes) -> bytes:
    state = xxhash.xxh3_128(_identity(path).encode("utf-8", "surrogateescape") + b"\n")
    state.update(content)
    return b"vestige " + state.hexdigest().encode() + b"\n"
