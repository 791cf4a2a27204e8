"""Every corpus format: which function reads it and what its labels are attached to."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple, get_type_hints

from vestige.corpus.options import check_options, check_value
from vestige.corpus.types import Level, Sentence, Span, SpanPair
from vestige.errors import CorpusError

Levels = Mapping[str, Level]
Splits = Mapping[str, Sequence[Sentence]]


class Format(NamedTuple):
    """How to read one format.

    `reader` is "module:function" in `vestige.corpus.readers`, imported when first used. It takes a
    path (or the list of paths that make one split) and options, and returns the sentences of a
    split; if `whole`, it takes one path that holds every split and returns them by split.
    """

    reader: str
    levels: Levels | Callable[..., Levels]
    """By task, or a function of the splits that were read and the options."""
    whole: bool = False

    def read(self, source: Any, **options: Any) -> Any:
        """What the reader returns."""
        module, _, function = self.reader.partition(":")
        reader = getattr(import_module(f"vestige.corpus.readers.{module}"), function)
        check_options(f"the reader of {module}", reader, options)
        check_value(f"what the reader of {module} is to read", next(iter(get_type_hints(reader).values())), source)
        return reader(source, **options)

    def levels_of(self, splits: Splits, **options: Any) -> dict[str, Level]:
        """Task name -> level."""
        return dict(self.levels(splits, **options) if callable(self.levels) else self.levels)


def _token(splits: Splits, *, columns: Mapping[str, int], **_: Any) -> Levels:
    return dict.fromkeys(columns, "token")


def _token_task(splits: Splits, *, task: str = "label", **_: Any) -> Levels:
    return {task: "token"}


def _sentence_task(splits: Splits, *, task: str = "label", second: Any = None, **_: Any) -> Levels:
    return {task: "sentence" if second is None else "sentence_pair"}


def _as_found(splits: Splits, **_: Any) -> Levels:
    """Levels by the shape of the annotations, for formats whose files decide it."""
    levels: dict[str, Level] = {}
    for sentences in splits.values():
        for sentence in sentences:
            for task, value in sentence.annotations.items():
                level = _level_of(sentence, value)
                if level is not None and levels.setdefault(task, level) != level:
                    raise CorpusError(
                        f"{sentence.source or sentence.id}: {task!r} is at level {level!r} here and at level "
                        f"{levels[task]!r} before",
                        fix="files of one corpus must label the same kind of thing",
                    )
    return levels


def _level_of(sentence: Sentence, value: Any) -> Level | None:
    if isinstance(value, str | int | float):
        return "sentence_pair" if sentence.second else "sentence"
    if isinstance(value, tuple) and value:
        if isinstance(value[0], Span):
            return "span"
        if isinstance(value[0], SpanPair):
            return "span_pair"
        if len(value) == len(sentence.words) + len(sentence.second) and isinstance(value[0], str):
            return "token"
    return None


def _hub(
    splits: Splits, *, label: str | None = None, task: str | None = None, level: Level | None = None, **_: Any
) -> Levels:
    if label is None:
        return {"text": "text"}
    levels = {task or label: level} if level else _as_found(splits)
    if (task or label) not in levels:
        raise CorpusError(
            f"the column {label!r} labels neither sentences nor their words",
            fix="name a column with one label a sentence, or a list with one a word",
        )
    return levels


TREEBANK: Levels = {"upos": "token", "xpos": "token", "deprel": "token", "lemma": "token", "head": "tree"}

FORMATS: dict[str, Format] = {
    "conllu": Format("conllu:read_conllu", TREEBANK),
    "conll2000": Format("columns:read_conll2000", {"pos": "token", "chunk": "token"}),
    "pmb": Format("columns:read_pmb", {"semtag": "token", "ccg": "token"}),
    "ccgbank": Format("ccgbank:read_ccgbank", {"ccg": "token", "pos": "token"}),
    "columns": Format("columns:read_columns", _token),
    "parallel": Format("parallel:read_parallel", _token_task),
    "tsv": Format("tsv:read_tsv", _sentence_task),
    "glue": Format("glue:read_glue", _as_found),
    "senteval": Format("senteval:read_senteval", _sentence_task, whole=True),
    "squad": Format("squad:read_squad", {"answer": "span"}),
    "blimp": Format("blimp:read_blimp", {"acceptability": "sentence"}, whole=True),
    "edges": Format("edges:read_edges", _as_found),
    "semeval2010": Format("semeval2010:read_semeval2010", {"relation": "span_pair"}),
    "brackets": Format("brackets:read_brackets", {"pos": "token", "constituent": "span"}),
    "gum": Format(
        "gum:read_gum", {**TREEBANK, "constituent": "span", "entity": "span", "coref": "span_pair"}, whole=True
    ),
    "protoroles": Format("protoroles:read_protoroles", {"protoroles": "span_pair"}, whole=True),
    "text": Format("raw:read_text", {"text": "text"}),
    "hub": Format("hub:read_hub", _hub, whole=True),
}


def find_format(name: str) -> Format:
    """The format called `name`."""
    if not isinstance(name, str) or name not in FORMATS:
        near = get_close_matches(str(name), FORMATS, n=1)
        raise CorpusError(
            f"unknown corpus format {name!r}; known: {', '.join(FORMATS)}",
            fix=f"did you mean {near[0]!r}?" if near else "name one of them",
        )
    return FORMATS[name]
