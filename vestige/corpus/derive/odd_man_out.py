"""Semantic odd man out: was a noun or verb replaced by another of the same part of speech (C) or not (O)?

SentEval takes a replacement whose bigrams with the words before and after it are about as frequent as
the original's. That takes a large corpus; in a small one the frequency of the word itself must do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

from vestige.corpus.derive.examples import Example, Selection
from vestige.corpus.options import Bounds
from vestige.corpus.types import Sentence

LARGE = 100_000
"""Words from which on the bigrams of a corpus are counted rather than its words."""

FREQUENCY = (3, 400)
"""Fewest and most occurrences of a word that is replaced or replaces."""

Speech = tuple[str, ...]
"""A part of speech: UPOS, XPOS and features."""


class Counts:
    """How often words and bigrams occur, and which nouns and verbs there are."""

    def __init__(self, sentences: Iterable[Sentence], least: int, most: int) -> None:
        self.words: Counter[str] = Counter()
        self.before: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Nouns and verbs that stand before a word; the end of a sentence is an empty one."""
        self.after: defaultdict[str, Counter[str]] = defaultdict(Counter)
        uses: defaultdict[str, Counter[Speech]] = defaultdict(Counter)
        for sentence in sentences:
            self.words.update(sentence.words)
            edged = ("", *sentence.words, "")
            for place, speech in enumerate(parts_of_speech(sentence)):
                before, word, after = edged[place : place + 3]
                uses[word][speech] += 1
                if _replaceable(word, speech):
                    self.after[before][word] += 1
                    self.before[after][word] += 1
        self.pool: dict[Speech, set[str]] = {}
        """Nouns and verbs by part of speech: the one a word mostly is."""
        for word, counts in uses.items():
            speech = min(counts, key=lambda speech: (-counts[speech], speech))
            if least <= self.words[word] <= most and _replaceable(word, speech):
                self.pool.setdefault(speech, set()).add(word)
        self.alike = cache(self._alike)

    def _alike(self, word: str, speech: Speech) -> list[str]:
        """Words of the same part of speech and about the same frequency."""
        pool = self.pool.get(speech, set())
        return sorted(w for w in pool if comparable(self.words[w], self.words[word])) if word in pool else []

    def fitting(self, words: tuple[str, ...], place: int, speech: Speech) -> list[str]:
        """Words of the same part of speech whose bigrams with both neighbours are about as frequent."""
        word, pool = words[place], self.pool.get(speech, set())
        if word not in pool:
            return []
        after, before = self.after[words[place - 1]], self.before[(*words, "")[place + 1]]
        return sorted(
            other
            for other in (after.keys() & before.keys()) & pool
            if comparable(after[other], after[word]) and comparable(before[other], before[word])
        )


def odd_man_out(
    selection: Selection,
    *,
    bigrams: bool | None = None,
    disjoint_words: bool = True,
    frequency: Bounds = FREQUENCY,
) -> str:
    """One noun or verb replaced by another; `disjoint_words`: no replacement is used in two splits."""
    counts = Counts((s for items in selection.corpus.splits.values() for s in items), *frequency)
    by_bigrams = counts.words.total() >= LARGE if bigrams is None else bigrams
    splits = sorted(selection.corpus.splits)

    @cache
    def home(word: str) -> str:
        return splits[int(selection.draw("home", word.lower()) * len(splits))]

    def replacements(sentence: Sentence, split: str, place: int, speech: Speech) -> list[str]:
        word = sentence.words[place]
        found = counts.fitting(sentence.words, place, speech) if by_bigrams else counts.alike(word, speech)
        return [w for w in found if w.lower() != word.lower() and (home(w) == split or not disjoint_words)]

    def make(sentence: Sentence, split: str) -> Example | str:
        targets = nouns_and_verbs(sentence)
        for place, speech in sorted(targets, key=lambda t: selection.draw("place", sentence.id, str(t[0]))):
            if found := replacements(sentence, split, place, speech):
                other = found[int(selection.draw("replacement", sentence.id) * len(found))]
                return Example(sentence, "C", (*sentence.words[:place], other, *sentence.words[place + 1 :]))
        return "no noun or verb with a comparable one to replace it"

    selection.build(make)
    selection.mix_originals("O")
    by = "bigrams with both neighbours are" if by_bigrams else "frequency (the corpus is too small for bigrams) is"
    return (
        f"one noun or verb replaced by another of the same part of speech (C) or not (O); its {by} between half "
        f"and twice the original's; words with {frequency[0]} to {frequency[1]} occurrences; replacements "
        + ("used in one split only" if disjoint_words else "shared by splits")
    )


def comparable(one: int, other: int) -> bool:
    """Neither is more than twice the other, and both are there."""
    return 0 < one <= 2 * other and other <= 2 * one


def parts_of_speech(sentence: Sentence) -> list[Speech]:
    """Part of speech of every word, by what is annotated of it."""
    columns = [sentence.annotations[name] for name in ("upos", "xpos", "feats") if name in sentence.annotations]
    return [*zip(*columns, strict=True)]


def nouns_and_verbs(sentence: Sentence) -> list[tuple[int, Speech]]:
    """Places of common nouns and full verbs, the first word of the sentence aside, with part of speech."""
    found = enumerate(parts_of_speech(sentence))
    return [(place, speech) for place, speech in found if place and _replaceable(sentence.words[place], speech)]


def _replaceable(word: str, speech: Speech) -> bool:
    return speech[0] in ("NOUN", "VERB") and word.isalpha()
