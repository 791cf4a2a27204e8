"""`represent`: one streamed pass of a model over sentences gives every layer of every pooling."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.cache import cache_folder, explaining_storage, writing
from vestige.corpus.types import Sentence, words_digest
from vestige.digest import digest_json
from vestige.errors import RepresentationError
from vestige.models.encoders.encoder import Encoder, placed
from vestige.models.tokens.align import Encoded, Overflow
from vestige.progress import bar
from vestige.representations.pool import POOLINGS, REDUCE, WORD_POOLINGS, groups_for, readable
from vestige.representations.store import (
    FORMAT,
    Representations,
    create_layers,
    stored,
    write_manifest,
)

Dtype = Literal["float32", "float16"]
Vanished = Literal["zero", "error", "skip"]
"""What to do with a word the tokenizer makes nothing of: a zero vector, stop, or no row."""

BATCH_TOKENS = 4096
"""Tokens, padding included, that a model sees at once."""
ENOUGH_TOKENS, PADDED_SHARE = 512, 0.05
"""A batch of so many tokens is closed rather than filled with sentences that would be padded by a larger share."""


def represent(
    encoder: Encoder,
    sentences: Sequence[Sentence],
    poolings: Sequence[str] = ("last",),
    *,
    dtype: Dtype = "float32",
    on_overflow: Overflow = "truncate",
    on_vanished: Vanished = "zero",
    cache: Path | None = None,
    name: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> dict[str, Representations]:
    """The representations of the sentences, by pooling; what the cache has is not computed again.

    The cache knows a model by the hash of its weights, or by the `name` of one that was named before it was loaded.
    """
    unknown = [pooling for pooling in poolings if pooling not in POOLINGS]
    if unknown:
        raise RepresentationError(f"unknown pooling {unknown[0]!r}", fix=f"choose from {', '.join(POOLINGS)}")
    how = [dtype, on_overflow, on_vanished, *placed(encoder)]
    root = kept_in(name or encoder.fingerprint, words_digest(sentences), how, cache_folder(cache))
    with explaining_storage(root):
        missing = [pooling for pooling in poolings if not stored(root / pooling)]
    if missing:
        encoded = readable(encoder, encoder.encode(sentences, on_overflow))
        _check_vanished(sentences, encoded, encoder.name, on_vanished)
        with ExitStack() as stack:
            writers = {
                pooling: _Writer(
                    stack.enter_context(writing(root / pooling)), pooling, encoded, encoder, dtype, on_vanished
                )
                for pooling in missing
            }
            _run(encoder, sentences, encoded, writers, batch_tokens)
            for writer in writers.values():
                writer.finish(encoder, sentences, encoded)
    return {pooling: Representations.open(root / pooling) for pooling in poolings}


def kept_in(model: str, words: str, how: Sequence[str], cache: Path) -> Path:
    """The folder with the poolings of sentences (by the digest of their words) read by a model in a way."""
    return cache / "representations" / digest_json([FORMAT, model, words, *how])


class _Writer:
    """Receives pooled rows of one pooling in any order of sentences and puts them in their place."""

    def __init__(
        self,
        folder: Path,
        pooling: str,
        encoded: Sequence[Encoded],
        encoder: Encoder,
        dtype: Dtype,
        on_vanished: Vanished,
    ) -> None:
        self.folder, self.pooling = folder, pooling
        self.rows = [_rows_of(sentence, pooling, on_vanished) for sentence in encoded]
        self.starts = np.concatenate([[0], np.cumsum([len(rows.words) for rows in self.rows], dtype=int)])
        self.layers = create_layers(folder, int(self.starts[-1]), encoder.widths, dtype)

    def add(self, layer: int, numbers: Sequence[int], pooled: Tensor) -> None:
        target = self.layers[layer]
        with np.errstate(over="ignore"):  # `finish` looks for it
            values = pooled.numpy().astype(target.dtype, copy=False)
        at = 0
        for number in numbers:
            target[self.starts[number] : self.starts[number + 1]] = values[at + self.rows[number].kept]
            at += self.rows[number].pooled

    def finish(self, encoder: Encoder, sentences: Sequence[Sentence], encoded: Sequence[Encoded]) -> None:
        for layer, array in enumerate(self.layers):
            if array.dtype == np.float16 and not np.isfinite(array).all():
                raise RepresentationError(
                    f"{encoder.name}, layer {layer}: values too large for float16",
                    fix="use float32 representations",
                )
            array.flush()
        numbers = np.repeat(np.arange(len(self.rows)), np.diff(self.starts))
        words = np.concatenate([rows.words for rows in self.rows]) if self.rows else np.empty(0, dtype=int)
        write_manifest(
            self.folder,
            np.stack([numbers, words], axis=1).astype(np.int32),
            {
                "model": encoder.name,
                "fingerprint": encoder.fingerprint,
                "pooling": self.pooling,
                "widths": list(encoder.widths),
                "rows": int(self.starts[-1]),
                "sentences": len(encoded),
                "words": sum(sentence.words for sentence in encoded),
                "truncated_sentences": sum(sentence.kept < sentence.words for sentence in encoded),
                "truncated_words": sum(sentence.words - sentence.kept for sentence in encoded),
                "vanished_words": sum(len(sentence.vanished) for sentence in encoded),
                "sink_words": sum(len(sentence.sunk) for sentence in encoded),
                "word_tokens": sum(word >= 0 for sentence in encoded for word in sentence.word_of),
                "unknown_tokens": sum(encoder.unknown_tokens(sentence) for sentence in encoded),
                "words_digest": words_digest(sentences),
                "tokens": digest_json([sentence.ids for sentence in encoded]),
            },
        )


@dataclass(frozen=True)
class _Rows:
    """The rows of one sentence."""

    words: np.ndarray
    """The word of every row; -1: the row is the sentence's."""
    kept: np.ndarray
    """Which of the rows that pooling makes they are."""
    pooled: int
    """How many it makes."""


