"""The text files of a corpus, alike from its folder and from a tar archive of it."""

import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vestige.corpus.readers.text import decode_lines
from vestige.errors import CorpusError


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
        return Files(root, {name: file.read_bytes() for file, name in names if re.fullmatch(wanted, name)})
    if not path.exists():
        raise CorpusError(f"{path}: no such file or folder", fix="check the path")
    pattern = re.compile(rf"(?:.*/)?({wanted})")
    contents = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                match = pattern.fullmatch(member.name)
                content = archive.extractfile(member) if match and member.isfile() else None
                if match and content:
                    contents[match[1]] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise CorpusError(
            f"{path}: not a whole tar archive ({error})",
            fix="get the file again, and compare its size with the source's",
        ) from None
    return Files(path, contents)
