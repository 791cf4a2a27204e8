"""Parallel files as NeuroX reads them: a sentence a line in one file, its labels a line in another."""

from collections.abc import Sequence
from pathlib import Path

from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Sentence, stable_ids
from vestige.errors import CorpusError


def read_parallel(files: str | Path | Sequence[str | Path], task: str = "label") -> list[Sentence]:
    """Sentences from space-separated words and space-separated labels, line by line."""
    if isinstance(files, str | Path) or len(files) != 2:
        raise CorpusError(
            f"parallel files come in pairs, found {files!r}", fix="give each split as [words file, labels file]"
        )
    words, labels = map(Path, files)
    word_lines, label_lines = (_without_last_blank(read_lines(path)) for path in (words, labels))
    if len(word_lines) != len(label_lines):
        raise CorpusError(
            f"{words} has {len(word_lines)} lines but {labels} has {len(label_lines)}",
            fix="both files need one line per sentence",
        )
    ids = stable_ids(word_lines)
    sentences = []
    for number, (id_, word_line, label_line) in enumerate(zip(ids, word_lines, label_lines, strict=True), start=1):
        tokens, tags = tuple(word_line.split()), tuple(label_line.split())
        if len(tokens) != len(tags):
            raise CorpusError(
                f"{words}:{number} has {len(tokens)} words but {labels}:{number} has {len(tags)} labels",
                fix="give every word exactly one label",
            )
        if tokens:
            sentences.append(Sentence(id=id_, words=tokens, annotations={task: tags}, source=f"{words}:{number}"))
    return sentences


def _without_last_blank(lines: list[str]) -> list[str]:
    return lines[:-1] if lines and not lines[-1].strip() else lines
