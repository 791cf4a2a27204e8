"""ELMo against the states that its authors' TensorFlow code stored with a small model."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from vestige.corpus.types import Sentence
from vestige.models.encoders.elmo import load_elmo


@pytest.fixture
def fixture(data: Path) -> Path:
    return data / "elmo_fixture"


@pytest.fixture
def streams(fixture: Path) -> list[list[Sentence]]:
    """Three streams of ten sentences that were run one after the other."""
    texts = json.loads((fixture / "lm_embeddings_sentences.json").read_text())
    return [[Sentence(f"{s}-{n}", tuple(text.split())) for n, text in enumerate(part)] for s, part in enumerate(texts)]


@pytest.fixture
def expected(fixture: Path) -> list[np.ndarray]:
    """The top layer of the first stream, (words, forward and backward)."""
    with h5py.File(fixture / "lm_embeddings_0.hdf5") as stored:
        return [np.concatenate(list(stored[str(number)][()]), axis=-1) for number in range(len(stored))]


def test_the_stored_stream_is_met_by_carried_states(fixture, streams, expected):
    encoder = load_elmo(fixture, stateful=True)
    assert len(expected) == len(streams[0]) == 10
    for sentence, wanted in zip(streams[0], expected, strict=True):
        top = encoder.hidden_states(encoder.encode([sentence]))[-1]
        assert top.shape == (1, len(sentence.words), 32)
        assert np.abs(top[0].numpy() - wanted).max() < 1e-5


def test_it_is_met_as_well_beside_other_streams_and_in_any_row(fixture, streams, expected):
    encoder = load_elmo(fixture, stateful=True)
    for beside, sentence, other, wanted in zip(streams[2], streams[0], streams[1], expected, strict=True):
        top = encoder.hidden_states(encoder.encode([beside, sentence, other]))[-1][1]
        assert np.abs(top[: len(wanted)].numpy() - wanted).max() < 1e-5


def test_from_zero_states_only_the_first_sentence_is_the_same(fixture, streams, expected):
    encoder = load_elmo(fixture)
    tops = encoder.hidden_states(encoder.encode(streams[0]))[-1].numpy()
    apart = [np.abs(top[: len(wanted)] - wanted).max() for top, wanted in zip(tops, expected, strict=True)]
    assert apart[0] < 1e-5
    assert min(apart[1:]) > 1e-3
