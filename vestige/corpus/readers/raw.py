"""Raw text without labels, for perplexity, language modelling and tasks made from text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from vestige.corpus.readers.text import blocks, read_lines
from vestige.corpus.types import Sentence, with_ids
from vestige.errors import CorpusError

Unit = Literal["line", "paragraph"]


def read_text(path: str | Path, unit: Unit = "line") -> list[Sentence]:
    """A Sentence for every line that is not blank, or for every paragraph: the lines up to a blank one.

    Words are what white space separates; headings such as WikiText's ` = Title = ` are lines like others.
    """
    path = Path(path)
    found = _units(read_lines(path), unit)
    return with_ids(Sentence("", tuple(text.split()), source=f"{path}:{line}") for line, text in found)


def _units(lines: list[str], unit: Unit) -> Iterator[tuple[int, str]]:
    if unit == "line":
        return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    if unit == "paragraph":
        return ((start, " ".join(block)) for start, block in blocks(lines))
    raise CorpusError(f"unknown unit {unit!r} of text; known: line, paragraph", fix="name one of them")
