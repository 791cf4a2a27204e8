"""Models on the pretend device give the numbers of the CPU, and are waited for about once a layer and batch."""

from collections import Counter
from copy import deepcopy

import numpy as np
import pytest
import tiny
import tiny_lm
import torch
from pretend_gpu import DEVICE, pretend_gpu

from unit.models import test_elmo, test_telmo
from vestige.models.encoders.elmo import load_elmo
from vestige.models.encoders.telmo import load_telmo
from vestige.models.files.load import load_model, random_twin
from vestige.neurons.features import NeuronFeatures
from vestige.representations.extract import represent
from vestige.representations.pool import POOLINGS, SENTENCE_POOLINGS

SENTENCES = list(tiny_lm.SENTENCES)


def load(family: str, device: str, **options):
    return load_model(
        deepcopy(tiny.model(family)), tokenizer=tiny.tokenizer(family), name=family, device=device, **options
    )


def same(here, there, poolings):
    for pooling in poolings:
        assert np.array_equal(here[pooling].index, there[pooling].index)
        for layer in range(here[pooling].layers):
            np.testing.assert_allclose(there[pooling].layer(layer), here[pooling].layer(layer), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_hidden_states_of_every_family(gpu, family, tmp_path):
    poolings = POOLINGS if family in ("bert", "gpt2") else ("last", "mean")
    here, there = load(family, "cpu"), load(family, DEVICE)
    assert {weight.device.type for weight in there.model.parameters()} == {DEVICE}
    assert there.fingerprint == here.fingerprint
    found = [represent(one, SENTENCES, poolings, cache=tmp_path / one.device.type) for one in (here, there)]
    same(*found, poolings)


@pytest.mark.parametrize("reading", [{"final_norm": "pre"}, {"sink": "add"}, {"sink": "leave_out"}, {"sink": "auto"}])
def test_other_ways_of_reading_a_decoder(gpu, reading, tmp_path):
    found = [
        represent(load("llama", device, **reading), SENTENCES, ["mean"], cache=tmp_path / device)
        for device in ("cpu", DEVICE)
    ]
    same(*found, ["mean"])


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_parts_of_an_encoder_decoder(gpu, part, tmp_path):
    found = [
        represent(load("bart", device, part=part), SENTENCES, ["last"], cache=tmp_path / device)
        for device in ("cpu", DEVICE)
    ]
    same(*found, ["last"])


@pytest.mark.parametrize(("module", "loader"), [(test_elmo, load_elmo), (test_telmo, load_telmo)])
def test_models_of_characters(gpu, module, loader, tmp_path):
    folder = module.save(tmp_path / "model")
    found = [
        represent(loader(folder, device=device), SENTENCES, ["last"], cache=tmp_path / device)
        for device in ("cpu", DEVICE)
    ]
    same(*found, ["last"])


def test_a_random_twin(gpu, tmp_path):
    twins = [random_twin(load("bert", device)) for device in ("cpu", DEVICE)]
    assert twins[1].device.type == DEVICE
    same(*(represent(twin, SENTENCES, ["last"], cache=tmp_path / twin.device.type) for twin in twins), ["last"])


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_attention_and_logits(gpu, family):
    found = []
    for device in ("cpu", DEVICE):
        made = tiny_lm.whole(family)
        encoder = load_model(made, tokenizer=tiny.tokenizer(family), head=True, name=family, device=device)
        batch = encoder.encode(SENTENCES[:3])
        found.append([part.cpu() for part in (*encoder.attentions(batch), encoder.logits(batch))])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_features_of_selected_neurons(gpu):
    ids = np.array([3, 40, 70])
    here, there = (NeuronFeatures(load("bert", device), ids).fit().transform(SENTENCES) for device in ("cpu", DEVICE))
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["last", "mean", "max", *SENTENCE_POOLINGS])
def test_the_device_is_waited_for_about_once_a_layer(gpu, pooling, tmp_path):
    encoder = load("bert", DEVICE)
    represent(encoder, SENTENCES[:1], [pooling], cache=tmp_path / "first")  # what is asked once for a model
    before = Counter(gpu.trips)
    represent(encoder, SENTENCES, [pooling], cache=tmp_path / "all")
    waited = gpu.trips - before
    assert waited["copy to the CPU"] == encoder.depth + 1, "one batch"
    assert (waited - Counter({"copy to the CPU": encoder.depth + 1})).total() <= 3, waited


def test_a_device_without_float64(monkeypatch, tmp_path):
    """Apple's, for example."""
    monkeypatch.setattr("vestige.models.files.load.check_device", lambda device: None)
    with pretend_gpu(float64=False):
        for family in tiny.FAMILIES:
            represent(load(family, DEVICE), SENTENCES, POOLINGS, cache=tmp_path / family)


def test_similarities_take_tensors_of_a_device(gpu):
    from vestige.measures.cka import cka
    from vestige.measures.rsa import rsa

    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(rng.standard_normal((60, 8))).float() for _ in range(2))
    for measure in (cka, rsa):
        assert measure(x.to(DEVICE), y.to(DEVICE)) == measure(x, y)
