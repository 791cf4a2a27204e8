"""GUM, the Georgetown University Multilayer corpus: dependencies, constituents, entities and coreference.

The layers lie in files of their own, one a document (`dep/`, `const/`, `coref/gum/conll/`), and are
brought together over the same words. They have to agree word by word and sentence by sentence, as
they do in the published corpus; where they do not, the error names both places.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vestige.corpus.readers.archive import Files, open_files
from vestige.corpus.readers.brackets import constituents, parse_trees
from vestige.corpus.readers.conllu import parse_conllu
from vestige.corpus.readers.mentions import Mention, mention_pairs, read_mentions
from vestige.corpus.readers.notes import Noted
from vestige.corpus.types import SPLITS, Sentence, Span
from vestige.errors import CorpusError

_ONE_RELEASE = "read all layers from one release of the corpus"
_MASKED = "documents with masked words"
_CROSSING = "mentions that go beyond the end of a sentence"


def read_gum(path: str | Path, *, singletons: bool = False, function_tags: bool = False) -> dict[str, Noted]:
    """The splits of GUM, from its archive or its unpacked folder.

    Documents whose words are masked by underscores (the text of Reddit is not given away) are left out,
    and so is the out-of-domain `test2` of the splits file (GENTLE, a corpus of its own).

    "entity": a span for every mention of an entity, its type the label; mentions may nest. One that goes
    beyond the end of a sentence would be left out and counted; one in several parts is several mentions.

    "coref": every pair of mentions in a sentence, "1" if both speak of the same entity, else "0", as in
    edge probing. Its corpus knows only mentions that corefer with another one of the document, so that
    negative pairs are made of these. GUM also marks entities mentioned once: `singletons` pairs them as
    well, which adds negative pairs and nothing else.

    "constituent" and "brackets": see `read_brackets`; the rest: see `read_conllu`.
    """
    files = open_files(Path(path), r"(?:dep|const|coref/gum/conll)/[^/]+|splits\.md", subfolder="gum")
    found = {}
    for split, documents in _documents(files).items():
        left_out: Counter[str] = Counter()
        sentences = [
            sentence
            for document in documents
            for sentence in _read_document(files, document, left_out, singletons, function_tags)
        ]
        found[split] = Noted(sentences, (f"{split}: {count} {what} left out" for what, count in left_out.items()))
    return found


def _documents(files: Files) -> dict[str, list[str]]:
    """Documents by split, from headings `## dev` and items `* GUM_bio_byron`."""
    found: dict[str, list[str]] = {split: [] for split in SPLITS}
    items: list[str] | None = None
    for line in files.lines("splits.md"):
        mark, _, name = line.strip().partition(" ")
        if mark == "##":
            items = found.get(name.strip())
        elif mark == "*" and items is not None:
            items.append(name.strip())
    if not all(found.values()):
        missing = ", ".join(split for split, names in found.items() if not names)
        raise CorpusError(
            f"{files.where('splits.md')}: no documents for {missing}",
            fix="give every split a heading, `## dev`, and a list of documents, `* GUM_bio_byron`",
        )
    return found


def _read_document(
    files: Files, document: str, left_out: Counter[str], singletons: bool, function_tags: bool
) -> list[Sentence]:
    name = f"dep/{document}.conllu"
    sentences = parse_conllu(files.lines(name), files.where(name))
    if not any(word.strip("_") for sentence in sentences for word in sentence.words):
        left_out[_MASKED] += 1
        return []
    phrases = _read_constituents(files, f"const/{document}.ptb", sentences, function_tags)
    name = f"coref/gum/conll/{document}.conll"
    words = [word for sentence in sentences for word in sentence.words]
    mentions = read_mentions(files.lines(name), files.where(name), words)
    count = Counter(mention.entity for mention in mentions)
    return [
        replace(
            sentence,
            annotations={
                **sentence.annotations,
                **phrase,
                "entity": tuple(Span(mention.start, mention.end, (mention.type,)) for mention in within),
                "coref": mention_pairs([one for one in within if singletons or count[one.entity] > 1]),
            },
        )
        for sentence, phrase, within in zip(
            sentences, phrases, _by_sentence(mentions, sentences, left_out), strict=True
        )
    ]


def _read_constituents(
    files: Files, name: str, sentences: Sequence[Sentence], function_tags: bool
) -> list[Mapping[str, Any]]:
    where = files.where(name)
    found: list[Mapping[str, Any]] = []
    for line, tree in parse_trees(files.lines(name), where, function_tags=function_tags):
        if len(found) < len(sentences) and tree.words != sentences[len(found)].words:
            sentence = sentences[len(found)]
            raise CorpusError(
                f"{where}:{line}: the tree of {_excerpt(tree.words)} where {sentence.source} has "
                f"{_excerpt(sentence.words)}",
                fix=_ONE_RELEASE,
            )
        found.append(constituents(tree))
    if len(found) != len(sentences):
        raise CorpusError(
            f"{where}: {len(found)} trees where the dependencies have {len(sentences)} sentences", fix=_ONE_RELEASE
        )
    return found


def _by_sentence(
    mentions: Sequence[Mention], sentences: Sequence[Sentence], left_out: Counter[str]
) -> list[list[Mention]]:
    """The mentions of every sentence, counted from its first word."""
    found: list[list[Mention]] = [[] for _ in sentences]
    place = [(number, at) for number, sentence in enumerate(sentences) for at in range(len(sentence.words))]
    for mention in mentions:
        number, start = place[mention.start]
        last, end = place[mention.end - 1]
        if number == last:
            found[number].append(mention._replace(start=start, end=end + 1))
        else:
            left_out[_CROSSING] += 1
    return found


def _excerpt(words: Sequence[str]) -> str:
    return repr(" ".join(words[:8])) + (" ..." if len(words) > 8 else "")
