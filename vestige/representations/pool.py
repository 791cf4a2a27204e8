"""From token vectors to word and sentence vectors.

A pooling is a name: word poolings (`first`, `last`, `mean`, `max` of a word's tokens) give a row
per word, sentence poolings (`cls`, `sentence_mean`, `sentence_word_mean`, `sentence_last`,
`sentence_max`) a row per sentence; `sentence_word_mean` leaves special tokens out. `pieces` pools
nothing: a row for every token of a word. All take the hidden states of one layer for one batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from vestige.models.encoders.encoder import Encoder
from vestige.models.tokens.align import SINK, Encoded, without_sink

WordPooling = Literal["first", "last", "mean", "max"]
SentencePooling = Literal["cls", "sentence_mean", "sentence_word_mean", "sentence_last", "sentence_max"]
Pooling = Literal[WordPooling, SentencePooling]
SpanPooling = Literal[WordPooling, "pieces"]
AnyPooling = Literal[Pooling, "pieces"]
WORD_POOLINGS = get_args(WordPooling)
SENTENCE_POOLINGS = get_args(SentencePooling)
POOLINGS = get_args(AnyPooling)


@dataclass(frozen=True)
class Groups:
    """Which tokens of a padded batch form which row: token k belongs to row `row[k]`.

    What follows from that is the same for all layers and kept: a GPU would be waited for each time.
    """

    sentence: Tensor
    position: Tensor
    row: Tensor
    rows: int

    @cached_property
    def sizes(self) -> Tensor:
        """Tokens per row; 0 for a word that vanished."""
        return torch.bincount(self.row, minlength=self.rows)

    @cached_property
    def firsts(self) -> Tensor:
        """Which tokens are the first of their row."""
        starts = torch.ones_like(self.row, dtype=torch.bool)
        starts[1:] = self.row[1:] != self.row[:-1]
        return starts.nonzero()[:, 0]

    @cached_property
    def lasts(self) -> Tensor:
        """Which tokens are the last of their row."""
        ends = torch.ones_like(self.row, dtype=torch.bool)
        ends[:-1] = self.row[1:] != self.row[:-1]
        return ends.nonzero()[:, 0]


def word_groups(batch: Sequence[Encoded], device: torch.device) -> Groups:
    """A row for every kept word of every sentence, in order."""
    sentence, position, row = [], [], []
    start = 0
    for index, encoded in enumerate(batch):
        for place, word in enumerate(encoded.word_of):
            if word >= 0:
                sentence.append(index)
                position.append(place)
                row.append(start + word)
        start += encoded.kept
    return _groups(sentence, position, row, start, device)


def piece_groups(batch: Sequence[Encoded], device: torch.device) -> Groups:
    """A row for every token of a word."""
    words = word_groups(batch, device)
    return Groups(words.sentence, words.position, torch.arange(len(words.row), device=device), len(words.row))


def sentence_groups(batch: Sequence[Encoded], device: torch.device, specials: bool = True) -> Groups:
    """A row for every sentence: all its tokens, with or without special ones; no sink, unless nothing else is there."""
    sentence: list[int] = []
    position: list[int] = []
    for index, encoded in enumerate(batch):
        places = [p for p, word in enumerate(encoded.word_of) if word >= 0 or (specials and word != SINK)]
        if not places and encoded.sink_word is not None:
            places = [0]
        sentence += [index] * len(places)
        position += places
    return _groups(sentence, position, sentence, len(batch), device)


def summary_groups(batch: Sequence[Encoded], encoder: Encoder, device: torch.device) -> Groups:
    """A row for every sentence: the one token that stands for it."""
    position = [encoder.summary_position(encoded) for encoded in batch]
    return _groups(range(len(batch)), position, range(len(batch)), len(batch), device)


def _groups(
    sentence: Sequence[int], position: Sequence[int], row: Sequence[int], rows: int, device: torch.device
) -> Groups:
    def tensor(values: Sequence[int]) -> Tensor:
        return torch.tensor(list(values), dtype=torch.long, device=device)

    return Groups(tensor(sentence), tensor(position), tensor(row), rows)


def reduce_first(states: Tensor, groups: Groups) -> Tensor:
    """The first token of every row; zeros for empty rows."""
    return _pick(states, groups, groups.firsts)


def reduce_last(states: Tensor, groups: Groups) -> Tensor:
    """The last token of every row; zeros for empty rows."""
    return _pick(states, groups, groups.lasts)


def reduce_mean(states: Tensor, groups: Groups) -> Tensor:
    """The mean of a row's tokens; zeros for empty rows."""
    out = states.new_zeros(groups.rows, states.shape[-1])
    out.index_add_(0, groups.row, states[groups.sentence, groups.position])
    return out / groups.sizes.clamp(min=1).unsqueeze(1)


def reduce_max(states: Tensor, groups: Groups) -> Tensor:
    """The largest value per neuron over a row's tokens; zeros for empty rows."""
    out = states.new_zeros(groups.rows, states.shape[-1])
    index = groups.row.unsqueeze(1).expand(-1, states.shape[-1])
    values = states[groups.sentence, groups.position]
    return out.scatter_reduce_(0, index, values, reduce="amax", include_self=False)


def _pick(states: Tensor, groups: Groups, chosen: Tensor) -> Tensor:
    out = states.new_zeros(groups.rows, states.shape[-1])
    out[groups.row[chosen]] = states[groups.sentence[chosen], groups.position[chosen]]
    return out


REDUCE: dict[str, Callable[[Tensor, Groups], Tensor]] = {
    "first": reduce_first,
    "last": reduce_last,
    "mean": reduce_mean,
    "max": reduce_max,
    "pieces": reduce_first,
    "cls": reduce_first,
    "sentence_mean": reduce_mean,
    "sentence_word_mean": reduce_mean,
    "sentence_last": reduce_last,
    "sentence_max": reduce_max,
}


def readable(encoder: Encoder, encoded: Sequence[Encoded]) -> list[Encoded]:
    """The sentences as vectors are made of them: without the first token where it is a sink that is left out."""
    return [without_sink(sentence) for sentence in encoded] if encoder.leaves_out_first else list(encoded)


def groups_for(pooling: str, batch: Sequence[Encoded], encoder: Encoder, device: torch.device) -> Groups:
    """The rows that a pooling makes of a batch; a sink that is left out is in none of them."""
    batch = readable(encoder, batch)
    if pooling in WORD_POOLINGS:
        return word_groups(batch, device)
    if pooling == "pieces":
        return piece_groups(batch, device)
    if pooling == "cls":
        return summary_groups(batch, encoder, device)
    return sentence_groups(batch, device, specials=pooling != "sentence_word_mean")
