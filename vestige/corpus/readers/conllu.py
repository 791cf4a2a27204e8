"""CoNLL-U treebanks, through the `conllu` package.

Multiword ranges (`3-4`) and empty nodes (`5.1`) are not words of the tree and are left out whole:
keeping them as words and shifting heads breaks every sentence that has one.
"""

from collections.abc import Container
from pathlib import Path

import conllu

from vestige.corpus.readers.text import blocks, read_lines
from vestige.corpus.types import Sentence, with_ids
from vestige.errors import CorpusError

_FIELD_PARSERS = dict.fromkeys(("xpos", "feats", "deps", "misc"), lambda row, column: row[column])
"""Columns that are kept as they are written."""


def read_conllu(path: str | Path) -> list[Sentence]:
    """Sentences with upos, xpos, deprel, lemma, feats (per word) and head (0 = root)."""
    path = Path(path)
    return parse_conllu(read_lines(path), path)


def parse_conllu(lines: list[str], path: Path, *, ids: Container[str] | None = None) -> list[Sentence]:
    """The same from the lines of a file already read; of `ids`, if given, alone."""
    return with_ids(
        _parse_block(path, line, block)
        for line, block in blocks(lines)
        if not all(row.startswith("#") for row in block) and (ids is None or _sentence_id(block) in ids)
    )


def _sentence_id(block: list[str]) -> str:
    comments = (row[1:].partition("=") for row in block if row.startswith("#"))
    return next((value.strip() for key, _, value in comments if key.strip() == "sent_id"), "")


def _parse_block(path: Path, line: int, block: list[str]) -> Sentence:
    for offset, row in enumerate(block):
        if not row.startswith("#") and row.count("\t") != 9:
            raise CorpusError(
                f"{path}:{line + offset}: expected 10 tab-separated columns, found {row.count(chr(9)) + 1}",
                fix="check that the file is CoNLL-U and that its tabs were not turned into spaces",
            )
    try:
        tree = conllu.parse("\n".join(block) + "\n\n", field_parsers=_FIELD_PARSERS)[0]
    except (conllu.exceptions.ParseException, ValueError) as error:
        raise CorpusError(f"{path}:{line}: {error}", fix="repair the sentence that starts there") from None
    words = [token for token in tree if isinstance(token["id"], int)]
    if not words:
        raise CorpusError(f"{path}:{line}: a sentence without words", fix="remove it")
    if [token["id"] for token in words] != list(range(1, len(words) + 1)):
        raise CorpusError(f"{path}:{line}: word ids do not count 1, 2, 3, ...", fix="renumber the sentence")
    for token in words:
        if token["head"] is not None and not 0 <= token["head"] <= len(words):
            raise CorpusError(
                f"{path}:{line}: word {token['id']} has head {token['head']}, but there are {len(words)} words",
                fix="repair the sentence that starts there",
            )
    columns = ("upos", "xpos", "deprel", "lemma", "feats")
    annotations = {column: tuple(token[column] or "_" for token in words) for column in columns}
    annotations["head"] = tuple(-1 if token["head"] is None else token["head"] for token in words)
    forms = tuple(token["form"] for token in words)
    return Sentence(tree.metadata.get("sent_id", ""), forms, annotations=annotations, source=f"{path}:{line}")