def _rows_of(encoded: Encoded, pooling: str, on_vanished: Vanished) -> _Rows:
    if pooling == "pieces":
        words = np.array([word for word in encoded.word_of if word >= 0], dtype=int)
        return _Rows(words, np.arange(len(words)), len(words))
    if pooling not in WORD_POOLINGS:
        return _Rows(np.array([-1]), np.array([0]), 1)
    gone = {*encoded.sunk, *(encoded.vanished if on_vanished == "skip" else ())}
    words = np.array([word for word in range(encoded.kept) if word not in gone], dtype=int)
    return _Rows(words, words, encoded.kept)


def _run(
    encoder: Encoder,
    sentences: Sequence[Sentence],
    encoded: Sequence[Encoded],
    writers: dict[str, _Writer],
    batch_tokens: int,
) -> None:
    def read(numbers: list[int]) -> int:
        batch = [encoded[number] for number in numbers]
        states = encoder.hidden_states(batch)
        for pooling, writer in writers.items():
            groups = groups_for(pooling, batch, encoder, states[0].device)
            for layer, state in enumerate(states):
                rows = REDUCE[pooling](state, groups).to("cpu", torch.float32)
                if not torch.isfinite(rows).all():
                    raise RepresentationError(
                        f"{encoder.name}, layer {layer}: NaN or infinite activations, for example in the "
                        f"batch that holds {sentences[numbers[0]].source or sentences[numbers[0]].id!r}",
                        fix="check the weights; a model tuned to divergence or loaded in half precision gives such "
                        "values",
                    )
                writer.add(layer, numbers, rows)
        return len(batch)

    batches = batches_for(encoder, encoded, batch_tokens)
    with bar(f"hidden states of {encoder.name}", len(encoded)) as shown:
        for count in _in_threads(read, batches) if encoder.in_threads else map(read, batches):
            shown.advance(count)


def _in_threads(read: Callable[[list[int]], int], batches: Iterable[list[int]]) -> Iterator[int]:
    """As many batches at a time as torch has threads, each by one of them: the numbers are those of one thread."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield from map(read, batches)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(read, batches)
    finally:
        torch.set_num_threads(threads)


def batches_for(encoder: Encoder, encoded: Sequence[Encoded], tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Numbers of sentences to run together: of similar length, or one by one for a sequential encoder."""
    if encoder.sequential:
        encoder.reset()
        return ([number] for number in range(len(encoded)))
    return batches_by_length([len(sentence.ids) for sentence in encoded], tokens)


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Numbers of sentences of similar length, at most `tokens` padded tokens a batch (at least one)."""
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    batch: list[int] = []
    for number in order:
        longest = lengths[batch[0]] if batch else 0
        full = (len(batch) + 1) * longest > tokens
        unlike = len(batch) * longest >= ENOUGH_TOKENS and lengths[number] < (1 - PADDED_SHARE) * longest
        if batch and (full or unlike):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _check_vanished(sentences: Sequence[Sentence], encoded: Sequence[Encoded], name: str, policy: Vanished) -> None:
    if policy != "error":
        return
    for sentence, tokens in zip(sentences, encoded, strict=True):
        for word in tokens.vanished:
            raise RepresentationError(
                f"{sentence.source or sentence.id}: the tokenizer of {name} makes no token of word "
                f"{word + 1}, {sentence.all_words[word]!r}",
                fix='remove the word, or set on_vanished="zero" or "skip"',
            )
