"""Semantic odd man out: was a noun or verb replaced by another of the same part of speech (C) or not (O)?

SentEval takes a replacement whose bigrams with the words before and after it are about as frequent as
the original's. That takes a large corpus; in a small one the frequency of the word itself must do. SentEval also
lets no replacement be in two splits. In a corpus of usual size that teaches a probe the opposite of what is asked:
a word that replaces in train is an original in test, and a bag of words gets fewer than half of the labels right.
So words are shared by splits unless asked otherwise, and then originals are parted with their replacements.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache, partial

import numpy as np

from vestige.corpus.derive.examples import Example, Selection
from vestige.corpus.derive.exchange import replacement_chances
from vestige.corpus.options import Bounds
from vestige.corpus.types import Sentence

LARGE = 100_000
"""Words from which on the bigrams of a corpus are counted rather than its words."""

FREQUENCY = (3, 400)
"""Fewest and most occurrences of a word that is replaced or replaces."""

Speech = tuple[str, ...]
"""A part of speech: UPOS, XPOS and features."""

Target = tuple[int, list[str]]
"""The place of a word, and the words that fit there."""


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
    disjoint_words: bool = False,
    frequency: Bounds = FREQUENCY,
) -> str:
    """One noun or verb replaced by another; `disjoint_words`: a word replaces and is replaced in one split only.

    In every split each word replaces about as often as it is replaced, so that neither a bag of words nor the
    frequency of words tells what was changed.
    """
    counts = Counts((s for items in selection.corpus.splits.values() for s in items), *frequency)
    by_bigrams = counts.words.total() >= LARGE if bigrams is None else bigrams
    splits = sorted(selection.corpus.splits)

    @cache
    def at_home(word: str, split: str) -> bool:
        return not disjoint_words or splits[int(selection.draw("home", word.lower()) * len(splits))] == split

    def fitting(sentence: Sentence, split: str, place: int, speech: Speech) -> list[str]:
        word = sentence.words[place]
        if not at_home(word, split):
            return []
        found = counts.fitting(sentence.words, place, speech) if by_bigrams else counts.alike(word, speech)
        return [w for w in found if w.lower() != word.lower() and at_home(w, split)]

    def choose(split: str, sentence: Sentence) -> Target | None:
        places = nouns_and_verbs(sentence)
        ranked = sorted(places, key=lambda found: selection.draw("place", sentence.id, str(found[0])))
        targets = ((place, fitting(sentence, split, place, speech)) for place, speech in ranked)
        return next((target for target in targets if target[1]), None)

    replaced = {
        split: _replaced(selection, sentences, partial(choose, split)) for split, sentences in selection.sources.items()
    }

    def make(sentence: Sentence, split: str) -> Example | str:
        if sentence.id not in replaced[split]:
            return "no noun or verb with a comparable one to replace it"
        return Example(sentence, "C", replaced[split][sentence.id])

    selection.build(make)
    selection.mix_originals("O")
    by = "bigrams with both neighbours are" if by_bigrams else "frequency (the corpus is too small for bigrams) is"
    return (
        f"one noun or verb replaced by another of the same part of speech (C) or not (O); its {by} between half "
        f"and twice the original's; words with {frequency[0]} to {frequency[1]} occurrences, each replacing about as "
        f"often as it is replaced; these words are {'of one split only' if disjoint_words else 'shared by splits'}"
    )


def _replaced(
    selection: Selection, sentences: list[Sentence], choose: Callable[[Sentence], Target | None]
) -> dict[str, tuple[str, ...]]:
    """By id the words of the sentences of a split with one of them replaced."""
    chosen = [(sentence, *target) for sentence in sentences if (target := choose(sentence))]
    chances = replacement_chances([s.words[place] for s, place, _ in chosen], [found for *_, found in chosen])
    return {
        sentence.id: (*sentence.words[:place], found[drawn], *sentence.words[place + 1 :])
        for (sentence, place, found), chance in zip(chosen, chances, strict=True)
        for drawn in [_drawn(chance, selection.draw("replacement", sentence.id))]
    }


def _drawn(chances: np.ndarray, draw: float) -> int:
    """The number of what is drawn, by a number from [0, 1)."""
    return int(np.searchsorted(np.cumsum(chances) / chances.sum(), draw, side="right"))


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
