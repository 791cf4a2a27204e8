"""Code that a model's folder brings is not run, whoever answers what transformers may ask; only if it is named."""

import contextlib
import io
import json
import pickle
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from vestige.errors import ModelError
from vestige.models.files import adapter_patterns
from vestige.models.files.load import load_model

CODE = """
from pathlib import Path
Path({marker!r}).write_text("it ran")
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
class OwnConfig(BertConfig):
    model_type = "own"
class OwnModel(BertModel):
    config_class = OwnConfig
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model's folder with a file of code, and somebody who answers `y` to every question."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 20))
    made = tiny.save("bert", tmp_path / "model")
    (made / "own.py").write_text(CODE.format(marker=str(tmp_path / "marker")))
    return made


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


def change(folder, name, **values):
    found = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**found, **values}))


def own_tokenizer(folder):
    change(
        folder,
        "tokenizer_config.json",
        tokenizer_class="OwnTokenizer",
        auto_map={"AutoTokenizer": [None, "own.OwnTokenizer"]},
    )


def own_configuration(folder):
    change(
        folder, "config.json", model_type="own", auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}
    )


class TestCodeOfTheFolder:
    def test_of_a_tokenizer_is_not_run(self, folder, marker, tmp_path):
        own_configuration(folder)
        own_tokenizer(folder)
        with contextlib.suppress(ModelError):  # its tokenizer.json alone may do
            load_model(tiny.save("bert", tmp_path / "good"), tokenizer=folder)
        assert not marker.exists()

    def test_is_not_run_and_the_error_says_how_it_would_be(self, folder, marker):
        own_configuration(folder)
        with pytest.raises(ModelError) as raised:
            load_model(folder)
        assert not marker.exists()
        assert "trust_remote_code=True" in str(raised.value)

    @pytest.mark.parametrize("bring", [own_tokenizer, own_configuration])
    def test_is_run_if_it_is_named(self, folder, marker, bring):
        bring(folder)
        load_model(folder, trust_remote_code=True)
        assert marker.exists()

    def test_is_not_run_where_transformers_knows_the_family_itself(self, folder, marker):
        change(folder, "config.json", auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"})
        load_model(folder).random_twin()
        assert not marker.exists()

    def test_attention_from_a_hub_is_refused(self, folder):
        change(folder, "config.json", attn_implementation="nobody/kernel")
        with pytest.raises(ModelError, match="attention kernel 'nobody/kernel', code from a hub"):
            load_model(folder)


class Boom:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


class TestAnIndexOfWeights:
    @pytest.fixture
    def shards(self, folder):
        """The folder with its weights in two files and an index."""
        tensors = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        names = sorted(tensors)
        weights = {}
        for number, part in enumerate((names[:20], names[20:]), start=1):
            save_file({name: tensors[name] for name in part}, folder / f"part-{number}.safetensors", {"format": "pt"})
            weights |= dict.fromkeys(part, f"part-{number}.safetensors")
        return folder, weights

    def write(self, folder, weights):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))

    def test_of_files_beside_it_is_followed(self, shards):
        folder, weights = shards
        self.write(folder, weights)
        assert load_model(folder).depth == 3

    def test_that_names_a_pickle_is_refused(self, shards, marker):
        folder, weights = shards
        (folder / "part-2.bin").write_bytes(pickle.dumps(Boom(marker)))
        self.write(folder, {name: file.replace("part-2.safetensors", "part-2.bin") for name, file in weights.items()})
        with pytest.raises(ModelError, match=r"names 'part-2\.bin', which is no safetensors file of this folder"):
            load_model(folder)
        assert not marker.exists()

    @pytest.mark.parametrize("place", ["../other/part-2.safetensors", "{absolute}", "./part-2.safetensors"])
    def test_that_leads_elsewhere_is_refused(self, shards, tmp_path, place):
        folder, weights = shards
        (tmp_path / "other").mkdir()
        shutil.copy(folder / "part-2.safetensors", tmp_path / "other")
        place = place.format(absolute=tmp_path / "other" / "part-2.safetensors")
        self.write(folder, {name: file.replace("part-2.safetensors", place) for name, file in weights.items()})
        with pytest.raises(ModelError, match="which is no safetensors file of this folder"):
            load_model(folder)

    @pytest.mark.parametrize("content", ["[]", '{"weight_map": 3}', "{", "[" * 100_000, "{}"])
    def test_that_is_no_index_is_refused(self, shards, content):
        folder, _ = shards
        (folder / "model.safetensors.index.json").write_text(content)
        with pytest.raises(ModelError, match="no map from weights to files"):
            load_model(folder)


class TestAnAdapter:
    @pytest.fixture
    def adapter(self, folder, tmp_path):
        from peft import LoraConfig, get_peft_model

        get_peft_model(tiny.model("bert"), LoraConfig(target_modules=["query"])).save_pretrained(tmp_path / "adapter")
        return tmp_path / "adapter"

    def test_that_names_a_module_to_import_is_refused(self, folder, adapter, tmp_path, marker, monkeypatch):
        (folder / "own.py").rename(folder / "megatron_own.py")
        monkeypatch.syspath_prepend(str(folder))
        change(adapter, "adapter_config.json", megatron_config={"a": 1}, megatron_core="megatron_own")
        with pytest.raises(ModelError, match="megatron_config"):
            load_model(adapter, base=folder)
        assert not marker.exists()

    @pytest.mark.parametrize("key", ["target_modules", "exclude_modules"])
    def test_whose_pattern_never_ends_is_stopped(self, folder, adapter, key, monkeypatch):
        monkeypatch.setattr(adapter_patterns, "SECONDS", 1)
        change(adapter, "adapter_config.json", **{key: r"([a-z.0-9_]+)+[^a-z]!"})
        with pytest.raises(ModelError, match=r"still being matched with names of modules after 1 s"):
            load_model(adapter, base=folder)

    def test_whose_pattern_is_none_is_refused(self, folder, adapter):
        change(adapter, "adapter_config.json", target_modules="(query")
        with pytest.raises(ModelError, match=r"pattern '\(query': no regular expression"):
            load_model(adapter, base=folder)

    def test_whose_pattern_ends_is_loaded(self, folder, adapter):
        change(adapter, "adapter_config.json", target_modules=r".*\.query")
        assert load_model(adapter, base=folder).depth == 3


class TestWeightsAndConfiguration:
    def test_truncated_weights_are_called_so(self, folder):
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[:-100])
        with pytest.raises(ModelError, match=r"model\.safetensors: not a whole safetensors file") as raised:
            load_model(folder)
        assert "trust_remote_code" not in str(raised.value)

    def test_fewer_layers_than_weights_are_refused(self, folder):
        change(folder, "config.json", num_hidden_layers=2)
        with pytest.raises(ModelError, match=r"its files hold encoder\.layer\.2\.\S+, for which .* no layer"):
            load_model(folder)

    @pytest.mark.parametrize("family", ["gpt2", "t5", "xlnet", "bart", "llama"])
    def test_of_every_kind_of_family(self, tmp_path, family):
        made = tiny.save(family, tmp_path / "model")
        key = {"gpt2": "n_layer", "xlnet": "n_layer", "t5": "num_layers", "bart": "encoder_layers"}.get(family)
        change(made, "config.json", **{key or "num_hidden_layers": 2})
        with pytest.raises(ModelError, match=r"for which the model that .* describes has no layer"):
            load_model(made)

    def test_the_heads_of_tuned_models_are_no_layers(self, tmp_path):
        assert load_model(tiny.save("bart", tmp_path / "model", classes=2)).depth == 3

    def test_a_million_layers_are_refused_before_they_are_made(self, folder):
        change(folder, "config.json", num_hidden_layers=1_000_000)
        with pytest.raises(ModelError, match="num_hidden_layers = 1000000, but the folder holds"):
            load_model(folder)


def test_the_command_that_converts_pickles_can_be_pasted(tmp_path):
    made = tiny.save("bert", tmp_path / "it's; touch $HOME `x`")
    (made / "model.safetensors").unlink()
    torch.save(tiny.model("bert").state_dict(), made / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only pickled weights") as raised:
        load_model(made)
    command = re.search(r"(python -c .*) and copy", raised.value.fix)[1]
    words = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True).stdout.split("\0")
    assert words[:2] == ["python", "-c"] and len(words) == 4
    calls = []
    namespace = {"AutoModel": type("Stand", (), {"from_pretrained": lambda name: calls.append(name) or Saved(calls)})}
    exec(words[2].partition("; ")[2], namespace)
    assert calls == [str(made), f"{made}-safetensors"]
    assert shlex.split(command) == words[:3]


class Saved:
    def __init__(self, calls):
        self.save_pretrained = calls.append
