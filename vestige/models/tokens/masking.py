"""What a language model is asked: which tokens of a text to hide, and which to tell.

Patterns depend on the text, the tokenizer and a seed only, never on a model's weights, so that
every model that reads the same tokens is asked the same questions (`digest` is their hash).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from vestige.corpus.types import Sentence
from vestige.digest import digest_json
from vestige.errors import CorpusError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.tokens.align import Encoded, align, encode_words

Hide = Literal["token", "rest_of_word", "word"]
"""What is hidden together with a token: nothing, the later tokens of its word, or all tokens of its word."""

Corrupt = Literal["bert", "mask"]
"""What is put in place of a chosen token: BERT's 80 % mask, 10 % a random token, 10 % itself; or always the mask."""


@dataclass(frozen=True, slots=True)
class Cloze:
    """One text as a model sees it, and what it is asked about it."""

    encoded: Encoded
    targets: tuple[int, ...]
    """Positions whose tokens are to be predicted."""
    answers: tuple[int, ...]
    hidden: tuple[int, ...]
    """Positions that permutation models may not look at; elsewhere the mask token says it."""
    unit: int
    """Number of the sentence or block."""


def uncut(encoder: HuggingFaceEncoder, sentences: Sequence[Sentence]) -> Iterator[Encoded]:
    """Sentences as tokens, however long."""
    return align(partial(encode_words, encoder.tokenizer), sentences)


def text_blocks(encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], length: int) -> list[Encoded]:
    """All word tokens in a row, cut into texts of `length` tokens, special ones included; a shorter rest is dropped."""
    frame = encoder.encode([Sentence("frame", ("a",))])[0]
    places = [place for place, word in enumerate(frame.word_of) if word >= 0]
    before, after = places[0], len(frame.ids) - places[-1] - 1
    length = min(length, encoder.limit or length)
    room = length - before - after
    if room < 1:
        raise CorpusError(f"a block of {length} tokens has no room for words", fix="choose longer blocks")
    tokens: list[tuple[int, int]] = []
    shift = 0
    for encoded in uncut(encoder, [s for s in sentences if s.words or s.second]):
        tokens += [(t, w + shift) for t, w in zip(encoded.ids, encoded.word_of, strict=True) if w >= 0]
        shift += encoded.words
    if len(tokens) < room:
        raise CorpusError(
            f"the text has {len(tokens)} tokens, but a block takes {room}", fix="choose shorter blocks, or sentences"
        )
    made = []
    for start in range(0, len(tokens) - room + 1, room):
        ids, words = zip(*tokens[start : start + room], strict=True)
        number = {word: index for index, word in enumerate(dict.fromkeys(words))}
        made.append(
            Encoded(
                (*frame.ids[:before], *ids, *frame.ids[len(frame.ids) - after :]),
                (*frame.type_ids[:before], *[frame.type_ids[before]] * room, *frame.type_ids[len(frame.ids) - after :]),
                (*frame.word_of[:before], *map(number.__getitem__, words), *frame.word_of[len(frame.ids) - after :]),
                len(number),
                len(number),
            )
        )
    return made


def mask_randomly(
    texts: Sequence[Encoded], mask: int | None, vocabulary: int, rate: float, seed: int, corrupt: Corrupt = "bert"
) -> Iterator[Cloze]:
    """A share of every text's word tokens chosen at random, seeded by text; `mask` None leaves all tokens in place."""
    for unit, encoded in enumerate(texts):
        rng = np.random.default_rng([seed, unit])
        draws = rng.random((2, len(encoded.ids)))
        others = rng.integers(0, vocabulary, len(encoded.ids))
        chosen = [place for place, word in enumerate(encoded.word_of) if word >= 0 and draws[0, place] < rate]
        ids = list(encoded.ids)
        for place in chosen if mask is not None else ():
            if corrupt == "mask" or draws[1, place] < 0.8:
                ids[place] = mask
            elif draws[1, place] < 0.9:
                ids[place] = int(others[place])
        if chosen:
            yield _cloze(encoded, ids, chosen, chosen, unit)


def mask_each(texts: Iterable[tuple[int, Encoded]], mask: int | None, hide: Hide = "token") -> Iterator[Cloze]:
    """Every word token of numbered texts, one at a time; `mask` None leaves all tokens in place."""
    for unit, encoded in texts:
        for place, word in enumerate(encoded.word_of):
            if word < 0:
                continue
            hidden = [place]
            if hide != "token":
                start = place if hide == "rest_of_word" else 0
                hidden = [other for other, its in enumerate(encoded.word_of) if its == word and other >= start]
            ids = list(encoded.ids)
            for other in hidden if mask is not None else ():
                ids[other] = mask
            yield _cloze(encoded, ids, [place], hidden, unit)


def next_tokens(texts: Iterable[tuple[int, Encoded]]) -> Iterator[Cloze]:
    """Every word token of numbered texts after what stands before it; nothing stands before a first token."""
    for unit, encoded in texts:
        targets = [place for place, word in enumerate(encoded.word_of) if word >= 0 and place > 0]
        if targets:
            yield _cloze(encoded, list(encoded.ids), targets, [], unit)


def digest(clozes: Iterable[Cloze]) -> str:
    """Hash of what is shown and asked."""
    return digest_json([[c.unit, c.encoded.ids, c.targets, c.answers, c.hidden] for c in clozes])


def _cloze(encoded: Encoded, shown: list, targets: list[int], hidden: list[int], unit: int) -> Cloze:
    answers = tuple(encoded.ids[place] for place in targets)
    return Cloze(replace(encoded, ids=tuple(shown)), tuple(targets), answers, tuple(hidden), unit)
