"""The same questions to two language models: what each is asked, token by token, and where it stands."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.lm.language_model import Kind, asked_states, cloze_inputs
from vestige.models.lm.likelihood import BATCH_TOKENS, cloze_batches
from vestige.models.tokens.masking import Cloze


class Asked(NamedTuple):
    """A batch of questions, a row for every asked token."""

    units: np.ndarray
    """(rows,): number of the sentence."""
    words: np.ndarray
    """(rows,): number of the word in it."""
    inputs: dict[str, Any]
    """The backbone's keyword arguments."""
    pick: Callable[[Tensor], Tensor]
    """From states (sentences, tokens, width) to those of the rows (rows, width)."""
    questions: int


def ask(encoder: HuggingFaceEncoder, clozes: Sequence[Cloze], kind: Kind) -> Iterator[Asked]:
    """Batches of questions, those about texts of similar length together; `encoder` makes the inputs."""
    ordered = sorted(clozes, key=lambda cloze: -len(cloze.encoded.ids))
    if not ordered:
        raise AnalysisError(
            f"{encoder.name} is asked for no token at all: nothing is hidden, or no token has another before it",
            fix="use more or longer text, or a higher rate",
        )
    for batch in cloze_batches(ordered, 1 if encoder.alone else BATCH_TOKENS):
        places = [(cloze.unit, cloze.encoded.word_of[target]) for cloze in batch for target in cloze.targets]
        units, words = np.array(places).T

        def pick(states: Tensor, batch: list[Cloze] = batch) -> Tensor:
            return asked_states(states, batch, kind)

        yield Asked(units, words, cloze_inputs(encoder, batch, kind), pick, len(batch))


def by_word(units: np.ndarray, words: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of sentences and words, each word once, and the means (..., words) of the values (..., rows) of each."""
    places, number = np.unique(np.stack([units, words]), axis=1, return_inverse=True)
    often = np.bincount(number.ravel())
    flat = values.reshape(-1, len(units))
    means = np.stack([np.bincount(number.ravel(), weights=row) for row in flat]) / often
    return places[0], places[1], means.reshape(*values.shape[:-1], -1)
