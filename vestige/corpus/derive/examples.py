"""From sentences to labelled examples, under the rules that every derived sentence task obeys.

A source sentence gives one example at most, and no text occurs twice: of equal sentences the one in
test is kept rather than the one in dev or train. Every choice is drawn by a hash of the task, the
seed and the sentence's id, so that the order of the corpus plays no role.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from vestige.corpus.options import Bounds, Whole
from vestige.corpus.types import Corpus, Sentence
from vestige.digest import digest_json
from vestige.errors import CorpusError

LENGTHS = (5, 28)
"""Fewest and most words of a sentence, as in the corpus SentEval was made from."""

MINIMUM = 20
"""Fewest examples of a split; dev, which only serves to choose, may have half of them."""

ENOUGH = 50
"""Fewest examples of a split that make target words of one split only worth their cost."""

Examples = dict[str, list["Example"]]


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled text made from one sentence."""

    source: Sentence
    label: str
    words: tuple[str, ...]
    target: str = ""
    """The word the label hangs on, if there is one (lower-cased)."""
    side: int = 0
    """What changing the sentence mirrors: the sign of the difference between its halves' lengths."""


class Selection:
    """The examples of every split while they are made, and how many sentences were left out why."""

    def __init__(
        self,
        corpus: Corpus,
        task: str,
        seed: int,
        available: frozenset[str] = frozenset(),
        *,
        lengths: Bounds | None = LENGTHS,
        minimum: Whole = MINIMUM,
    ) -> None:
        self.corpus, self.task, self.seed, self.minimum = corpus, task, seed, minimum
        self.available = available
        """Annotations that the corpus has."""
        self.left_out: dict[str, Counter[str]] = {split: Counter() for split in corpus.splits}
        self.examples: Examples = {split: [] for split in corpus.splits}
        self.texts = {folded(s.words) for items in corpus.splits.values() for s in items}
        self.sources = {split: self._fitting(split, lengths) for split in corpus.splits}
        self._drop_repeated()

    @property
    def training(self) -> list[Example]:
        """The examples of train, or of the first split if there is no train."""
        return self.examples.get("train", next(iter(self.examples.values())))

    def draw(self, *key: str) -> float:
        """A number from [0, 1) that depends on task, seed and key alone."""
        return int(digest_json([self.task, self.seed, *key], length=13), 16) / 16**13

    def ranked(self, examples: Iterable[Example]) -> list[Example]:
        """In an order that is random but not the corpus'."""
        return sorted(examples, key=lambda e: (self.draw("rank", e.source.id), e.source.id))

    def build(self, make: Callable[[Sentence, str], Example | str]) -> None:
        """Turn every sentence into an example; a string instead says why there is none."""
        for split, sentences in self.sources.items():
            made = [make(sentence, split) for sentence in sentences]
            self.examples[split] = [item for item in made if isinstance(item, Example)]
            self.left_out[split].update(item for item in made if isinstance(item, str))

    def keep(self, examples: Mapping[str, Iterable[Example]], reason: str) -> None:
        """Go on with these examples; the rest is left out for `reason`."""
        for split, items in examples.items():
            ids = {item.source.id for item in items}
            kept = [item for item in self.examples[split] if item.source.id in ids]
            self.left_out[split][reason] += len(self.examples[split]) - len(kept)
            self.examples[split] = kept

    def keep_labels(self, least: int) -> None:
        """Leave out labels with fewer than `least` examples in train."""
        counts = Counter(item.label for item in self.training)
        kept = {split: [e for e in items if counts[e.label] >= least] for split, items in self.examples.items()}
        self.keep(kept, f"label with fewer than {least} examples in train")

    def balance(self) -> None:
        """As many examples of every label as of the rarest, in every split."""
        self.keep({split: self._balanced(items) for split, items in self.examples.items()}, "to balance the labels")

    def part_words(self, disjoint: bool | None, frequent: float) -> str:
        """Let no target word be in two splits; what was done, in words.

        Words that make more than the share `frequent` of a label's examples are left out, since
        parting them would make or break a split; any other word that several splits have is kept in one
        of them, drawn, with train, the largest, at half the chance of the others. With `disjoint` None
        all this is done if every split keeps `ENOUGH` examples.
        """
        if disjoint is False:
            return "target words shared by splits"
        homes = self._homes(frequent)
        parted = {split: [e for e in items if homes[e.target] == split] for split, items in self.examples.items()}
        if disjoint is None and any(len(self._balanced(items)) < ENOUGH for items in parted.values()):
            return "target words shared by splits (too few examples to part them)"
        rare = {split: [e for e in items if homes[e.target]] for split, items in self.examples.items()}
        self.keep(rare, f"target word in more than {frequent:.0%} of a label's examples")
        self.keep(parted, "target word given to another split")
        return "no target word in two splits"

    def mix_originals(self, label: str) -> None:
        """Turn half of the changed sentences of every split back into originals called `label`.

        Mirrored sides are matched, so that the sides of what is shown tell nothing of the label.
        """
        self._drop_known_texts()
        mixed: Examples = {}
        for split, items in self.examples.items():
            ranked = self.ranked(items)
            left, even, right = ([e for e in ranked if e.side == side] for side in (-1, 0, 1))
            pairs, half = len(even) // 2, min(len(left), len(right))
            cut = half // 2
            originals = [*even[:pairs], *left[:cut], *right[: half - cut]]
            changed = [*even[pairs : 2 * pairs], *left[cut:half], *right[half - cut : half]]
            mixed[split] = [*changed, *(replace(e, words=e.source.words, label=label) for e in originals)]
        self.keep(mixed, "to balance the labels")
        chosen = {split: {e.source.id: e for e in items} for split, items in mixed.items()}
        self.examples = {s: [chosen[s][e.source.id] for e in items] for s, items in self.examples.items()}

    def corpus_of(self, how: str) -> Corpus:
        """The corpus of the examples, with the story of how it came about."""
        for split, items in self.examples.items():
            if len(items) < self._least(split) or (split == "train" and len({e.label for e in items}) < 2):
                self._refuse(split)
        splits = {
            split: tuple(Sentence(e.source.id, e.words, (), {self.task: e.label}, e.source.source) for e in items)
            for split, items in self.examples.items()
        }
        notes = (f"derived: {self.task}: {how}; seed {self.seed}", *(self._story(split) for split in splits))
        return Corpus(f"{self.corpus.name}+{self.task}", splits, {self.task: "sentence"}, (*self.corpus.notes, *notes))

    def _fitting(self, split: str, lengths: tuple[int, int] | None) -> list[Sentence]:
        least, most = lengths or (1, 10**9)
        single = [s for s in self.corpus.splits[split] if not s.second]
        fitting = [s for s in single if least <= len(s.words) <= most]
        self.left_out[split]["two segments"] = len(self.corpus.splits[split]) - len(single)
        self.left_out[split][f"not {least} to {most} words"] = len(single) - len(fitting)
        return fitting

    def _drop_repeated(self) -> None:
        seen: set[str] = set()
        for split in sorted(self.sources, key=_protected):
            first: dict[str, str] = {}
            for sentence in sorted(self.sources[split], key=lambda s: s.id):
                first.setdefault(folded(sentence.words), sentence.id)
            kept = [s for s in self.sources[split] if (t := folded(s.words)) not in seen and first[t] == s.id]
            self.left_out[split]["text already there, here or in a later split"] = len(self.sources[split]) - len(kept)
            self.sources[split] = kept
            seen |= first.keys()

    def _drop_known_texts(self) -> None:
        """No changed text may be another sentence of the corpus, or be made twice."""
        seen = set(self.texts)
        kept: Examples = {}
        for split in sorted(self.examples, key=_protected):
            kept[split] = []
            for item in sorted(self.examples[split], key=lambda e: e.source.id):
                if (text := folded(item.words)) not in seen:
                    seen.add(text)
                    kept[split].append(item)
        self.keep(kept, "changed text is another sentence")

    def _homes(self, frequent: float) -> dict[str, str]:
        """The split of every target word; none for one that is too frequent."""
        splits: dict[str, set[str]] = {}
        uses: dict[str, Counter[str]] = {}
        for split, items in self.examples.items():
            for example in items:
                splits.setdefault(example.target, set()).add(split)
                uses.setdefault(example.label, Counter())[example.target] += 1
        common = {w for counts in uses.values() for w in counts if counts[w] > frequent * counts.total()}
        homes = {}
        for word, found in splits.items():
            tickets = sorted([*found, *(split for split in found if split != "train")])
            homes[word] = "" if word in common else tickets[int(self.draw("home", word) * len(tickets))]
        return homes

    def _balanced(self, examples: list[Example]) -> list[Example]:
        counts = Counter(e.label for e in examples)
        labels = {e.label for items in self.examples.values() for e in items}
        rarest = min((counts[label] for label in labels), default=0)
        ranked = self.ranked(examples)
        return [e for label in sorted(labels) for e in [e for e in ranked if e.label == label][:rarest]]

    def _least(self, split: str) -> int:
        return self.minimum // 2 if split == "dev" else self.minimum

    def _refuse(self, split: str) -> NoReturn:
        raise CorpusError(
            f"{self.corpus.name}+{self.task}: too little in split {split!r}: at least {self._least(split)} examples "
            f"of two labels are needed. {self._story(split)}",
            fix="take a larger corpus or another task, or widen its options (lengths, disjoint_words, minimum)",
        )

    def _story(self, split: str) -> str:
        lost = ", ".join(f"{count} {reason}" for reason, count in self.left_out[split].most_common() if count)
        labels = Counter(e.label for e in self.examples[split])
        return story(split, len(self.examples[split]), len(self.corpus.splits[split]), lost, labels)


def story(split: str, used: int, given: int, left_out: str, labels: Counter[str]) -> str:
    """What became of the sentences of a split, in words."""
    counts = ", ".join(f"{label} {count}" for label, count in labels.most_common(20))
    return (
        f"{split}: {used} of {given} sentences used"
        + (f"; left out: {left_out}" if left_out else "")
        + (f"; labels: {counts}" if counts else "")
        + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
    )


def folded(words: Iterable[str]) -> str:
    """Text by which sentences are held equal: case plays no role."""
    return " ".join(words).casefold()


def is_word(form: str) -> bool:
    """Whether a token is no punctuation mark: it has a letter or a digit."""
    return any(character.isalnum() for character in form)


def _protected(split: str) -> tuple[int, str]:
    """Test first, train last: who keeps a sentence that two splits have."""
    return ({"test": 0, "dev": 2, "train": 3}.get(split, 1), split)
