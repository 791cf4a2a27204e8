"""Which file a language-model head is taken from."""

import json

import pytest
import tiny_lm

from vestige.models.lm import head as lm_head
from vestige.models.lm.head import LMHead, choose_head, embeddings_digest, head_path


@pytest.fixture
def headless():
    encoder = tiny_lm.encoder("bert", 0)
    encoder.head = None
    return encoder


@pytest.fixture
def shipped(headless, tmp_path, monkeypatch):
    """A folder of heads with one for this encoder and one for another."""
    monkeypatch.setattr(lm_head, "SHIPPED", tmp_path)
    for name, digest in (("mine", embeddings_digest(headless)), ("other", "0" * 20)):
        LMHead(headless.model.get_input_embeddings().weight).save(tmp_path / f"{name}.safetensors")
        (tmp_path / f"{name}.json").write_text(json.dumps({"embeddings": digest}))
    return tmp_path


def test_a_shipped_head_is_found_by_the_embeddings_it_was_fitted_on(headless, shipped):
    assert head_path(None, headless) == shipped / "mine.safetensors"
    assert isinstance(choose_head("own", None, headless, None), LMHead)
    headless.model.get_input_embeddings().weight.data[0, 0] += 1
    assert head_path(None, headless) is None


def test_a_head_can_be_named_and_a_models_own_comes_first(headless, shipped, tmp_path):
    assert head_path("other", headless) == shipped / "other.safetensors"
    assert head_path(str(tmp_path / "elsewhere.safetensors"), headless) == tmp_path / "elsewhere.safetensors"
    assert head_path(None, tiny_lm.encoder("bert", 0)) is None
