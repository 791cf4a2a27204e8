"""Several threads read batches side by side, and what they write does not depend on how many there are."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiny
import torch

from vestige.corpus.types import Sentence
from vestige.errors import RepresentationError
from vestige.models.encoders.copies import CopiedEncoder
from vestige.models.encoders.threads import runs_in_threads
from vestige.models.files.load import load_model
from vestige.representations import extract
from vestige.representations.extract import represent

SENTENCES = [Sentence(f"s{i}", tuple(line.split())) for i, line in enumerate(tiny.TEXT * 3)]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def read(encoder, cache, threads: int) -> list[np.ndarray]:
    torch.set_num_threads(threads)
    found = represent(encoder, SENTENCES, ("last", "cls"), cache=cache, batch_tokens=60)
    torch.set_num_threads(2)
    return [stored.layer(layer) for stored in found.values() for layer in range(stored.layers)]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_same_bytes_as_one_thread(family, tmp_path, two_threads):
    encoder = load_model(tiny.model(family), tokenizer=tiny.tokenizer(family), name=family)
    assert encoder.in_threads
    one, two = (read(encoder, tmp_path / str(threads), threads) for threads in (1, 2))
    assert all(map(np.array_equal, one, two))


def test_both_threads_are_used_and_each_multiplies_alone(tmp_path, two_threads, monkeypatch):
    seen, encoder = [], load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert"), name="bert")
    pools, states = [], encoder.hidden_states

    class Pool(ThreadPoolExecutor):
        def __init__(self, threads, **given):
            pools.append(threads)
            super().__init__(threads, **given)

    def watched(batch):
        seen.append(torch.get_num_threads())
        return states(batch)

    monkeypatch.setattr(extract, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(encoder, "hidden_states", watched)
    read(encoder, tmp_path, 2)
    assert pools == [2] and len(seen) > 4 and set(seen) == {1}


def test_copies_are_read_like_their_model(tmp_path, two_threads):
    encoder = load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert"), name="bert")
    copy = CopiedEncoder(encoder, 1, rotated=True, noise=0.01)
    one, two = (read(copy, tmp_path / str(threads), threads) for threads in (1, 2))
    assert all(map(np.array_equal, one, two))


def test_models_that_change_while_they_run_are_read_by_one_thread():
    hooked = tiny.model("bert")
    assert runs_in_threads(hooked)
    handle = hooked.encoder.layer[0].register_forward_hook(lambda *given: None)
    assert not runs_in_threads(hooked)
    handle.remove()
    growing = tiny.model("llama")
    growing.config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    assert not runs_in_threads(growing)
    normed = load_model(tiny.model("gpt2"), tokenizer=tiny.tokenizer("gpt2"), final_norm="pre")
    assert not normed.in_threads


def test_an_error_in_a_thread_is_that_of_the_reader(tmp_path, two_threads):
    model = tiny.model("bert")
    with torch.no_grad():
        model.encoder.layer[1].output.LayerNorm.weight.fill_(float("nan"))
    encoder = load_model(model, tokenizer=tiny.tokenizer("bert"), name="spoilt")
    with pytest.raises(RepresentationError, match="layer 2: NaN"):
        represent(encoder, SENTENCES, ("last",), cache=tmp_path, batch_tokens=60)
    assert not list(tmp_path.rglob("manifest.json"))
