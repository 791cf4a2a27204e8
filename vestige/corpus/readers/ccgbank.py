"""CCGbank's derivations (`.auto` files): the category and the tag of every word."""

import re
from collections.abc import Sequence
from pathlib import Path

from vestige.corpus.readers.text import files_below, read_lines
from vestige.corpus.types import Sentence, stable_ids
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
                found.append((f"{file}:{number}", given, _leaves(line, file, number)))
                given = ""
    made = stable_ids(" ".join(word for word, _, _ in leaves) for _, _, leaves in found)
    return [
        Sentence(
            id=given or id_,
            words=tuple(word for word, _, _ in leaves),
            annotations={"ccg": tuple(c for _, c, _ in leaves), "pos": tuple(tag for _, _, tag in leaves)},
            source=source,
        )
        for id_, (source, given, leaves) in zip(made, found, strict=True)
    ]


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
