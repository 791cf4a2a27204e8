"""Reading text files so that every later complaint can name a file and a line."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from vestige.errors import CorpusError
from vestige.files import read_file


def files_below(path: str | Path | Sequence[str | Path], suffixes: Iterable[str]) -> Iterator[Path]:
    """The files given, and of folders all files with one of the suffixes, by name."""
    for given in [Path(path)] if isinstance(path, str | Path) else map(Path, path):
        if not given.is_dir():
            yield given
            continue
        files = sorted(file for file in given.rglob("*") if file.suffix.lower() in suffixes)
        if not files:
            raise CorpusError(
                f"{given}: no file that ends in {', '.join(sorted(suffixes))}",
                fix="name the files, or say suffixes=[...]",
            )
        yield from files


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without their ends; Windows line ends and a BOM are accepted."""
    return decode_lines(read_file(path, CorpusError), path)


def decode_lines(raw: bytes, where: Path) -> list[str]:
    """The lines of UTF-8 bytes; `where` is what a complaint calls them."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise CorpusError(
            f"{where}:{line}: not UTF-8 (byte 0x{raw[error.start]:02x} at offset {error.start})",
            fix=f"convert it first, for example: iconv -f latin1 -t utf-8 {quote(where.name)}",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Stretches of non-blank lines, each with the (1-based) number of its first line."""
    start = 0
    block: list[str] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            if not block:
                start = number
            block.append(line)
        elif block:
            yield start, block
            block = []
    if block:
        yield start, block
