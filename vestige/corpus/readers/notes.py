"""Sentences that come with remarks on what their reader left out."""

from collections.abc import Iterable

from vestige.corpus.types import Sentence


class Noted(list[Sentence]):
    """The sentences of a split; `notes` says what was left out of it and why, for `Corpus.notes`."""

    def __init__(self, sentences: Iterable[Sentence] = (), notes: Iterable[str] = ()) -> None:
        super().__init__(sentences)
        self.notes = tuple(notes)
