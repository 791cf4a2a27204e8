"""How probable texts are to language models: many questions, several models, one pass."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.language_model import Head, Kind, asked_states, cloze_inputs, log_probabilities
from vestige.models.tokens.masking import Cloze

BATCH_TOKENS = 4096
"""Tokens, padding included, that a model sees at once."""

Run = Callable[[Mapping[str, Any]], Sequence[Tensor]]
"""A backbone's inputs to the last hidden states of one or more models."""


@dataclass(frozen=True)
class Likelihoods:
    """Log-probabilities in nats, summed over the asked tokens of each text."""

    sums: np.ndarray
    """(models, units)."""
    tokens: np.ndarray
    """(units,): how many tokens were asked for."""
    batches: int

    @property
    def losses(self) -> np.ndarray:
        """(models,): nats per token."""
        return -self.sums.sum(1) / self.tokens.sum()


def likelihoods(
    encoder: HuggingFaceEncoder,
    clozes: Iterable[Cloze],
    units: int,
    kind: Kind,
    run: Run,
    heads: Sequence[Head],
    batch_tokens: int = BATCH_TOKENS,
    tick: Callable[[int], None] = lambda _: None,
) -> Likelihoods:
    """Answers to `clozes` about texts 0 to `units` - 1 by the models of `run`, each below its head.

    `encoder` makes the inputs. Neighbouring questions are asked together: give them sorted by length.
    """
    sums, tokens = np.zeros((len(heads), units)), np.zeros(units)
    batches = 0
    for batch in cloze_batches(clozes, 1 if encoder.alone else batch_tokens):
        answers = [answer for cloze in batch for answer in cloze.answers]
        unit = np.array([cloze.unit for cloze in batch for _ in cloze.targets])
        known: dict[tuple[int, int], np.ndarray] = {}
        with torch.inference_mode():
            all_states = run(cloze_inputs(encoder, batch, kind))
            for model, (states, head) in enumerate(zip(all_states, heads, strict=True)):
                pair = id(states), id(head)
                if pair not in known:
                    known[pair] = log_probabilities(head, asked_states(states, batch, kind), answers).numpy()
                    if not np.isfinite(known[pair]).all():
                        raise AnalysisError(
                            f"{encoder.name}: probabilities of words are not finite (answer {model + 1})",
                            fix="check the weights; a model tuned to divergence gives such values",
                        )
                np.add.at(sums[model], unit, known[pair])
        np.add.at(tokens, unit, 1)
        batches += 1
        tick(len(batch))
    if not batches:
        raise AnalysisError(
            f"{encoder.name} is asked for no token at all: nothing is hidden, or no token has another before it",
            fix="use more or longer text, longer blocks, or a higher rate",
        )
    return Likelihoods(sums, tokens, batches)


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Numbers of texts, those of similar length next to each other."""
    return sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))


def cloze_batches(clozes: Iterable[Cloze], tokens: int) -> Iterator[list[Cloze]]:
    """Neighbouring questions together, as many as have so few tokens, padding included."""
    batch: list[Cloze] = []
    longest = 0
    for cloze in clozes:
        longest = max(longest, len(cloze.encoded.ids))
        if batch and longest * (len(batch) + 1) > tokens:
            yield batch
            batch, longest = [], len(cloze.encoded.ids)
        batch.append(cloze)
    if batch:
        yield batch
