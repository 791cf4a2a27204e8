"""Sentence tasks that ask whether the words were changed: bigram shift and coordination inversion.

Every sentence is shown once, as it was (O) or inverted (I), each half of the time.
"""

from collections import Counter

from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.examples import ENOUGH, Example, Selection, is_word
from vestige.corpus.types import Sentence

QUOTES = frozenset(('"', "``", "''", "“", "”", "„", "«", "»"))
BRACKETS = frozenset("()[]{}") | {"-LRB-", "-RRB-"}
SUBJECTS = ("nsubj", "csubj", "expl")

Clauses = tuple[int, int, int]
"""Where the first clause ends, the second one starts, and the second one ends."""


def bigram_shift(selection: Selection) -> str:
    """Two neighbouring words swapped; neither is the first word of the sentence or punctuation."""

    def make(sentence: Sentence, split: str) -> Example | str:
        words = sentence.words
        if not QUOTES.isdisjoint(words):
            return "double quotes"
        places = swappable(words)
        if not places:
            return "no two neighbouring words to swap"
        place = places[int(selection.draw("place", sentence.id) * len(places))]
        return Example(sentence, "I", (*words[:place], words[place + 1], words[place], *words[place + 2 :]))

    selection.build(make)
    selection.mix_originals("O")
    return (
        "two neighbouring words swapped (I) or not (O), never the first word of a sentence, punctuation or equal "
        "words; sentences with double quotes left out"
    )


def swappable(words: tuple[str, ...]) -> list[int]:
    """Places of words that may be swapped with the next one."""
    return [
        place
        for place in range(1, len(words) - 1)
        if is_word(words[place])
        and is_word(words[place + 1])
        and words[place].casefold() != words[place + 1].casefold()
    ]


def coordination_inversion(selection: Selection, *, only_conjunction: bool | None = None) -> str:
    """Two coordinate main clauses in their order or inverted.

    With `only_conjunction` the sentence has no other conjunction, as in SentEval; with None that is so
    if every split keeps `ENOUGH` examples.
    """
    case = inner_case(selection)

    def make(sentence: Sentence, split: str) -> Example | str:
        tree = Dependencies.of(sentence)
        if tree is None:
            return "no tree"
        clauses = coordinate_clauses(tree)
        if isinstance(clauses, str):
            return clauses
        end, start, stop = clauses
        side = (end > stop - start) - (end < stop - start)
        return Example(sentence, "I", invert(sentence.words, clauses, case), side=side)

    selection.build(make)
    single = {split: [e for e in items if _conjunctions(e.source) == 1] for split, items in selection.examples.items()}
    strict = only_conjunction or (only_conjunction is None and all(len(items) >= ENOUGH for items in single.values()))
    if strict:
        selection.keep(single, "another conjunction")
    selection.mix_originals("O")
    return (
        f"two main clauses joined by {'the only' if strict else 'a'} conjunction, in their order (O) or inverted (I), "
        "with the sentence's capital letter moved along; the longer one comes first equally often under both labels"
    )


def coordinate_clauses(tree: Dependencies) -> Clauses | str:
    """The two clauses of `first [punctuation] conjunction second [punctuation]`, or why there are none.

    The conjunction belongs to the root's only conjunct; the clauses cover all other words, are both
    verbal, and have both a subject of their own or none.
    """
    size = len(tree.words)
    if not (QUOTES | BRACKETS).isdisjoint(tree.words):
        return "quotes or brackets"
    conjuncts = tree.dependents(tree.root, "conj")
    if len(conjuncts) != 1 or len(joins := tree.dependents(conjuncts[0], "cc")) != 1:
        return "not one conjunction joining two main clauses"
    conjunction, conjunct = joins[0], conjuncts[0]
    stop = size
    while stop and not is_word(tree.words[stop - 1]):
        stop -= 1
    end = conjunction
    while end and not is_word(tree.words[end - 1]):
        end -= 1
    below = [word for word in tree.subtree(conjunct) if is_word(tree.words[word]) and word != conjunction]
    second = [word for word in range(conjunction + 1, stop) if is_word(tree.words[word])]
    if below != second or not end or not second or second[0] != conjunction + 1:
        return "not one conjunction joining two main clauses"
    if not all(_verbal(tree, word) for word in (tree.root, conjunct)):
        return "a coordinated part is no clause"
    if bool(tree.dependents(tree.root, *SUBJECTS)) != bool(tree.dependents(conjunct, *SUBJECTS)):
        return "only one of the clauses has a subject"
    return end, conjunction + 1, stop


def invert(words: tuple[str, ...], clauses: Clauses, case: dict[str, str]) -> tuple[str, ...]:
    """The clauses swapped around what joins them; what opens the sentence takes over its capital letter."""
    end, start, stop = clauses
    first, second = [*words[:end]], [*words[start:stop]]
    if first[0][:1].isupper():
        first[0] = case.get(first[0].lower(), first[0])
        second[0] = second[0][:1].upper() + second[0][1:]
    return (*second, *words[end:start], *first, *words[stop:])


def inner_case(selection: Selection) -> dict[str, str]:
    """How a word (lower-cased) is mostly written inside of sentences.

    A word that only ever opens sentences counts as lower-cased, unless it is a proper noun.
    """
    written: dict[str, Counter[str]] = {}
    opening: dict[str, bool] = {}
    for sentences in selection.corpus.splits.values():
        for sentence in sentences:
            for word in sentence.words[1:]:
                written.setdefault(word.lower(), Counter())[word] += 1
            proper = sentence.annotations.get("upos", ("_",))[0] == "PROPN"
            opening[sentence.words[0].lower()] = opening.get(sentence.words[0].lower(), False) or proper
    usual = {word: min(forms, key=lambda form: (-forms[form], form)) for word, forms in written.items()}
    return {**{word: word for word, proper in opening.items() if not proper}, **usual}


def _conjunctions(sentence: Sentence) -> int:
    columns = (sentence.annotations.get(name, ()) for name in ("upos", "deprel"))
    return sum("CCONJ" in pair or "cc" in pair for pair in zip(*columns, strict=True))


def _verbal(tree: Dependencies, word: int) -> bool:
    return tree.upos(word) in ("VERB", "AUX") or bool(tree.dependents(word, "cop"))
