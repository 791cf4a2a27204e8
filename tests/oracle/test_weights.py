"""Intruder dimensions and changes of LoRA's models, against peft's own."""

import re

import pytest
import tiny
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.intruders import reduce_intruder_dimension

from vestige.analyses.base import NO_TASK, Inputs
from vestige.analyses.weights import Weights
from vestige.models.files.tensors import FolderWeights, MemoryWeights, open_weights


def adapted(family: str, seed: int = 0, strength: float = 0.5, **settings):
    """A tiny model with an adapter whose B is not 0."""
    base = tiny.model(family)
    asked = {"r": 2, "lora_alpha": 8, "target_modules": ["query", "value", "dense"], **settings}
    torch.manual_seed(seed)
    made = get_peft_model(base, LoraConfig(**asked))
    for name, parameter in made.named_parameters():
        if "lora_B" in name or "lora_embedding" in name:
            parameter.data = strength * torch.randn_like(parameter)
    return made


@pytest.mark.parametrize("strength", (0.05, 0.3, 2.0))
def test_intruders_of_every_matrix_are_those_that_peft_counts(tmp_path, strength):
    base = tiny.save("bert", tmp_path / "base")
    model, said = adapted("bert", strength=strength), []
    model.save_pretrained(tmp_path / "adapter")
    reduce_intruder_dimension(model, logging_sink=said.append)
    counts = {}
    for line in said:
        if found := re.fullmatch(r"base_model\.model\.(.*): (No intruders|Intruders: (\d+))", line):
            counts[f"{found[1]}.weight"] = int(found[3] or 0)
    tuned = open_weights({"source": str(tmp_path / "adapter"), "base": str(base)}, "tuned")
    reference = Inputs(NO_TASK, {}, "base", weights=FolderWeights(base))
    table = Weights().run(Inputs(NO_TASK, {}, "tuned", weights=tuned, reference=reference)).tables["matrices"]
    ours = dict(zip(table["name"], table["intruders"], strict=True))
    compared = {name: ours[name] for name in counts if "pooler" not in name}
    assert compared == {name: counts[name] for name in compared} and len(compared) == 3 * 5
    assert strength < 1 or sum(compared.values()) > 0


@pytest.mark.parametrize(
    "family, settings",
    [
        ("bert", {}),
        ("bert", {"use_rslora": True, "rank_pattern": {"query": 4}, "alpha_pattern": {"layer.1.*.value": 3}}),
        ("bert", {"target_modules": ["word_embeddings", "key"]}),
        ("gpt2", {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}),
        ("llama", {"target_modules": ["q_proj", "down_proj"]}),
    ],
)
def test_what_an_adapter_adds_is_what_merging_it_adds(tmp_path, family, settings):
    base = tiny.save(family, tmp_path / "base")
    model = adapted(family, **settings)
    model.save_pretrained(tmp_path / "adapter")
    model.merge_and_unload().save_pretrained(tmp_path / "merged")
    reference, merged = FolderWeights(base), FolderWeights(tmp_path / "merged")
    tuned = open_weights({"source": str(tmp_path / "adapter"), "base": str(base)}, "tuned")
    changed = 0
    for name in reference.shapes:
        difference = merged.rows(name) - reference.rows(name)
        direct = tuned.change(name, reference)
        assert torch.allclose(tuned.rows(name), merged.rows(name), atol=1e-6)
        assert torch.allclose(difference, torch.zeros(()) if direct is None else direct, atol=1e-6)
        changed += direct is not None
    assert changed >= 2 * 3 or "word_embeddings" in str(settings)


def test_an_adapter_in_memory_is_read_as_its_files_are(tmp_path):
    from vestige.models.files.load import load_model

    base = tiny.save("bert", tmp_path / "base")
    adapted("bert").save_pretrained(tmp_path / "adapter")
    encoder = load_model(str(tmp_path / "adapter"), base=str(base))
    on, off = MemoryWeights(encoder), MemoryWeights(encoder.without_adapter())
    files = open_weights({"source": str(tmp_path / "adapter"), "base": str(base)}, "tuned")
    reference = FolderWeights(base)
    assert set(on.shapes) == set(off.shapes) == set(reference.shapes)
    for name in reference.shapes:
        assert torch.equal(off.rows(name), reference.rows(name))
        assert torch.allclose(on.rows(name), files.rows(name), atol=1e-6)
        direct = on.change(name, off)
        assert direct is None or torch.allclose(direct, files.change(name, reference), atol=1e-6)
