"""Base phrases (chunks) from trees, in the manner of CoNLL-2000: B-NP, I-NP, B-VP, ..., O.

A chunk is the part of a phrase up to its head, without the phrases below it: a preposition alone is a
PP, a complementiser an SBAR, verbs with what stands between them a VP, and a possessive mark opens the
noun phrase it makes a part of. Both ways to get there, from constituents and from dependencies, are
approximations; with dependencies the border between an adverb's and a verb's phrase is the weakest.
"""

from collections.abc import Sequence

from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.examples import is_word
from vestige.corpus.readers.brackets import Tree

NOMINAL = frozenset(("NP", "NX", "NAC", "WHNP", "NML"))
PREMODIFYING = frozenset(("ADJP", "QP", "NX", "NML", "NAC", "UCP", "NP", "ADVP"))
NAMES = {
    "WHNP": "NP",
    "NX": "NP",
    "NAC": "NP",
    "NML": "NP",
    "QP": "NP",
    "WHPP": "PP",
    "WHADVP": "ADVP",
    "WHADJP": "ADJP",
}
PHRASES = frozenset(("NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "INTJ", "CONJP", "LST"))

PREMODIFIERS = ("det", "amod", "nummod", "compound", "flat", "advmod", "goeswith")
HYPHENS = frozenset("-–/")

Chunk = tuple[str, int]
"""Kind of a word's chunk and what tells it from its neighbours; ("O", 0) for none."""

OUTSIDE: Chunk = ("O", 0)


def chunks_of_brackets(tree: Tree) -> tuple[str, ...]:
    """Chunk tags of a constituent tree."""
    chunks: list[Chunk] = [OUTSIDE] * tree.end
    waiting: list[tuple[Tree, tuple[Tree, ...]]] = [(tree, ())]
    while waiting:
        node, above = waiting.pop()
        if node.children:
            waiting.extend((child, (*above, node)) for child in node.children)
        elif above:
            chunks[node.start] = _chunk_of_leaf(node, above)
    return _tags(_joined_verbs(chunks))


def chunks_of_dependencies(tree: Dependencies) -> tuple[str, ...]:
    """Chunk tags of a dependency tree."""
    chunks = [_chunk_of_word(tree, word) for word in range(len(tree.words))]
    for head in range(len(tree.words)):
        if chunks[head] == ("NP", head):
            for word in _noun_group(tree, head):
                chunks[word] = ("NP", head)
        elif chunks[head][0] in ("ADJP", "ADVP"):
            for word in _run(tree, head, ("advmod",)):
                chunks[word] = chunks[head]
    return _tags(_joined_verbs(chunks))


def _chunk_of_leaf(leaf: Tree, above: tuple[Tree, ...]) -> Chunk:
    *outer, parent = above
    if leaf.label == "POS" and outer and outer[-1].label in NOMINAL:
        return "NP", _place(outer[-1], len(outer) - 1)
    level = len(above) - 1
    while level > 0 and parent.label in PREMODIFYING and _premodifies(parent, above[level - 1]):
        level, parent = level - 1, above[level - 1]
    kind = NAMES.get(parent.label, parent.label)
    later = kind == "NP" and _follows_phrase(leaf, parent)
    joins = not is_word(leaf.word) or leaf.label == "CC"
    if kind not in PHRASES or (joins and not _inside_noun_phrase(leaf, kind, parent, later)):
        return OUTSIDE
    return kind, _place(parent, level) + later


def _inside_noun_phrase(leaf: Tree, kind: str, parent: Tree, later: bool) -> bool:
    """Whether a conjunction or sign stands between words of one base noun phrase."""
    return kind == "NP" and not later and leaf.start > parent.start and leaf.label in ("CC", "HYPH", "SYM", "$", "#")


def _premodifies(node: Tree, parent: Tree) -> bool:
    """Whether a phrase is the part of a noun phrase that stands before its head word."""
    if parent.label not in NOMINAL and parent.label not in ("QP", "ADJP"):
        return False
    after = [child for child in parent.children if child.start >= node.end]
    possessive = node.children[-1].label == "POS"
    return not possessive and any(not child.children and child.label[:2] in ("NN", "CD", "JJ") for child in after)


def _follows_phrase(leaf: Tree, parent: Tree) -> bool:
    """Whether another noun phrase or a clause stands before a word of the same phrase."""
    return any(
        child.children and child.end <= leaf.start and child.label not in PREMODIFYING - {"NP"}
        for child in parent.children
        if not (child.children and child.children[-1].label == "POS")
    )


def _place(node: Tree, level: int) -> int:
    return (node.start * 1000 + level) * 2


def _chunk_of_word(tree: Dependencies, word: int) -> Chunk:
    upos, relation = tree.upos(word), tree.relation(word)
    if not is_word(tree.words[word]) or upos in ("PUNCT", "CCONJ", "SYM", "X"):
        return OUTSIDE
    if relation == "case":
        return "PP", word
    if upos in ("VERB", "AUX") or (upos == "PART" and relation in ("mark", "advmod", "aux")):
        return "VP", word
    if relation == "compound" and upos in ("ADP", "ADV"):
        return "PRT", word
    if upos in ("NOUN", "PROPN", "PRON", "NUM", "DET"):
        return "NP", word
    return {"ADP": "PP", "SCONJ": "SBAR", "ADV": "ADVP", "ADJ": "ADJP", "INTJ": "INTJ"}.get(upos, "O"), word


def _noun_group(tree: Dependencies, head: int) -> list[int]:
    """A noun with the modifiers that stand right before it and the rest of its name after it."""
    left = _run(tree, head, PREMODIFIERS)
    first = head - len(left) - 1
    if first >= 0 and tree.upos(first) == "PART" and tree.relation(first) == "case":
        left.append(first)
    right, word = [], head + 1
    while word < len(tree.words) and tree.heads[word] == head and tree.relation(word) in ("flat", "goeswith"):
        right.append(word)
        word += 1
    return [*left, *right]


def _run(tree: Dependencies, head: int, relations: Sequence[str]) -> list[int]:
    """Words in one go before `head` that hang on it by nothing but these relations."""
    found: list[int] = []
    for word in range(head - 1, -1, -1):
        above = word
        while 0 <= above < head and _may_stand_before(tree, above, relations):
            above = tree.heads[above]
        if above != head:
            break
        found.append(word)
    while found and not is_word(tree.words[found[-1]]):
        found.pop()
    return found


def _may_stand_before(tree: Dependencies, word: int, relations: Sequence[str]) -> bool:
    relation = tree.relation(word)
    if relation == "punct":
        return tree.words[word] in HYPHENS
    return relation in relations or (relation == "nmod" and tree.upos(word) in ("PRON", "DET"))


def _joined_verbs(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Verbs that follow each other are one chunk, with the adverbs between them."""
    joined = list(chunks)
    for place in range(1, len(joined)):
        if joined[place][0] == "VP":
            start = place
            while start and joined[start - 1][0] == "ADVP":
                start -= 1
            if start and joined[start - 1][0] == "VP":
                joined[start : place + 1] = [joined[start - 1]] * (place + 1 - start)
    return joined


def _tags(chunks: Sequence[Chunk]) -> tuple[str, ...]:
    before = (OUTSIDE, *chunks)
    return tuple(
        "O" if kind == "O" else f"{'I' if previous == (kind, place) else 'B'}-{kind}"
        for previous, (kind, place) in zip(before, chunks, strict=False)
    )
