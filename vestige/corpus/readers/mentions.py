"""Mentions of entities in CoNLL's brackets: `(person-1` at a first word, `person-1)` at a last one.

A line is `number, word, marks`, with tabs between; a word may carry several marks, `(event-2(place-3-Rome)`,
or none, `_`. What follows the number names the entity in an encyclopedia and plays no role here.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vestige.corpus.types import SpanPair
from vestige.errors import CorpusError

_MARK = re.compile(
    r"\((?P<type>[^()-]+)-(?P<entity>\d+)[^()]*(?P<ends>\))?|(?P<ended_type>[^()-]+)-(?P<ended>\d+)[^()]*\)"
)
_ONE_RELEASE = "read all layers from one release of the corpus"


class Mention(NamedTuple):
    """A stretch of words, half-open, that speaks of an entity."""

    start: int
    end: int
    type: str
    entity: str

    @property
    def span(self) -> tuple[int, int]:
        """Without what it speaks of."""
        return self.start, self.end


def read_mentions(lines: Iterable[str], where: Path, words: Sequence[str]) -> list[Mention]:
    """The mentions of a document by their starts, the longer first; the file's words have to be `words`."""
    opened: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    mentions = []
    at = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("# "):
            continue
        for key, starts, ends in _marks(_cell(line, f"{where}:{number}", words, at), f"{where}:{number}"):
            if starts:
                opened[key].append((at, number))
            if ends and not opened[key]:
                raise CorpusError(f"{where}:{number}: {'-'.join(key)} ends but did not begin", fix="repair the mention")
            if ends:
                mentions.append(Mention(opened[key].pop()[0], at + 1, *key))
        at += 1
    for key, places in opened.items():
        if places:
            raise CorpusError(
                f"{where}:{places[0][1]}: {'-'.join(key)} begins but does not end", fix="repair the mention"
            )
    if at < len(words):
        raise CorpusError(f"{where}: {at} words where the dependencies have {len(words)}", fix=_ONE_RELEASE)
    return sorted(mentions, key=lambda mention: (mention.start, -mention.end))


def mention_pairs(mentions: Sequence[Mention]) -> tuple[SpanPair, ...]:
    """Every pair of mentions, "1" where both speak of one entity, else "0"."""
    return tuple(
        SpanPair(first.span, second.span, ("1" if first.entity == second.entity else "0",))
        for number, first in enumerate(mentions)
        for second in mentions[number + 1 :]
    )


def _cell(line: str, where: str, words: Sequence[str], at: int) -> str:
    """The marks of the line of word `at`."""
    fields = line.split("\t")
    if len(fields) != 3:
        raise CorpusError(f"{where}: expected 3 tab-separated columns, found {len(fields)}", fix=_ONE_RELEASE)
    if at == len(words) or fields[1] != words[at]:
        expected = repr(words[at]) if at < len(words) else "no further word"
        raise CorpusError(f"{where}: {fields[1]!r} where the dependencies have {expected}", fix=_ONE_RELEASE)
    return fields[2].strip()


def _marks(cell: str, where: str) -> list[tuple[tuple[str, str], bool, bool]]:
    """What begins or ends at a word: (type, entity), begins, ends."""
    if cell == "_":
        return []
    found = list(_MARK.finditer(cell))
    if "".join(mark[0] for mark in found) != cell:
        raise CorpusError(f"{where}: cannot read the mentions {cell!r}", fix="write (type-number and type-number)")
    return [
        ((mark["type"], mark["entity"]), True, mark["ends"] is not None)
        if mark["type"]
        else ((mark["ended_type"], mark["ended"]), False, True)
        for mark in found
    ]
