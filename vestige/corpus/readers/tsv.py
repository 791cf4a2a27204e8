"""Tab-separated files: one sentence (or pair of sentences) and one label a row, no quoting.

Quotation marks are text: public files of this kind hold stray ones, which a CSV reader would take
for the start of a field that runs over many lines.
"""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from vestige.corpus.readers.notes import Noted
from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Sentence, with_ids
from vestige.errors import CorpusError

Column = str | int
"""A header's name, or a 0-based number in a file without a header."""

Words = tuple[str, ...]


def read_tsv(
    path: str | Path,
    *,
    sentence: Column = "sentence",
    label: Column = "label",
    task: str = "label",
    second: Column | None = None,
    numeric: bool = False,
    skip_labels: Sequence[str] = (),
    skip_broken: bool = False,
) -> Noted:
    """Sentences or pairs (`second`), split into words at white space, with one label each.

    `numeric` labels become floats. Rows whose label is in `skip_labels` are left out, and so, if
    `skip_broken`, are those that would else be an error; both are counted in the notes.
    """
    path = Path(path)
    lines = table_lines(path)
    columns = [column for column in (label, sentence, second) if column is not None]
    named = any(isinstance(column, str) for column in columns)
    header = [name.strip() for name in lines[0].split("\t")] if named else []
    positions = [_position(path, header, column) for column in columns]
    rows, skipped, broken = [], 0, 0
    for number, line in enumerate(lines[named:], start=1 + named):
        if not line.strip():
            continue
        source = f"{path}:{number}"
        try:
            value, words, others = _cells(source, line.split("\t"), positions, len(header))
            if value in skip_labels:
                skipped += 1
            else:
                annotations = {task: _number(source, value) if numeric else _text(source, value)}
                rows.append(Sentence("", words, others, annotations, source))
        except CorpusError:
            if not skip_broken:
                raise
            broken += 1
    if not rows and not skipped and not broken:
        raise CorpusError(f"{path}: a header and no rows", fix="check the path and that the file is whole")
    notes = [f"{path}: {skipped} rows labelled {' or '.join(skip_labels)} left out"] if skipped else []
    return Noted(with_ids(rows), [*notes, *([f"{path}: {broken} broken rows left out"] if broken else [])])


def table_lines(path: Path) -> list[str]:
    """The lines of a file that has some."""
    lines = read_lines(path)
    if not any(line.strip() for line in lines):
        raise CorpusError(f"{path}: the file is empty", fix="check the path and that the file is whole")
    return lines


def _cells(source: str, fields: list[str], positions: list[int], names: int) -> tuple[str, Words, Words]:
    """The label, the words of the sentence, and those of the second one where there are two.

    A row below a header has a cell for each of its `names`: one more or less may have moved the label.
    """
    needed = max(positions) + 1
    if len(fields) < needed:
        raise CorpusError(
            f"{source}: expected at least {needed} tab-separated columns, found {len(fields)}",
            fix="check the separator and the column names or numbers",
        )
    if names and len(fields) != names:
        raise CorpusError(
            f"{source}: expected {names} tab-separated columns as in the header, found {len(fields)}",
            fix="remove stray tabs from the row, or add its missing cells",
        )
    label, *texts = (fields[position] for position in positions)
    segments = [tuple(text.split()) for text in texts]
    if not all(segments):
        raise CorpusError(f"{source}: an empty sentence", fix="remove the row")
    return label.strip(), segments[0], segments[1] if len(segments) > 1 else ()


def _text(source: str, value: str) -> str:
    if not value:
        raise CorpusError(f"{source}: an empty label", fix="label the row, or remove it")
    return value


def _number(source: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise CorpusError(
            f"{source}: expected a number as label, found {value!r}",
            fix="check the label's column, or read the labels as text (numeric=False)",
        )
    return number


def _position(path: Path, header: list[str], column: Column) -> int:
    if isinstance(column, int):
        if column < 0:
            raise CorpusError(f"{path}: column {column}", fix="columns are counted from 0")
        return column
    if column not in header:
        raise CorpusError(
            f"{path}:1: no column {column!r} in its header {header}",
            fix="name one of these, or give 0-based column numbers for a file without a header",
        )
    return header.index(column)
