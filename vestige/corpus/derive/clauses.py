"""Sentence tasks about the main clause: its tense, and the number of its subject and object.

Labels are SentEval's: PAST and PRES, NN (singular) and NNS (plural). As there, one word form is a
target in one split only, and forms that are frequent beyond measure (`is`, `was`) are left out.
"""

from collections.abc import Callable

from vestige.corpus.derive.dependencies import Dependencies
from vestige.corpus.derive.examples import Example, Selection
from vestige.corpus.options import Share
from vestige.corpus.types import Sentence

PENN_TENSES = {"VBD": "PAST", "VBZ": "PRES", "VBP": "PRES", "VB": "", "VBG": "", "VBN": "", "MD": ""}
UD_TENSES = {"Past": "PAST", "Pres": "PRES"}
UD_NUMBERS = {"Sing": "NN", "Plur": "NNS"}

Target = tuple[int, str]
"""A word of the tree and the label it gives the sentence."""


def past_present(selection: Selection, *, disjoint_words: bool | None = None, frequent: Share = 0.05) -> str:
    """Tense of the main clause's finite verb: the root, or its auxiliary or copula."""
    parting = _label_by(selection, _tense, disjoint_words, frequent)
    return f"tense of the finite verb of the main clause (PAST, PRES); {parting}"


def subj_number(selection: Selection, *, disjoint_words: bool | None = None, frequent: Share = 0.05) -> str:
    """Number of the main clause's subject, a common noun (NN, NNS)."""
    parting = _label_by(selection, lambda tree: _number(tree, "nsubj"), disjoint_words, frequent)
    return f"number of the subject of the main clause, a common noun (NN singular, NNS plural); {parting}"


def obj_number(selection: Selection, *, disjoint_words: bool | None = None, frequent: Share = 0.05) -> str:
    """Number of the main clause's direct object, a common noun (NN, NNS)."""
    parting = _label_by(selection, lambda tree: _number(tree, "obj"), disjoint_words, frequent)
    return f"number of the direct object of the main clause, a common noun (NN singular, NNS plural); {parting}"


def tense(tree: Dependencies, word: int) -> str:
    """PAST or PRES for a finite form that is marked for it, else nothing; Penn tags go before features."""
    if (tag := tree.xpos(word)) in PENN_TENSES:
        return PENN_TENSES[tag]
    found = tree.features(word)
    return UD_TENSES.get(found.get("Tense", ""), "") if found.get("VerbForm", "Fin") == "Fin" else ""


def number(tree: Dependencies, word: int) -> str:
    """NN or NNS for a common noun that is marked for it, else nothing; Penn tags go before features."""
    if (tag := tree.xpos(word)) in ("NN", "NNS"):
        return tag if tree.upos(word) in ("NOUN", "_") else ""
    return UD_NUMBERS.get(tree.features(word).get("Number", ""), "") if tree.upos(word) == "NOUN" else ""


def _label_by(
    selection: Selection, find: Callable[[Dependencies], Target | str], disjoint: bool | None, frequent: float
) -> str:
    def make(sentence: Sentence, split: str) -> Example | str:
        tree = Dependencies.of(sentence)
        if tree is None:
            return "no tree"
        found = find(tree)
        if isinstance(found, str):
            return found
        word, label = found
        return Example(sentence, label, sentence.words, sentence.words[word].lower())

    selection.build(make)
    how = selection.part_words(disjoint, frequent)
    selection.balance()
    return how


def _tense(tree: Dependencies) -> Target | str:
    verbs = (tree.root, *tree.dependents(tree.root, "aux", "cop"))
    found = [(word, label) for word in verbs if (label := tense(tree, word))]
    if len(found) != 1:
        return "several finite verbs" if found else "no finite verb marked for tense"
    return found[0]


def _number(tree: Dependencies, relation: str) -> Target | str:
    nouns = tree.dependents(tree.root, relation)
    if len(nouns) != 1:
        return f"several {relation}" if nouns else f"no {relation}"
    if tree.dependents(nouns[0], "conj"):
        return f"coordinated {relation}"
    label = number(tree, nouns[0])
    return (nouns[0], label) if label else f"{relation} is no common noun marked for number"
