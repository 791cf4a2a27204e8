"""Column files: a word a line, a blank line between sentences (CoNLL-2000, PMB, and their kin)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen

from vestige.corpus.readers.text import blocks, read_lines
from vestige.corpus.types import Sentence, with_ids
from vestige.errors import CorpusError


def read_columns(
    path: str | Path,
    columns: Mapping[str, int],
    *,
    word: int = 0,
    separator: Annotated[str, MinLen(1)] | None = None,
    comment: str = "",
    split_words: str = "",
) -> list[Sentence]:
    """Sentences from chosen columns.

    `columns` maps task names to column numbers (0-based; negative ones count from the end).
    `separator` None means any white space. Lines that start with `comment` are skipped.
    Words holding one of the characters of `split_words` (PMB writes `New~York` or `New York`)
    become several words, the labels repeated.
    """
    path = Path(path)
    found = []
    for start, block in blocks(read_lines(path)):
        words: list[str] = []
        labels: dict[str, list[str]] = {task: [] for task in columns}
        for offset, row in enumerate(block):
            if comment and row.startswith(comment):
                continue
            fields = row.split(separator)
            needed = max(_width(column) for column in (word, *columns.values()))
            if len(fields) < needed:
                raise CorpusError(
                    f"{path}:{start + offset}: expected at least {needed} columns, found {len(fields)}: {row!r}",
                    fix="check the separator and the column numbers",
                )
            parts = _split(fields[word], split_words)
            words.extend(parts)
            for task, column in columns.items():
                labels[task].extend([fields[column]] * len(parts))
        if words:
            annotations = {task: tuple(row) for task, row in labels.items()}
            found.append(Sentence("", tuple(words), annotations=annotations, source=f"{path}:{start}"))
    return with_ids(found)


def read_conll2000(path: str | Path) -> list[Sentence]:
    """CoNLL-2000: `word pos chunk`."""
    return read_columns(path, {"pos": 1, "chunk": 2})


def read_pmb(path: str | Path) -> list[Sentence]:
    """Parallel Meaning Bank 4 column files: semantic tags and CCG categories."""
    return read_columns(path, {"semtag": 3, "ccg": 4}, separator="\t", comment="#", split_words="~ ")


def _width(column: int) -> int:
    return column + 1 if column >= 0 else -column


def _split(word: str, characters: str) -> list[str]:
    for character in characters:
        word = word.replace(character, "\0")
    return [part for part in word.split("\0") if part] or [word.replace("\0", "_")]
