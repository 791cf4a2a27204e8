"""Token tasks: one morphological feature, and chunks."""

from collections import Counter
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from vestige.corpus.derive.chunks import chunks_of_brackets, chunks_of_dependencies
from vestige.corpus.derive.dependencies import Dependencies, features
from vestige.corpus.readers.brackets import parse_tree
from vestige.corpus.types import Corpus, Sentence
from vestige.errors import CorpusError

Annotate = Callable[[Sentence], Any]
"""The labels of a sentence, or None if they cannot be had."""


UNIVERSAL = (
    *("PronType", "NumType", "Poss", "Reflex", "Abbr", "Typo", "Foreign", "ExtPos", "Gender", "Animacy", "NounClass"),
    *("Number", "Case", "Definite", "Deixis", "Degree", "VerbForm", "Mood", "Tense", "Aspect", "Voice", "Evident"),
    *("Polarity", "Person", "Polite", "Clusivity"),
)
"""The features of Universal Dependencies, which are known whether or not a corpus has them."""


def feature(corpus: Corpus, available: frozenset[str], name: str) -> tuple[Annotate, str]:
    """The value of one feature of every word, `_` where it has none."""
    found = features_of(corpus)
    known = {key.lower(): key for key in found}
    if name.lower() not in known:
        near = get_close_matches(name.lower(), known, n=1)
        raise CorpusError(
            f"corpus {corpus.name!r} has no morphological feature {name!r}; it has {', '.join(found) or 'none'}",
            fix=f"did you mean {known[near[0]]!r}?" if near else "name one of them, as in feats:Number",
        )
    key = known[name.lower()]

    def annotate(sentence: Sentence) -> tuple[str, ...]:
        return tuple(features(column).get(key, "_") for column in sentence.annotations["feats"])

    return annotate, f"value of the feature {key} of every word, _ where it has none"


def features_of(corpus: Corpus) -> list[str]:
    """The features that words of the corpus have, the most frequent first."""
    columns = Counter(c for items in corpus.splits.values() for s in items for c in s.annotations.get("feats", ()))
    counts: Counter[str] = Counter()
    for column, count in columns.items():
        counts.update(dict.fromkeys(features(column), count))
    return sorted(counts, key=lambda key: (-counts[key], key))


def chunk(corpus: Corpus, available: frozenset[str]) -> tuple[Annotate, str]:
    """Base phrases, from constituents where there are any, else from dependencies."""
    if "brackets" in available:

        def from_brackets(sentence: Sentence) -> tuple[str, ...] | None:
            text = sentence.annotations.get("brackets")
            return chunks_of_brackets(parse_tree(text)) if text else None

        return from_brackets, "base phrases as in CoNLL-2000, approximated from constituents"

    def from_dependencies(sentence: Sentence) -> tuple[str, ...] | None:
        tree = Dependencies.of(sentence)
        return chunks_of_dependencies(tree) if tree else None

    return from_dependencies, "base phrases in the manner of CoNLL-2000, approximated from dependencies"
