"""Weights tensor by tensor: from one file or several, in any precision, from memory; and what is refused."""

import json
from types import SimpleNamespace

import pytest
import tiny
import torch
from peft import IA3Config, LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

from vestige.errors import ModelError
from vestige.models.encoders.copies import CopiedEncoder
from vestige.models.files.load import load_model
from vestige.models.files.tensors import FolderWeights, MemoryWeights, open_weights


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("tensors") / "base", layers=2)


def lora(base, folder, **settings):
    made = get_peft_model(tiny.model("bert", layers=2), LoraConfig(target_modules=["query"], **settings))
    made.save_pretrained(folder)
    return {"source": str(folder), "base": str(base)}


def test_several_files_in_bfloat16_read_as_one_in_float32(base, tmp_path):
    tiny.model("bert", layers=2).to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    one, several = FolderWeights(base), FolderWeights(tmp_path)
    assert one.shapes == several.shapes
    for name in one.shapes:
        assert (one.dtype(name), several.dtype(name)) == (torch.float32, torch.bfloat16)
        assert torch.equal(one.rows(name, 3, 7).bfloat16(), several.rows(name, 3, 7))


def test_a_model_in_memory_reads_as_its_files(base):
    weights, files = MemoryWeights(load_model(str(base))), FolderWeights(base)
    assert weights.shapes == files.shapes
    assert all(torch.equal(weights.rows(name), files.rows(name)) for name in files.shapes)


def test_tied_weights_of_a_model_in_memory_are_there_once(tmp_path):
    model = tiny.model("t5")
    model.save_pretrained(tmp_path)
    assert set(MemoryWeights(SimpleNamespace(name="t5", model=model)).shapes) == set(FolderWeights(tmp_path).shapes)


def test_buffers_are_no_weights(base, tmp_path):
    tensors = load_file(base / "model.safetensors")
    tensors |= {"embeddings.position_ids": torch.arange(64)[None], "h.0.attn.bias": torch.ones(1, 1, 4, 4)}
    (tmp_path / "config.json").write_text((base / "config.json").read_text())
    save_file(tensors, tmp_path / "model.safetensors")
    assert FolderWeights(tmp_path).shapes == FolderWeights(base).shapes


@pytest.mark.parametrize("dtype", (torch.int8, torch.float8_e4m3fn))
def test_quantised_weights_are_refused(base, tmp_path, dtype):
    tensors = load_file(base / "model.safetensors")
    tensors["pooler.dense.weight"] = torch.ones(32, 32).to(dtype)
    (tmp_path / "config.json").write_text((base / "config.json").read_text())
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"pooler\.dense\.weight is quantised"):
        FolderWeights(tmp_path)


def test_a_configuration_that_says_quantised_is_refused(base, tmp_path):
    config = json.loads((base / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "gptq"}}))
    (tmp_path / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match=r"quantised \(gptq\)"):
        FolderWeights(tmp_path)


def test_without_its_adapter_a_model_is_its_base(base, tmp_path):
    source = lora(base, tmp_path / "adapter")
    found = open_weights({"without_adapter": source}, "base")
    assert isinstance(found, FolderWeights) and found.folder == base


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"use_dora": True}, "use_dora"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"lora_bias": True}, "lora_bias"),
    ],
)
def test_adapters_that_do_more_than_b_a_are_refused(base, tmp_path, settings, said):
    with pytest.raises(ModelError, match=said):
        open_weights(lora(base, tmp_path / "adapter", **settings), "tuned")


def test_other_adapters_and_other_bases_are_refused(base, tmp_path):
    asked = IA3Config(target_modules=["query"], feedforward_modules=[])
    get_peft_model(tiny.model("bert", layers=2), asked).save_pretrained(tmp_path / "ia3")
    with pytest.raises(ModelError, match=r"IA3.*no weights are compared"):
        open_weights({"source": str(tmp_path / "ia3"), "base": str(base)}, "tuned")
    source = lora(base, tmp_path / "adapter")
    gpt = tiny.save("gpt2", tmp_path / "gpt2")
    with pytest.raises(ModelError, match=r"which .*gpt2 does not have"):
        open_weights({**source, "base": str(gpt)}, "tuned")


def test_what_has_no_weights_of_its_own_is_refused(base):
    with pytest.raises(ModelError, match="no weights of its own"):
        MemoryWeights(CopiedEncoder(load_model(str(base)), 0, noise=0.1))
    with pytest.raises(ModelError, match="random twin"):
        open_weights({"twin_of": {"source": str(base)}, "seed": 1}, "twin")
