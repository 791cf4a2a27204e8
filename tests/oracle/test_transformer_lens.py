"""The cache that TransformerLens itself makes of a model gives the vectors that we extract from it."""

import numpy as np
import pytest
import tiny
import tiny_lm
import torch
from transformers import AutoTokenizer

from vestige.models.files.load import load_model
from vestige.representations.extract import represent
from vestige.representations.interchange import import_activations

_MISSING = "TransformerLens is missing: pip install transformer-lens"
bridge = pytest.importorskip("transformer_lens.model_bridge", reason=_MISSING)
SENTENCES = tiny_lm.SENTENCES[:3]


def test_its_cache_is_imported(tmp_path, cache):
    whole = tiny_lm.whole("gpt2")
    tiny.tokenizer("gpt2").save_pretrained(tmp_path)
    whole.save_pretrained(tmp_path)
    model = bridge.TransformerBridge.boot_transformers(
        str(tmp_path), hf_model=whole, tokenizer=AutoTokenizer.from_pretrained(tmp_path)
    )
    encoder = load_model(whole, tokenizer=tiny.tokenizer("gpt2"), name="ours", final_norm="pre", sink="keep")
    encoded = encoder.encode(SENTENCES)
    longest = max(len(one.ids) for one in encoded)
    ids = torch.tensor([[*one.ids, *[0] * (longest - len(one.ids))] for one in encoded])
    with torch.no_grad():
        _, kept = model.run_with_cache(ids)
    word_ids = [one.word_of for one in encoded]
    found = import_activations(kept, SENTENCES, name="lens", cache=cache, word_ids=word_ids)
    own = represent(encoder, SENTENCES, ("last",), cache=cache)["last"]
    assert found.manifest["model"] == "lens" and found.layers == own.layers == 4
    for layer in range(4):
        np.testing.assert_allclose(found.layer(layer), own.layer(layer), atol=1e-4)
