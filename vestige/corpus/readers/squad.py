"""SQuAD 1.1 and 2.0: a question, a context, and the stretches of the context that answer it."""

import re
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any, NamedTuple

from vestige.corpus.readers.records import as_kind, field, parse_json
from vestige.corpus.readers.text import read_lines
from vestige.corpus.types import Sentence, Span
from vestige.errors import CorpusError


class _Context(NamedTuple):
    """A paragraph with the characters at which its words start and end."""

    text: str
    words: tuple[str, ...]
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> "_Context":
        found = [(match.group(), *match.span()) for match in re.finditer(r"\S+", text)]
        return cls(text, tuple(w for w, _, _ in found), [s for _, s, _ in found], [e for _, _, e in found])


def read_squad(path: str | Path) -> list[Sentence]:
    """Questions, each with its context as second segment; words are those between white space.

    "answer" holds a Span, counted over both segments, for every gold answer that differs: the
    smallest stretch of words that covers the answer's characters, which may be a little more
    than the answer ("2016," for "2016"). A question of SQuAD 2.0 that has no answer has no Span.
    For the official scores "answer_texts" and "answer_starts" keep the answers as they were
    given, "question" and "context" the texts.
    """
    path = Path(path)
    text = "\n".join(read_lines(path))
    root = as_kind(f"{path}:1", "the file", parse_json(text, path), dict)
    sentences: list[Sentence] = []
    line, position = 1, 0
    for number, article in enumerate(field(f"{path}:1", root, "data", list), start=1):
        near = f"{path}:{line} or later (article {number})"
        for paragraph in field(near, as_kind(near, "an article", article, dict), "paragraphs", list):
            context = _Context.of(field(near, as_kind(near, "a paragraph", paragraph, dict), "context", str))
            for question in field(near, paragraph, "qas", list):
                id_ = field(near, as_kind(near, "a question", question, dict), "id", str)
                here = max(position, text.find(f'"{id_}"', position))
                line, position = line + text.count("\n", position, here), here
                sentences.append(_sentence(f"{path}:{line}", id_, question, context))
    return sentences


def _sentence(source: str, id_: str, record: dict[str, Any], context: _Context) -> Sentence:
    where = f"{source}: question {id_}"
    question = field(where, record, "question", str)
    words = tuple(question.split())
    answers = [] if record.get("is_impossible") else _answers(where, record)
    spans = [_covering(where, context, start, text, len(words)) for start, text in answers]
    annotations = {
        "answer": tuple(dict.fromkeys(spans)),
        "answer_texts": tuple(text for _, text in answers),
        "answer_starts": tuple(start for start, _ in answers),
        "question": question,
        "context": context.text,
    }
    return Sentence(id_, words, context.words, annotations, source)


def _answers(where: str, record: dict[str, Any]) -> list[tuple[int, str]]:
    answers = field(where, record, "answers", list)
    if not answers:
        raise CorpusError(
            f"{where} has no answer, and no `is_impossible` says that there is none",
            fix="answer it, mark it as SQuAD 2.0 does, or remove it",
        )
    return [
        (field(where, answer, "answer_start", int), field(where, answer, "text", str))
        for answer in (as_kind(where, "an answer", answer, dict) for answer in answers)
    ]


def _covering(where: str, context: _Context, start: int, text: str, offset: int) -> Span:
    end = start + len(text)
    found = context.text[max(start, 0) : end]
    if found != text:
        raise CorpusError(
            f"{where}: expected the answer {text!r} at character {start} of the context, found {found!r}",
            fix="repair `answer_start`: it counts the characters of the context from 0",
        )
    if not text.strip():
        raise CorpusError(f"{where}: the answer {text!r} holds no word", fix="repair or remove it")
    first, last = bisect_right(context.ends, start), bisect_left(context.starts, end)
    return Span(offset + first, offset + last, ("answer",))
