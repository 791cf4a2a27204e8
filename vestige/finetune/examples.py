"""Sentences and pairs as a model is shown them in training, cut to the limit and batched by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError
from vestige.models.tokens.align import Encoded, align, encode_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Example:
    """One input of a model with what it should give."""

    item: int
    """Which sentence of the split it belongs to."""
    encoded: Encoded
    target: Any
    """Its form is the problem's own."""
    units: int = 1
    """How many labels it holds: the loss is a mean over labels."""
    note: Any = None
    """What the problem needs to read an answer off the model's output."""


def encode(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], limit: int) -> tuple[list[Encoded], int]:
    """All sentences within `limit` tokens, and how many of them were cut.

    A sentence loses its last words, and of a first word that fills the limit the last tokens; of a pair, the
    longer segment loses words, one by one.
    """
    single = [i for i, sentence in enumerate(sentences) if not sentence.second]
    paired = [i for i, sentence in enumerate(sentences) if sentence.second]
    found: list[Encoded | None] = [None] * len(sentences)
    plain = partial(encode_words, tokenizer)
    for i, encoded in zip(single, align(plain, [sentences[i] for i in single], limit, "cut"), strict=True):
        found[i] = encoded
    for start in range(0, len(paired), _CHUNK):
        chunk = paired[start : start + _CHUNK]
        for i, encoded in zip(chunk, plain([sentences[i] for i in chunk]), strict=True):
            found[i] = encoded if len(encoded.ids) <= limit else _shorten(tokenizer, sentences[i], encoded, limit)
    done = [encoded for encoded in found if encoded is not None]
    return done, sum(encoded.kept < encoded.words for encoded in done)


def _shorten(tokenizer: PreTrainedTokenizerBase, sentence: Sentence, encoded: Encoded, limit: int) -> Encoded:
    """Drop last words of the segment that has more tokens until both fit."""
    tokens = np.bincount([word for word in encoded.word_of if word >= 0], minlength=encoded.words)
    sizes = [list(tokens[: len(sentence.words)]), list(tokens[len(sentence.words) :])]
    specials = len(encoded.ids) - int(tokens.sum())
    while min(map(len, sizes)):
        if specials + sum(map(sum, sizes)) <= limit:
            first, second = sentence.words[: len(sizes[0])], sentence.second[: len(sizes[1])]
            shorter = encode_words(tokenizer, [Sentence(sentence.id, first, second)])[0]
            if len(shorter.ids) <= limit:
                return Encoded(shorter.ids, shorter.type_ids, shorter.word_of, encoded.words, len(first) + len(second))
        max(sizes, key=sum).pop()
    raise CorpusError(
        f"{sentence.source or f'sentence {sentence.id}'}: not even a word of each segment fits into {limit} tokens",
        fix="raise max_tokens, or leave the pair out",
    )


def batches(lengths: Sequence[int], size: int, rng: np.random.Generator | None = None) -> Iterator[list[int]]:
    """Batches of similar lengths: shuffled, sorted within pools of sixteen batches, shuffled again."""
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    pool = 16 * size
    made = []
    for start in range(0, len(order), pool):
        part = sorted(order[start : start + pool], key=lambda number: lengths[number])
        made += [[int(i) for i in part[at : at + size]] for at in range(0, len(part), size)]
    for index in range(len(made)) if rng is None else rng.permutation(len(made)):
        yield made[index]


def out_of_memory(error: RuntimeError) -> bool:
    """Whether that is what an error of torch is about."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
