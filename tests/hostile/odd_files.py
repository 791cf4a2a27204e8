"""Things that stand where a file is expected."""

import os
import socket
from collections.abc import Callable
from pathlib import Path


def _absent(path: Path) -> None:
    path.unlink(missing_ok=True)


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink(missing_ok=True)
    here = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return make


def _content(content: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content)

    return make


PLACES: dict[str, Callable[[Path], None]] = {
    "no file": _absent,
    "a folder": _folder,
    "a pipe": _pipe,
    "a socket": _socket,
    "/dev/zero": _link("/dev/zero"),
    "a link to itself": lambda path: _link(path.name)(path),
}
"""What is no file at all."""

CONTENTS: dict[str, Callable[[Path], None]] = {
    "an empty file": _content(b""),
    "zeros": _content(bytes(2000)),
    "bytes that are no text": _content(bytes(range(256)) * 20),
    "UTF-16": _content("She ran .\n".encode("utf-16") * 20),
    "deep brackets": _content(b"[" * 100_000),
    "deep objects": _content(b'{"a":' * 100_000),
    "a number of 5,000 digits": _content(b"9" * 5000),
    "a line of ten million letters": _content(b"a" * 10_000_000),
}
"""Files of no format."""
