"""Vectors of words as a model gives them at this moment, in memory: of a model that is being changed."""

from collections.abc import Sequence

import numpy as np
import torch

from vestige.corpus.types import Sentence
from vestige.models.encoders.encoder import Encoder
from vestige.representations.extract import batches_for
from vestige.representations.pool import REDUCE, groups_for


def word_states(
    encoder: Encoder, sentences: Sequence[Sentence], layers: Sequence[int], pooling: str, index: np.ndarray
) -> dict[int, np.ndarray]:
    """By layer the vectors of the words of `index` (rows, 2: sentence, word), as the model gives them now."""
    encoded = encoder.encode(sentences)
    starts = np.concatenate([[0], np.cumsum([sentence.kept for sentence in encoded], dtype=int)])
    found = {layer: np.zeros((starts[-1], encoder.widths[layer]), dtype=np.float32) for layer in layers}
    for numbers in batches_for(encoder, encoded):
        batch = [encoded[number] for number in numbers]
        states = encoder.hidden_states(batch)
        groups = groups_for(pooling, batch, encoder, states[0].device)
        places = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
        for layer, rows in found.items():
            rows[places] = REDUCE[pooling](states[layer], groups).to("cpu", torch.float32).numpy()
    chosen = starts[index[:, 0]] + index[:, 1]
    return {layer: rows[chosen] for layer, rows in found.items()}
