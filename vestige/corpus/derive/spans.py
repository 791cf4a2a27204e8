"""Spans and pairs of spans from trees, as edge probing asks for them (Tenney et al. 2019)."""

from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.tokens import Annotate
from vestige.corpus.readers.brackets import parse_tree
from vestige.corpus.types import Corpus, Sentence, Span, SpanPair

FUNCTIONS = frozenset(("nsubj", "obj", "iobj", "obl", "nmod", "appos", "vocative", "dislocated", "root", "conj"))
"""Relations of nouns that are phrases of their own, unlike the parts of names and compounds."""

MARKS = frozenset(("case", "cc", "mark", "punct"))
"""Relations of words that introduce a phrase or set it off, and are no part of it."""


def dependency_arcs(corpus: Corpus, available: frozenset[str]) -> tuple[Annotate, str]:
    """A pair (head, dependent) labelled with the relation, for every word but the root."""

    def annotate(sentence: Sentence) -> tuple[SpanPair, ...] | None:
        tree = Dependencies.of(sentence)
        if tree is None:
            return None
        return tuple(
            SpanPair((head, head + 1), (word, word + 1), (tree.column("deprel", word),))
            for word, head in enumerate(tree.heads)
            if head >= 0
        )

    return annotate, "pairs of a head and its dependent, labelled with the relation; the root has no pair"


def constituents(corpus: Corpus, available: frozenset[str]) -> tuple[Annotate, str]:
    """A span for every phrase above parts of speech, labelled with its category."""

    def annotate(sentence: Sentence) -> tuple[Span, ...] | None:
        if "constituent" in sentence.annotations:
            return tuple(sentence.annotations["constituent"])
        text = sentence.annotations.get("brackets")
        return tuple(Span(node.start, node.end, (node.label,)) for node in parse_tree(text).phrases) if text else None

    return annotate, "spans of all phrases above parts of speech, labelled with their category"


def pos_spans(corpus: Corpus, available: frozenset[str]) -> tuple[Annotate, str]:
    """A span for every word, labelled with its part of speech."""
    column = next(name for name in ("xpos", "pos", "upos") if name in available)

    def annotate(sentence: Sentence) -> tuple[Span, ...]:
        return tuple(Span(word, word + 1, (tag,)) for word, tag in enumerate(sentence.annotations[column]))

    return annotate, f"spans of single words, labelled with {column}"


def noun_phrases(corpus: Corpus, available: frozenset[str]) -> tuple[Annotate, str]:
    """A span for every noun with all its dependents, labelled with its relation (without subtype)."""

    def annotate(sentence: Sentence) -> tuple[Span, ...] | None:
        tree = Dependencies.of(sentence)
        if tree is None:
            return None
        nouns = [word for word in range(len(tree.words)) if _heads_noun_phrase(tree, word)]
        spans = [(span, tree.relation(word)) for word in nouns if (span := _phrase(tree, word))]
        return tuple(Span(*span, (relation,)) for span, relation in spans)

    how = (
        "subtrees of nouns and pronouns without adpositions and conjunctions, labelled with their relation; "
        "discontinuous ones and heads of clauses left out"
    )
    return annotate, how


def _heads_noun_phrase(tree: Dependencies, word: int) -> bool:
    clause = tree.dependents(word, "cop", "nsubj", "csubj")
    return tree.upos(word) in ("NOUN", "PROPN", "PRON") and tree.relation(word) in FUNCTIONS and not clause


def _phrase(tree: Dependencies, head: int) -> tuple[int, int] | None:
    """Start and end of the phrase, or None if other words stand in between."""
    below = tree.subtree(head)
    marks = {word for mark in tree.dependents(head, *MARKS) for word in tree.subtree(mark)}
    words = [word for word in below if word not in marks]
    start, end = words[0], words[-1] + 1
    return (start, end) if sum(start <= word < end for word in below) == end - start else None
