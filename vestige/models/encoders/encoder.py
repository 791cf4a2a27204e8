"""The Encoder: one interface over every model that turns words into layers of hidden states."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from vestige.corpus.types import Sentence
from vestige.models.tokens.align import Encoded, Overflow


class Encoder(Protocol):
    """What representations and analyses ask of a model."""

    name: str
    sequential: bool
    """Whether what was run before changes the numbers (a stateful ELMo): sentences then go in order, one by one."""

    @property
    def in_threads(self) -> bool:
        """Whether several threads may run batches at once."""

    @property
    def leaves_out_first(self) -> bool:
        """Whether the hidden state of the first token is an attention sink, of which no vector is made."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of every layer, embeddings (layer 0) first."""

    @property
    def fingerprint(self) -> str:
        """Hash of weights, configuration and tokenizer: equal fingerprints, equal numbers."""

    def encode(self, sentences: Sequence[Sentence], on_overflow: Overflow = "truncate") -> list[Encoded]:
        """Tokens of every sentence, with the words they belong to."""

    def unknown_tokens(self, encoded: Encoded) -> int:
        """How many tokens of words stand for whatever the vocabulary lacks."""

    def hidden_states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        """Per layer a tensor (sentences, tokens, width), padded on the right."""

    def summary_position(self, encoded: Encoded) -> int:
        """Position of the token that stands for the sentence (CLS; the last token of decoders)."""

    def reset(self) -> None:
        """Forget what was run before; only a sequential encoder remembers any of it."""

    def describe(self) -> dict[str, Any]:
        """What study.lock.json keeps of a model."""

    def random_twin(self, seed: int) -> "Encoder":
        """The same architecture with freshly drawn weights."""


def placed(encoder: Encoder) -> list[str]:
    """What the kind of device adds to the name of a result: nothing on a CPU; numbers of others differ slightly."""
    kind = getattr(getattr(encoder, "device", None), "type", "cpu")
    return [] if kind == "cpu" else [kind]


def one_line(encoder: Any, kind: str, parameters: int, limit: int | None, device: object) -> str:
    """What an encoder is, for its repr: name, family, size, limit and place."""
    widths = " or ".join(map(str, sorted({*encoder.widths})))
    reads = "" if limit is None else f", reads {limit} tokens"
    return (
        f"{type(encoder).__name__}({encoder.name!r}: {kind}, {len(encoder.widths) - 1} blocks x {widths}, "
        f"{parameters / 1e6:.1f}M parameters{reads}, on {device})"
    )
