"""Does a model put an attention sink on the first token of a sentence? Found from its hidden states, not its name.

Decoders need a place for attention that is not wanted anywhere, and training makes it the first token: its hidden
state becomes 10 to 170 times as long as that of any other token (Xiao et al. 2024, Sun et al. 2024). What is left of
the token's own content is a tiny share of it, and a probe that scales a layer by its size then sees little else.
"""

from typing import Any

import torch

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError

TIMES = 10.0
"""A first token whose hidden state is so many times as long as the sentence's median is a sink. Without a sink it
is at most 3 times as long in the models that were tried."""

_SENTENCES = (
    "The small dog sleeps near an old wooden door , and nobody minds .",
    "We saw two birds over the lake before it began to rain .",
    "Every spring people paint their boats in bright colours again .",
)


@torch.inference_mode()
def has_sink(encoder: Any) -> bool:
    """Whether at some layer the first token of every sentence is `TIMES` as long as the sentence's median token."""
    try:
        batch = encoder.encode([Sentence(text, tuple(text.split())) for text in _SENTENCES])
    except CorpusError:  # a limit of a few tokens
        return False
    if any(encoded.word_of[0] < 0 or len(encoded.ids) < 3 for encoded in batch):
        return False
    for state in encoder.hidden_states(batch):
        lengths = state.float().norm(dim=-1)
        own = [row[: len(encoded.ids)] for row, encoded in zip(lengths, batch, strict=True)]
        if all(bool(row[0] > TIMES * row[1:].median()) for row in own):
            return True
    return False
