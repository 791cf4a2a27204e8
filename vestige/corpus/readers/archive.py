"""Archives, read within bounds; the text files of a corpus alike from its folder and from a tar archive of it."""

import bz2
import gzip
import lzma
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from vestige.corpus.readers.text import decode_lines
from vestige.errors import CorpusError
from vestige.files import check_file, read_file, too_large, unpacked_limit

_DAMAGED = (
    tarfile.TarError, BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError,
    OverflowError, KeyError, IndexError, RuntimeError, MemoryError,
)  # fmt: skip
"""What Python's own readers of archives raise for those that are not whole, encrypted or packed in another way."""
_PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
"""What a packed file begins with -> what opens it."""
_PART = 2**20


@dataclass(frozen=True)
class Files:
    """Files by their names below the corpus' folder."""

    root: Path
    contents: Mapping[str, bytes]

    def where(self, name: str) -> Path:
        """What complaints call a file."""
        return self.root / name

    def lines(self, name: str) -> list[str]:
        """The lines of a UTF-8 file, without their ends."""
        if name not in self.contents:
            raise CorpusError(f"{self.root}: no file {name}", fix="get the whole corpus, all layers of one release")
        return decode_lines(self.contents[name], self.where(name))


def open_files(path: Path, wanted: str, subfolder: str) -> Files:
    """The files whose names below the corpus' folder match the expression `wanted`.

    The corpus' folder is the path, or `subfolder` in it; in an archive, it may lie at any depth.
    """
    if path.is_dir():
        root = path / subfolder if (path / subfolder).is_dir() else path
        names = ((file, file.relative_to(root).as_posix()) for file in sorted(root.rglob("*")) if file.is_file())
        return Files(root, {name: read_file(file, CorpusError) for file, name in names if re.fullmatch(wanted, name)})
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder", fix="check the path")
    pattern = re.compile(rf"(?:.*/)?({wanted})")
    contents = {}
    content = unpacked(path, "tar archive")
    with _opening(path, "tar archive"), tarfile.open(fileobj=BytesIO(content)) as archive:
        for member in archive:
            match = pattern.fullmatch(member.name)
            stream = archive.extractfile(member) if match and member.isfile() else None
            if match and stream:
                contents[match[1]] = stream.read()
    return Files(path, contents)


def unzipped(path: Path, wanted: Callable[[str], bool], what: str = "zip archive") -> dict[str, bytes]:
    """The files of a zip archive whose names are wanted, by name."""
    with _opening(path, what), ZipFile(path) as archive:
        members = sorted((one for one in archive.infolist() if wanted(one.filename)), key=lambda one: one.filename)
        if sum(member.file_size for member in members) > unpacked_limit(path):
            raise too_large(path, CorpusError)
        return {member.filename: archive.read(member) for member in members}


def unpacked(path: Path, what: str) -> bytes:
    """The content of a file, itself or packed by gzip, bzip2 or xz."""
    parts: list[bytes] = []
    with _opening(path, what):
        with open(path, "rb") as stream:
            start = stream.read(6)
        opener = next((opener for magic, opener in _PACKED.items() if start.startswith(magic)), open)
        with opener(path, "rb") as stream:
            while part := stream.read(_PART):
                parts.append(part)
                if len(parts) * _PART > unpacked_limit(path):
                    raise too_large(path, CorpusError)
    return b"".join(parts)


@contextmanager
def _opening(path: Path, what: str) -> Iterator[None]:
    check_file(path, CorpusError)
    try:
        yield
    except _DAMAGED as error:
        raise CorpusError(
            f"{path}: not a whole {what} ({error or type(error).__name__})",
            fix="get the file again, and compare its size with the source's",
        ) from None
