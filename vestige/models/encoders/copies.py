"""Copies of a model that hold what it holds: the same hidden states rotated, or with a little noise.

Whatever a method finds between a model and such a copy is no finding. Every analysis that is compared is
tried on copies before it is believed.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vestige.corpus.types import Sentence
from vestige.digest import digest_json
from vestige.errors import ModelError
from vestige.models.encoders.encoder import Encoder
from vestige.models.tokens.align import Encoded, Overflow


class CopiedEncoder:
    """An encoder whose hidden states are those of another, rotated by one rotation for all layers, plus noise.

    `noise` is a share of the root mean square of a sentence's hidden states at a layer. It is drawn anew for every
    sentence, layer and seed, and is the same in any batch.
    """

    def __init__(self, encoder: Encoder, seed: int, *, rotated: bool = False, noise: float = 0.0) -> None:
        self.encoder, self.seed, self.rotated, self.noise = encoder, seed, rotated, noise
        self.name = f"{'rotated ' if rotated else ''}copy {seed} of {encoder.name}"
        self.sequential = encoder.sequential

    @property
    def in_threads(self) -> bool:
        return self.encoder.in_threads

    @property
    def leaves_out_first(self) -> bool:
        return self.encoder.leaves_out_first

    @property
    def widths(self) -> tuple[int, ...]:
        return self.encoder.widths

    @property
    def fingerprint(self) -> str:
        return digest_json([self.encoder.fingerprint, "copy", self.seed, self.rotated, self.noise])

    @cached_property
    def _rotations(self) -> dict[int, Tensor]:
        """By width; layers of one width share theirs, as those of a residual stream would."""
        found = {}
        for width in set(self.widths) if self.rotated else ():
            drawn = np.random.default_rng([self.seed, width]).normal(size=(width, width))
            found[width] = torch.from_numpy(np.linalg.qr(drawn)[0]).float()
        return found

    def encode(self, sentences: Sequence[Sentence], on_overflow: Overflow = "truncate") -> list[Encoded]:
        return self.encoder.encode(sentences, on_overflow)

    def unknown_tokens(self, encoded: Encoded) -> int:
        return self.encoder.unknown_tokens(encoded)

    def hidden_states(self, batch: Sequence[Encoded]) -> tuple[Tensor, ...]:
        return tuple(self._copied(at, states, batch) for at, states in enumerate(self.encoder.hidden_states(batch)))

    def _copied(self, layer: int, states: Tensor, batch: Sequence[Encoded]) -> Tensor:
        copied = states @ self._rotations[states.shape[-1]] if self.rotated else states.clone()
        for row, encoded in enumerate(batch) if self.noise else ():
            mine = copied[row, : len(encoded.ids)]
            key = int(digest_json([list(encoded.ids), layer, self.seed], length=12), 16)
            drawn = torch.randn(mine.shape, generator=torch.Generator().manual_seed(key))
            mine += self.noise * float(mine.square().mean().sqrt()) * drawn
        return copied

    def summary_position(self, encoded: Encoded) -> int:
        return self.encoder.summary_position(encoded)

    def reset(self) -> None:
        self.encoder.reset()

    def describe(self) -> dict[str, Any]:
        return {**self.encoder.describe(), "copy": {"seed": self.seed, "rotated": self.rotated, "noise": self.noise}}

    def random_twin(self, seed: int) -> Encoder:
        raise ModelError(f"{self.name} has no weights of its own", fix="make the twin from the model that it copies")
