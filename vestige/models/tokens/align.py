"""Words to sub-words: which word every token came from, which words got none, which did not fit.

The tokenizer itself says which word a token belongs to (`word_ids`); nothing is guessed from
surface strings. Words that vanish in the tokenizer and words past the model's limit are
recorded, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError, ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Overflow = Literal["truncate", "error", "cut"]
"""Of a sentence that is too long: leave its last words out, refuse it, or, where not even its first word fits, keep the
first tokens of that word."""

SPECIAL = -1
"""The word index of a token that belongs to no word ([CLS], <sep>, ...)."""

SINK = -2
"""The word index of an attention sink, put before the sentence or left out of it; no sentence mean has it."""

_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sentence as token ids."""

    ids: tuple[Any, ...]
    """Token ids; in character models, per word its character ids."""
    type_ids: tuple[int, ...]
    word_of: tuple[int, ...]
    """Per token the index of its word, counted over both segments; SPECIAL or SINK for tokens of none."""
    words: int
    """How many words the sentence has."""
    kept: int
    """How many of them, from the left, fitted into the model's limit."""
    sink_word: int | None = None
    """The word whose first token is an attention sink that is left out: that token's word index is SINK."""

    @property
    def vanished(self) -> list[int]:
        """Kept words for which the tokenizer made no token at all."""
        present = {*self.word_of, self.sink_word}
        return [word for word in range(self.kept) if word not in present]

    @property
    def sunk(self) -> list[int]:
        """Words that have no token but the sink."""
        return [] if self.sink_word is None or self.sink_word in self.word_of else [self.sink_word]


Encode = Callable[[Sequence[Sentence]], list[Encoded]]
"""All tokens of sentences that are all single or all pairs, however long."""


def align(
    encode: Encode, sentences: Sequence[Sentence], limit: int | None = None, on_overflow: Overflow = "truncate"
) -> Iterator[Encoded]:
    """Encode every sentence within `limit` tokens, special ones included."""
    for start in range(0, len(sentences), _CHUNK):
        chunk = sentences[start : start + _CHUNK]
        paired = any(sentence.second for sentence in chunk)
        groups = [[s] for s in chunk] if paired else [list(chunk)]
        for group in groups:
            for sentence, encoded in zip(group, encode(group), strict=True):
                if not encoded.ids:
                    raise CorpusError(
                        f"{sentence.source or f'sentence {sentence.id}'}: the tokenizer makes no token of it at all",
                        fix="remove the sentence",
                    )
                if limit is None or len(encoded.ids) <= limit:
                    yield encoded
                else:
                    yield _shorten(encode, sentence, encoded, limit, on_overflow)


def encode_words(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence]) -> list[Encoded]:
    """Words as they are, with the tokenizer's own special tokens."""
    pairs = [list(s.second) for s in sentences] if sentences[0].second else None
    try:
        batch = tokenizer(
            [list(s.words) for s in sentences],
            pairs,
            is_split_into_words=True,
            return_token_type_ids=True,
            return_attention_mask=False,
            truncation=False,
            padding=False,
            verbose=False,
        )
    except TypeError:
        _find_broken_text(sentences)
        raise
    encoded = []
    for index, sentence in enumerate(sentences):
        shift = (0, len(sentence.words))
        word_of = tuple(
            SPECIAL if word is None or segment is None else word + shift[segment]
            for word, segment in zip(batch.word_ids(index), batch.sequence_ids(index), strict=True)
        )
        words = len(sentence.words) + len(sentence.second)
        ids, types = tuple(batch["input_ids"][index]), tuple(batch["token_type_ids"][index])
        encoded.append(Encoded(ids, types, word_of, words, words))
    return encoded


def _find_broken_text(sentences: Sequence[Sentence]) -> None:
    """Half a surrogate pair is no text; JSON can hold it, tokenizers cannot."""
    for sentence in sentences:
        for word in sentence.all_words:
            if any("\ud800" <= character <= "\udfff" for character in word):
                raise CorpusError(
                    f"{sentence.source or f'sentence {sentence.id}'}: the word {word!r} is not valid Unicode",
                    fix="repair or remove the word",
                )


def with_sink(token: int | None, encoded: Encoded) -> Encoded:
    """The sentence with `token` before it, unless it begins with a special token already."""
    if encoded.word_of[:1] == (SPECIAL,):
        return encoded
    if token is None:
        raise ModelError("the tokenizer has neither BOS nor EOS to put before a sentence", fix="leave `sink` out")
    return Encoded((token, *encoded.ids), (0, *encoded.type_ids), (SINK, *encoded.word_of), encoded.words, encoded.kept)


def without_sink(encoded: Encoded) -> Encoded:
    """The same tokens, of which the first belongs to no word, unless it is a special one."""
    if encoded.word_of[0] < 0:
        return encoded
    return replace(encoded, word_of=(SINK, *encoded.word_of[1:]), sink_word=encoded.word_of[0])


def _shorten(
    encode: Encode,
    sentence: Sentence,
    encoded: Encoded,
    limit: int,
    on_overflow: Overflow,
) -> Encoded:
    """Drop whole words from the end until the sentence and its special tokens fit."""
    where = sentence.source or f"sentence {sentence.id}"
    if on_overflow == "error":
        raise CorpusError(
            f"{where}: {len(encoded.ids)} tokens, but the model takes {limit}",
            fix='shorten it, or set on_overflow="truncate" (dropped words are counted)',
        )
    specials = sum(word < 0 for word in encoded.word_of)
    room = limit - specials
    kept = min((word for word in encoded.word_of[_nth_word_token(encoded, room) :] if word >= 0), default=0)
    while kept > len(sentence.words) * bool(sentence.second):
        first, second = sentence.words[:kept], sentence.second[: max(0, kept - len(sentence.words))]
        if sentence.second and not second:
            break
        shorter = encode([Sentence(sentence.id, first, second)])[0]
        if len(shorter.ids) <= limit:
            return Encoded(shorter.ids, shorter.type_ids, shorter.word_of, encoded.words, kept)
        kept -= 1
    if on_overflow == "cut" and not sentence.second:
        return _cut(encoded, room)
    raise CorpusError(
        f"{where}: not even the first {'segment and a word of the second fit' if sentence.second else 'word fits'} "
        f"into {limit} tokens",
        fix="shorten the sentence or leave it out",
    )


def _cut(encoded: Encoded, room: int) -> Encoded:
    """The first `room` tokens of the first word, among the special ones."""
    end = _nth_word_token(encoded, room)
    places = [place for place, word in enumerate(encoded.word_of) if word < 0 or place < end]
    ids, types, words = (
        tuple(column[place] for place in places) for column in (encoded.ids, encoded.type_ids, encoded.word_of)
    )
    return Encoded(ids, types, words, encoded.words, 1)


def _nth_word_token(encoded: Encoded, room: int) -> int:
    """Position of the first word token that no longer fits when `room` tokens may be words."""
    seen = 0
    for position, word in enumerate(encoded.word_of):
        if word >= 0:
            seen += 1
            if seen > room:
                return position
    return len(encoded.word_of)
