"""Tab-separated files with one sentence and one label a row, as GLUE's single-sentence tasks have."""

from pathlib import Path

from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Sentence, stable_ids
from vestige.errors import CorpusError

Column = str | int
"""A header's name, or a 0-based number in a file without a header."""


def read_tsv(
    path: str | Path, *, sentence: Column = "sentence", label: Column = "label", task: str = "label"
) -> list[Sentence]:
    """Sentences, split into words at white space, with one label each."""
    path = Path(path)
    lines = read_lines(path)
    named = isinstance(sentence, str) or isinstance(label, str)
    header = lines[0].split("\t") if named else []
    at_sentence, at_label = _position(path, header, sentence), _position(path, header, label)
    rows = []
    for number, line in enumerate(lines[named:], start=1 + named):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) <= max(at_sentence, at_label):
            raise CorpusError(
                f"{path}:{number}: expected at least {max(at_sentence, at_label) + 1} tab-separated "
                f"columns, found {len(fields)}",
                fix="check the separator and the column names or numbers",
            )
        words = tuple(fields[at_sentence].split())
        if not words:
            raise CorpusError(f"{path}:{number}: an empty sentence", fix="remove the row")
        rows.append((f"{path}:{number}", words, fields[at_label].strip()))
    ids = stable_ids(" ".join(words) for _, words, _ in rows)
    return [
        Sentence(id=id_, words=words, annotations={task: value}, source=source)
        for id_, (source, words, value) in zip(ids, rows, strict=True)
    ]


def _position(path: Path, header: list[str], column: Column) -> int:
    if isinstance(column, int):
        return column
    if column not in header:
        raise CorpusError(
            f"{path}: no column {column!r} in its header {header}",
            fix="name one of these, or give 0-based column numbers for a file without a header",
        )
    return header.index(column)
