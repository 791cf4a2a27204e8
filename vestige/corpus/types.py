"""Sentence, Corpus, Task: what every reader returns and every analysis takes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, NamedTuple

from vestige.digest import digest_chunks, digest_json
from vestige.errors import CorpusError

Level = Literal["token", "span", "span_pair", "sentence", "sentence_pair", "tree", "text"]
"""What one label is attached to.

token: a label per word. span: `Span`s. span_pair: `SpanPair`s. sentence: one label (or number) per
sentence. sentence_pair: one label (or number) per pair of segments. tree: a head per word (0 = root).
text: no label at all. Words are counted over both segments, where there are two.
"""

SPLITS = ("train", "dev", "test")


class Span(NamedTuple):
    """A labelled stretch of words, half-open: words[start:end]."""

    start: int
    end: int
    labels: tuple[str, ...]


class SpanPair(NamedTuple):
    """A labelled pair of stretches of words, both half-open."""

    first: tuple[int, int]
    second: tuple[int, int]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One input of a model: a segment of words, or two."""

    id: str
    words: tuple[str, ...]
    second: tuple[str, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """By task name; the shape depends on the task's level (see `Level`)."""
    source: str = ""
    """File and line it was read from, for error messages."""

    @property
    def all_words(self) -> tuple[str, ...]:
        """The words of both segments, as labels of words count them."""
        return (*self.words, *self.second) if self.second else self.words

    @property
    def text(self) -> str:
        """The words of both segments, joined by single spaces."""
        return " ".join(self.all_words)


@dataclass(frozen=True)
class Corpus:
    """Sentences in splits, with one or more labellings of them."""

    name: str
    splits: Mapping[str, tuple[Sentence, ...]]
    levels: Mapping[str, Level]
    """Task name -> level of its labels."""
    notes: tuple[str, ...] = ()
    """Decisions taken while it was made (a dev set cut from train, sentences left out)."""

    def __post_init__(self) -> None:
        if not any(self.splits.values()):
            raise CorpusError(
                f"corpus {self.name!r} has no sentences",
                fix="check the path and that the file's format is the one named",
            )
        for split, sentences in self.splits.items():
            _check_unique_ids(self.name, split, sentences)
            for task, level in self.levels.items():
                for sentence in sentences:
                    _check_annotation(self.name, sentence, task, level)
        for task, level in self.levels.items():
            if level in ("sentence", "sentence_pair"):
                _check_one_kind(self, task)

    def __repr__(self) -> str:
        """Name, sizes and tasks; a corpus has too many words to print."""
        sizes = ", ".join(f"{split} {len(sentences)}" for split, sentences in self.splits.items())
        tasks = ", ".join(f"{task} ({level})" for task, level in self.levels.items()) or "none"
        return f"Corpus({self.name!r}: {sizes} sentences; tasks {tasks})"

    def __getitem__(self, split: str) -> tuple[Sentence, ...]:
        if split not in self.splits:
            raise CorpusError(
                f"corpus {self.name!r} has no split {split!r}; it has {', '.join(self.splits)}",
                fix=f"name a file for {split!r}"
                + (", or cut it from train with hold_out()" if split != "train" else ""),
            )
        return self.splits[split]

    def task(self, name: str) -> "Task":
        """The labelling called `name`."""
        if name not in self.levels:
            known = ", ".join(self.levels) or "none"
            raise CorpusError(
                f"corpus {self.name!r} has no task {name!r}; its tasks: {known}",
                fix="name one of them",
            )
        return self._tasks.setdefault(name, Task(self, name, self.levels[name]))

    @cached_property
    def _tasks(self) -> "dict[str, Task]":
        """Tasks that were asked for: what is derived from one is derived once."""
        return {}

    @cached_property
    def words_digests(self) -> dict[str, str]:
        """By split, hash of what a model is shown."""
        return {split: words_digest(sentences) for split, sentences in self.splits.items()}

    def shared_with_train(self, split: str) -> int:
        """How many sentences of a split are sentences of train too, by their words; 0 of train itself."""
        if split == "train" or "train" not in self.splits:
            return 0
        seen = {(sentence.words, sentence.second) for sentence in self.splits["train"]}
        return sum((sentence.words, sentence.second) in seen for sentence in self[split])

    def limit(self, sentences: int) -> "Corpus":
        """The first so many sentences of every split, for smoke runs."""
        if sentences < 1:
            raise CorpusError(f"a limit of {sentences} sentences of {self.name!r}", fix="take at least 1")
        cut = {split: items[:sentences] for split, items in self.splits.items()}
        note = f"limited to the first {sentences} sentences of every split"
        return replace(self, splits=cut, notes=(*self.notes, note))

    def sample(self, sizes: int | Mapping[str, int], seed: int = 0) -> "Corpus":
        """At most so many sentences, of train or by split, chosen by a seeded hash of their ids; in the old order."""
        sizes = {"train": sizes} if isinstance(sizes, int) else sizes
        cut, notes = dict(self.splits), []
        for split, size in sizes.items():
            whole = self[split]
            if size < 1:
                raise CorpusError(f"a sample of {size} sentences of {split!r} of {self.name!r}", fix="take at least 1")
            if size < len(whole):
                drawn = sorted(whole, key=lambda sentence: digest_json([seed, sentence.id, "sample"]))[:size]
                chosen = {sentence.id for sentence in drawn}
                cut[split] = tuple(sentence for sentence in whole if sentence.id in chosen)
                notes.append(f"{split}: {size} of {len(whole)} sentences, drawn with seed {seed}")
        return replace(self, splits=cut, notes=(*self.notes, *notes))

    def hold_out(self, split: str, fraction: float, seed: int = 0, source: str = "train") -> "Corpus":
        """Cut `split` out of `source` by a seeded hash of sentence ids (order plays no role).

        Pairs that share a sentence, questions about one passage and the halves of a minimal pair stay together.
        """
        if split in self.splits:
            raise CorpusError(
                f"corpus {self.name!r} already has a split {split!r}",
                fix="drop the hold-out, or name another split",
            )
        if not isinstance(fraction, float | int) or not 0 <= fraction <= 1:
            raise CorpusError(
                f"{fraction!r} of {source!r} of {self.name!r} is to be held out as {split!r}",
                fix="choose a share between 0 and 1, such as 0.1",
            )
        threshold = int(fraction * 2**32)
        another = [] if split == "dev" else [split]  # two splits cut from one source are drawn independently
        kept: list[Sentence] = []
        held: list[Sentence] = []
        for sentence, family in zip(self[source], _families(self[source]), strict=True):
            draw = int(digest_json([seed, family, *another], length=8), 16)
            (held if draw < threshold else kept).append(sentence)
        if not held or not kept:
            raise CorpusError(
                f"holding out {fraction:g} of the {len(self[source])} sentences of {source!r} of "
                f"{self.name!r} as {split!r} leaves one side empty",
                fix="choose another fraction",
            )
        note = f"{split}: {len(held)} sentences cut from {source} (fraction {fraction:g}, seed {seed})"
        cut = {**self.splits, source: tuple(kept), split: tuple(held)}
        splits = {name: cut[name] for name in sorted(cut, key=_split_order)}
        return replace(self, splits=splits, notes=(*self.notes, note))


def _families(sentences: Sequence[Sentence]) -> list[str]:
    """Per sentence the least id among those it must not be parted from, as they share a text, however indirectly.

    A text that more than a fifth of them have (a prompt, say) binds none.
    """
    common = Counter(text for sentence in sentences for text in set(_shared_texts(sentence)))
    parent: dict[Any, Any] = {}

    def root(node: Any) -> Any:
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = parent[above]
            node = above
        return node

    for sentence in sentences:
        for text in _shared_texts(sentence):
            if common[text] <= len(sentences) / 5:
                parent[root(text)] = root((sentence.id,))
    least: dict[Any, str] = {}
    for sentence in sentences:
        group = root((sentence.id,))
        least[group] = min(least.get(group, sentence.id), sentence.id)
    return [least[root((sentence.id,))] for sentence in sentences]


def _shared_texts(sentence: Sentence) -> list[Any]:
    """What several examples may be made of."""
    notes = sentence.annotations
    parts = [("text", part) for part in (sentence.words, sentence.second) if sentence.second]
    return [*parts, *((name, notes[name]) for name in ("context", "pair") if name in notes)]


COMPANIONS: dict[str, tuple[str, ...]] = {
    "token": ("head", "deprel"),
    "tree": ("deprel", "upos", "xpos"),
    "span": ("question", "context", "answer_texts", "answer_starts"),
    "sentence": ("pair", "paradigm"),
}
"""Annotations that labels at a level are read with: the place of a word in its tree, relations of heads, the passage an
answer is in, the other half of a minimal pair."""


@dataclass(frozen=True)
class Task:
    """One labelling of a corpus: what a probe is asked to predict."""

    corpus: Corpus
    name: str
    level: Level

    def __repr__(self) -> str:
        """Which labelling of which corpus it is, and of how many sentences."""
        sizes = ", ".join(f"{split} {len(sentences)}" for split, sentences in self.corpus.splits.items())
        return f"Task({self.corpus.name}/{self.name}: labels at level {self.level}; {sizes} sentences)"

    def companions(self, sentence: Sentence) -> dict[str, Any]:
        """What else of a sentence belongs to the task."""
        names = [name for name in COMPANIONS.get(self.level, ()) if name != self.name]
        return {name: sentence.annotations[name] for name in names if name in sentence.annotations}

    def labels(self, split: str) -> list[Any]:
        """The annotation of every sentence of the split, in order; None for text, which has none."""
        if self.level == "text":
            return [None for _ in self.corpus[split]]
        return [sentence.annotations[self.name] for sentence in self.corpus[split]]

    @cached_property
    def label_counts(self) -> Counter[str]:
        """How often each label occurs in train."""
        return Counter(flat_labels(self.labels("train"), self.level))

    @cached_property
    def digests(self) -> dict[str, list[str]]:
        """By split, hashes of words and of labels."""
        return {split: [words, self.digest([split])] for split, words in self.corpus.words_digests.items()}

    def digest(self, splits: Iterable[str]) -> str:
        """Hash of the labels (not of the words) of the splits, and of what belongs to them."""
        splits = list(splits)
        content: list[Any] = [[split, self.labels(split)] for split in splits]
        beside = [[self.companions(sentence) for sentence in self.corpus[split]] for split in splits]
        return digest_json([*content, beside] if any(any(some) for some in beside) else content)


def words_digest(sentences: Sequence[Sentence]) -> str:
    """Hash of what a model is shown: ids and words of every sentence, in order."""
    return digest_chunks(
        "\x1f".join((s.id, "\x1e".join(s.words), "\x1e".join(s.second))).encode("utf-8", "surrogatepass")
        for s in sentences
    )


def stable_ids(texts: Iterable[str]) -> list[str]:
    """Ids made from content alone, so that they survive re-reading and re-ordering.

    Equal texts are told apart by their occurrence: `3f…`, `3f…-2`, `3f…-3`.
    """
    seen: Counter[str] = Counter()
    ids = []
    for text in texts:
        base = digest_chunks([text.encode("utf-8", "surrogatepass")], length=12)
        seen[base] += 1
        ids.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return ids


def with_ids(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The sentences of a file, those without an id under one that is made from their words."""
    found = list(sentences)
    made = stable_ids("\t".join(" ".join(part) for part in (s.words, s.second) if part) for s in found)
    return [s if s.id else replace(s, id=id_) for s, id_ in zip(found, made, strict=True)]


def flat_labels(annotations: Iterable[Any], level: Level) -> Iterable[Any]:
    """The labels of sentences one by one, whatever they are attached to."""
    if level in ("sentence", "sentence_pair"):
        return annotations
    flat = (item for sentence in annotations for item in sentence)
    return (label for item in flat for label in item.labels) if level in ("span", "span_pair") else flat


def _split_order(split: str) -> tuple[int, str]:
    return (SPLITS.index(split) if split in SPLITS else len(SPLITS), split)


def _check_unique_ids(corpus: str, split: str, sentences: Sequence[Sentence]) -> None:
    seen: dict[str, Sentence] = {}
    for sentence in sentences:
        if sentence.id in seen:
            raise CorpusError(
                f"corpus {corpus!r}, split {split!r}: the sentence id {sentence.id!r} occurs twice "
                f"({seen[sentence.id].source or 'first'} and {sentence.source or 'again'})",
                fix="give every sentence an id of its own, or remove the id comments",
            )
        seen[sentence.id] = sentence


def _check_annotation(corpus: str, sentence: Sentence, task: str, level: Level) -> None:
    where = sentence.source or f"sentence {sentence.id}"
    if not sentence.words:
        raise CorpusError(f"corpus {corpus!r}, {where}: a sentence without words", fix="remove it")
    if level == "text":
        return
    if task not in sentence.annotations:
        raise CorpusError(
            f"corpus {corpus!r}, {where}: no annotation {task!r}",
            fix="annotate every sentence, or leave the task out",
        )
    words = len(sentence.all_words)
    if level in ("token", "tree") and len(sentence.annotations[task]) != words:
        raise CorpusError(
            f"corpus {corpus!r}, {where}: {words} words but {len(sentence.annotations[task])} labels of {task!r}",
            fix="give every word exactly one label",
        )
    if level == "tree":
        for word, head in enumerate(sentence.annotations[task]):
            if not isinstance(head, Integral) or isinstance(head, bool):
                raise CorpusError(
                    f"corpus {corpus!r}, {where}: in {task!r} the head of word {word + 1}, "
                    f"{sentence.all_words[word]!r}, is {head!r}",
                    fix="heads are whole numbers: that of the word they are, counted from 1, or 0 for a root",
                )
    if level in ("span", "span_pair"):
        for item in sentence.annotations[task]:
            for start, end in [item[:2]] if level == "span" else item[:2]:
                _check_span(corpus, where, task, start, end, words)


def _check_span(corpus: str, where: str, task: str, start: int, end: int, words: int) -> None:
    if not 0 <= start < end <= words:
        empty = "an empty span" if start == end else "a span outside the sentence"
        raise CorpusError(
            f"corpus {corpus!r}, {where}: {task!r} has {empty}, [{start}, {end}) of {words} words",
            fix="spans are half-open and count words from 0; repair or remove it",
        )


def _check_one_kind(corpus: Corpus, task: str) -> None:
    """Labels of a task are all strings or all numbers: 1 and "1" would count as two labels."""
    first: tuple[bool, Sentence] | None = None
    for sentences in corpus.splits.values():
        for sentence in sentences:
            text = isinstance(sentence.annotations[task], str)
            if first is None:
                first = (text, sentence)
            elif text != first[0]:
                values = [s.annotations[task] for s in (first[1], sentence)]
                raise CorpusError(
                    f"corpus {corpus.name!r}: the labels of {task!r} mix text and numbers: {values[0]!r} "
                    f"({first[1].source or first[1].id}) and {values[1]!r} ({sentence.source or sentence.id})",
                    fix="write all labels the same way",
                )
