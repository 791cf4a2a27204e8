"""CCGbank's derivations (`.auto` files): the category and the tag of every word."""

import re
from collections.abc import Sequence
from pathlib import Path

from vestige.corpus.readers.text import files_below, read_lines
from vestige.corpus.types import Sentence, with_ids
from vestige.errors import CorpusError

_ID = re.compile(r"ID=(\S+)")
_LEAF = re.compile(r"\(<L (\S+) (\S+) \S+ (\S+) \S+>\)")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}"}


def read_ccgbank(path: str | Path | Sequence[str | Path], *, suffixes: Sequence[str] = (".auto",)) -> list[Sentence]:
    """Sentences from files, or from folders of them (a section); ids are CCGbank's own (wsj_0001.1)."""
    found = []
    for file in files_below(path, suffixes):
        given = ""
        for number, line in enumerate(read_lines(file), start=1):
            if line.startswith("ID="):
                match = _ID.match(line)
                given = match[1] if match else ""
            elif line.strip():
                words, categories, tags = zip(*_leaves(line, file, number), strict=True)
                annotations = {"ccg": categories, "pos": tags}
                found.append(Sentence(given, words, annotations=annotations, source=f"{file}:{number}"))
                given = ""
    return with_ids(found)


def _leaves(line: str, file: Path, number: int) -> list[tuple[str, str, str]]:
    """(word, category, tag) of every leaf of a derivation."""
    leaves = _LEAF.findall(line)
    if not leaves or len(leaves) != line.count("(<L "):
        raise CorpusError(
            f"{file}:{number}: expected a derivation with leaves (<L category tag tag word category>), "
            f"found {line[:60]!r}",
            fix="check that the file is one of CCGbank's .auto files and whole",
        )
    return [(_BRACKETS.get(word, word), category, tag) for category, tag, word in leaves]
