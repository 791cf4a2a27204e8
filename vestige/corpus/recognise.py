"""The format of a file by its content: a treebank, a word and a tag a line, or sentences with labels."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vestige.corpus.formats import FORMATS
from vestige.corpus.readers.text import read_lines
from vestige.errors import CorpusError

SUFFIXES = (".conllu", ".tsv", ".conll", ".bio", ".txt")
"""Of files that are looked into; of a folder that has several kinds, the first is read."""

TAG = "tag"
"""The task of a file with a word and a tag a line, unless its header says otherwise."""

_WORD_HEADERS = {"word", "words", "token", "tokens", "form"}
_TAG_HEADERS = {"tag", "tags", "label", "labels", "pos", "upos", "xpos", "ner", "chunk"}
_LOOKED_AT = 1000
"""So many lines tell what a file is."""


def recognise(files: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The format of a corpus, and the options of its reader, from the first of its files."""
    paths = [Path(path) for path in files.values() if isinstance(path, str | Path)]
    suffixes = {path.suffix.lower() for path in paths}
    if suffixes == {".conllu"}:
        return "conllu", {}
    if len(paths) == len(files) and suffixes <= {*SUFFIXES}:
        lines = read_lines(paths[0])[:_LOOKED_AT]
        rows = [line for line in lines if line.strip() and not line.startswith("# ")]
        found = rows and (_treebank(rows) or _labelled_sentences(rows) or _tagged_words(lines, rows, paths[0]))
        if found:
            return found
        if suffixes == {".tsv"}:
            return "tsv", {}
    raise CorpusError(
        f"cannot tell the format of {', '.join(map(str, files.values()))}: neither CoNLL-U, nor a header with "
        "sentence and label, nor a word and a tag a line with a blank line after every sentence",
        fix="name the format, and the options of its reader where it has some: --format text, or --format columns "
        f"--option 'columns={{ner: 3}}' (in Python format=... and keywords); formats: {', '.join(FORMATS)}",
    )


def _treebank(rows: list[str]) -> tuple[str, dict[str, Any]] | None:
    fields = [row.split("\t") for row in rows if not row.startswith("#")]
    whole = all(len(row) == 10 and re.fullmatch(r"\d+([-.]\d+)?", row[0]) for row in fields)
    return ("conllu", {}) if fields and whole else None


def _labelled_sentences(rows: list[str]) -> tuple[str, dict[str, Any]] | None:
    header = {name.strip() for name in rows[0].split("\t")}
    return ("tsv", {}) if {"sentence", "label"} <= header else None


def _tagged_words(lines: list[str], rows: list[str], path: Path) -> tuple[str, dict[str, Any]] | None:
    """Two columns, with blank lines between sentences; of more columns somebody must say which holds the labels."""
    blank = [not line.strip() for line in lines]
    if not any(blank[blank.index(False) : len(blank) - blank[::-1].index(False)]):
        return None
    separator = "\t" if all("\t" in row for row in rows) else None
    widths = {len(row.split(separator)) for row in rows}
    if len(widths) != 1 or any(" " in row.split(separator)[0].strip() for row in rows):
        return None
    width = widths.pop()
    if width > 2:
        raise CorpusError(
            f"{path}: {width} columns, and nothing says which of them hold labels",
            fix=f"--format columns --option 'columns={{tag: {width - 1}}}' takes the last one (columns count from 0)",
        )
    if width < 2:
        return None
    header = [field.strip() for field in rows[0].split(separator)]
    named = header[0].lower() in _WORD_HEADERS and header[1].lower() in _TAG_HEADERS
    comment = rows[0] if named else "# "
    return "columns", {"columns": {header[1] if named else TAG: 1}, "separator": separator, "comment": comment}
