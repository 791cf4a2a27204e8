"""SemEval-2010 task 8: relations between two nominals that tags mark inside the sentence.

An entry is `number <TAB> "sentence"`, a line with the relation, a line `Comment:`, a blank line.
"""

import re
from pathlib import Path

from vestige.corpus.readers.text import blocks, read_lines
from vestige.corpus.types import Sentence, SpanPair
from vestige.errors import CorpusError

_ENTRY = re.compile(r'(\d+)\t\s*"(.*)"\s*')
_RELATION = re.compile(r"[\w-]+\((?:e1,e2|e2,e1)\)|Other")
_TAG = re.compile(r"(</?e[12]>)")
_ORDERS = (["<e1>", "</e1>", "<e2>", "</e2>"], ["<e2>", "</e2>", "<e1>", "</e1>"])


def read_semeval2010(path: str | Path) -> list[Sentence]:
    """Sentences by their number, with one SpanPair (e1, e2) each; labels keep the direction.

    Words end at white space and where an entity starts or ends, so that entities are whole words:
    `<e2>elements</e2>.` is two words and `non-<e1>user</e1>` too. Nothing else is split.
    """
    path = Path(path)
    return [_sentence(f"{path}:{line}", f"{path}:{line + 1}", block) for line, block in blocks(read_lines(path))]


def _sentence(source: str, below: str, block: list[str]) -> Sentence:
    entry = _ENTRY.fullmatch(block[0])
    if entry is None:
        raise CorpusError(
            f"{source}: expected a number, a tab and a sentence in quotation marks, found {block[0]!r:.80}",
            fix="check that the file is SemEval-2010 task 8's, with a blank line between entries",
        )
    relation = block[1].strip() if len(block) > 1 else ""
    if not _RELATION.fullmatch(relation):
        raise CorpusError(
            f"{below}: expected a relation such as Cause-Effect(e1,e2), or Other, found {relation!r:.80}",
            fix="take the file with answers (TRAIN_FILE.TXT, TEST_FILE_FULL.TXT)",
        )
    if len(block) > 3 or (len(block) == 3 and not block[2].startswith("Comment")):
        raise CorpusError(
            f"{source}: expected an entry of three lines (sentence, relation, comment), found {len(block)}: "
            f"{block[2]!r:.80}",
            fix="put a blank line between entries",
        )
    words, first, second = _words(source, entry[2])
    return Sentence(entry[1], words, annotations={"relation": (SpanPair(first, second, (relation,)),)}, source=source)


def _words(source: str, text: str) -> tuple[tuple[str, ...], tuple[int, int], tuple[int, int]]:
    """The words, and the stretches of them that are e1 and e2."""
    words: list[str] = []
    at: dict[str, int] = {}
    pieces = _TAG.split(text)
    if pieces[1::2] not in _ORDERS:
        raise CorpusError(
            f"{source}: expected one <e1>...</e1> and one <e2>...</e2>, apart from each other, found "
            f"{' '.join(pieces[1::2]) or 'no tags'}",
            fix="repair the tags of the sentence",
        )
    for piece in pieces:
        if _TAG.fullmatch(piece):
            at[piece] = len(words)
        else:
            words.extend(piece.split())
    spans = [(at[f"<{entity}>"], at[f"</{entity}>"]) for entity in ("e1", "e2")]
    for entity, (start, end) in zip(("e1", "e2"), spans, strict=True):
        if start == end:
            raise CorpusError(f"{source}: {entity} holds no word", fix="repair the tags of the sentence")
    return tuple(words), spans[0], spans[1]
