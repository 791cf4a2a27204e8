"""Edge-probing JSON lines: `{"text": ..., "targets": [{"span1": [s, e], "span2": [s, e], "label": ...}]}`."""

from pathlib import Path
from typing import Any

from vestige.corpus.readers.notes import Noted
from vestige.corpus.readers.records import as_kind, field, read_records
from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Sentence, Span, SpanPair, with_ids
from vestige.errors import CorpusError


def read_edges(path: str | Path, task: str = "edge") -> Noted:
    """Sentences with a Span per target, or a SpanPair where targets have a `span2`.

    Spans are half-open and count the words of the text between white space. A label is one name
    or a list of them, of which there may be none; whole numbers become text. Records without
    targets ask nothing: they are left out and counted in the notes.
    """
    path = Path(path)
    found: list[Sentence] = []
    shapes: set[type] = set()
    kinds: set[type] = set()
    without = 0
    for source, record in read_records(read_lines(path), path):
        if not record.get("targets"):
            without += 1
            continue
        words = tuple(field(source, record, "text", str).split())
        targets = [as_kind(source, "a target", target, dict) for target in field(source, record, "targets", list)]
        labels = [_labels(source, target) for target in targets]
        items = tuple(_item(source, *pair, len(words)) for pair in zip(targets, labels, strict=True))
        shapes |= {type(item) for item in items}
        kinds |= {type(label) for given in labels for label in given}
        if len(shapes) > 1:
            raise CorpusError(
                f"{source}: targets of one span and of two are mixed", fix="keep the two tasks in files of their own"
            )
        if len(kinds) > 1:
            raise CorpusError(f"{source}: labels mix text and numbers", fix="write all labels the same way")
        found.append(Sentence("", words, annotations={task: items}, source=source))
    return Noted(with_ids(found), [f"{path}: {without} records without targets left out"] if without else [])


def _item(source: str, target: dict[str, Any], given: list[str | int], words: int) -> Span | SpanPair:
    labels = tuple(map(str, given))
    first = _span(source, target, "span1", words)
    if "span2" in target:
        return SpanPair(first, _span(source, target, "span2", words), labels)
    return Span(*first, labels)


def _span(source: str, target: dict[str, Any], name: str, words: int) -> tuple[int, int]:
    ends = field(source, target, name, list)
    if len(ends) != 2 or not all(type(end) is int for end in ends):
        raise CorpusError(f"{source}: expected {name!r} as [start, end], found {ends!r}", fix="repair the target")
    start, end = ends
    if not 0 <= start < end <= words:
        problem = "an empty span" if start == end else "a span outside the text"
        raise CorpusError(
            f"{source}: {name!r} is {problem}, [{start}, {end}) of {words} words",
            fix="spans are half-open and count words from 0; repair or remove the target",
        )
    return start, end


def _labels(source: str, target: dict[str, Any]) -> list[str | int]:
    given = field(source, target, "label", str, int, list)
    return [as_kind(source, "a label", label, str, int) for label in (given if isinstance(given, list) else [given])]
