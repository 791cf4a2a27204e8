"""Adapters: switched on they are the merged model, switched off the plain base, from one load; and bad files."""

import json
import re
import shutil
import warnings
from copy import deepcopy
from pathlib import Path

import pytest
import tiny
import torch
from peft import IA3Config, LoraConfig, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification

from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.models.encoders.adapters import AdapterEncoder
from vestige.models.files.load import load_model
from vestige.models.surgery.blocks import keep_blocks

SENTENCES = [
    Sentence("long", ("The", "fox", "didn't", "jump", "over", "unbelievable", "stories", ".")),
    Sentence("short", ("paint", "!")),
]
LINEAR = {"distilbert": ["q_lin", "v_lin", "lin1", "lin2"]}
"""peft's "all-linear" trips over DistilBERT's classifier."""


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """`bases("bert")`: the folder of a tiny base model, made once."""
    root = tmp_path_factory.mktemp("bases")

    def base(family: str) -> Path:
        return root / family if (root / family).exists() else tiny.save(family, root / family, layers=2)

    return base


def train(base, folder: Path, config, kind=AutoModel, tokenizer=None):
    """An adapter "trained" on the base: fresh, then moved at random so that it does something. (The model, its folder)."""
    torch.manual_seed(1)
    options = {"num_labels": 3} if kind is AutoModelForSequenceClassification else {}
    model = kind.from_pretrained(base, **options)
    if tokenizer is not None:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of GPT-2's transposed weights
        tuned = get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_magnitude" in name or "ia3_" in name:
                weight.mul_(1 + 0.3 * torch.rand_like(weight))
            elif "lora_" in name or "modules_to_save" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a vocabulary that was resized
        tuned.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return tuned, folder


def lora(family: str = "bert", **options):
    return LoraConfig(**{"r": 4, "target_modules": LINEAR.get(family, "all-linear"), **options})


def states(encoder, sentences=SENTENCES):
    return encoder.hidden_states(encoder.encode(sentences))


def equal(found, expected) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def near(found, expected, tolerance: float = 1e-5) -> bool:
    """Within the tolerance, relative to the largest value of the layer: a merged matrix is rounded anew."""
    gaps = [float((a - b).abs().max()) / max(1.0, float(b.abs().max())) for a, b in zip(found, expected, strict=True)]
    return max(gaps) <= tolerance


def merged(tuned, family: str, **options):
    return load_model(tuned.merge_and_unload().base_model, tokenizer=tiny.tokenizer(family), **options)


class TestOnAndOff:
    @pytest.mark.parametrize("kind", [AutoModel, AutoModelForSequenceClassification])
    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_on_it_is_the_merged_model_and_off_the_plain_base(self, family, kind, bases, tmp_path):
        task = None if kind is AutoModel else "SEQ_CLS"
        tuned, folder = train(bases(family), tmp_path, lora(family, task_type=task), kind)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            on = load_model(folder)
        plain, off = load_model(bases(family)), on.without_adapter()
        assert isinstance(on, AdapterEncoder) and not on.alone
        assert near(states(on), states(merged(tuned, family)))
        assert not near(states(on)[-1:], states(plain)[-1:], 1e-2)
        assert equal(states(off), states(plain))
        assert off.fingerprint == plain.fingerprint != on.fingerprint
        assert near(states(on), states(merged(tuned, family)))  # reading the base left the adapter on
        pointers = [[weight.data_ptr() for weight in view.model.parameters()] for view in (on, off)]
        assert pointers[0] == pointers[1]

    @pytest.mark.parametrize("family", ["bert", "gpt2", "t5"])
    @pytest.mark.parametrize("task", [None, "SEQ_CLS"])
    def test_ia3(self, family, task, bases, tmp_path):
        targets, outer = {
            "bert": (["key", "value", "output.dense"], ["output.dense"]),
            "gpt2": (["c_attn", "mlp.c_proj"], ["mlp.c_proj"]),
            "t5": (["k", "v", "wo"], ["wo"]),
        }[family]
        config = IA3Config(target_modules=targets, feedforward_modules=outer, task_type=task)
        tuned, folder = train(
            bases(family), tmp_path, config, AutoModelForSequenceClassification if task else AutoModel
        )
        self.check(load_model(folder), tuned, family, bases)

    @pytest.mark.parametrize("family", ["bert", "llama"])
    def test_dora(self, family, bases, tmp_path):
        tuned, folder = train(bases(family), tmp_path, lora(use_dora=True))
        assert any("magnitude" in name for name in load_file(folder / "adapter_model.safetensors"))
        self.check(load_model(folder), tuned, family, bases)

    @pytest.mark.parametrize(
        ("family", "kind", "task"),
        [("bert", AutoModelForMaskedLM, None), ("llama", AutoModelForCausalLM, "CAUSAL_LM")],
    )
    def test_trained_under_a_language_model_head(self, family, kind, task, bases, tmp_path):
        tuned, folder = train(bases(family), tmp_path, lora(task_type=task), kind)
        self.check(load_model(folder), tuned, family, bases)

    @pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
    @pytest.mark.parametrize("how", ["pattern", "layers", "scales"])
    def test_modules_chosen_by_the_names_of_the_model_with_its_head(self, family, how, bases, tmp_path):
        prefix = {"bert": "bert.encoder.layer", "gpt2": "transformer.h", "llama": "model.layers"}[family]
        names = {"bert": "query", "gpt2": "c_attn", "llama": "q_proj"}
        path = {"bert": "attention.self.query", "gpt2": "attn.c_attn", "llama": "self_attn.q_proj"}[family]
        chosen = {
            "pattern": {"target_modules": rf"{re.escape(prefix)}\.0\..*{names[family]}"},
            "layers": {"target_modules": [names[family]], "layers_to_transform": [1]},
            "scales": {
                "target_modules": [names[family]],
                "alpha_pattern": {f"{prefix}.0.{path}": 64},
                "rank_pattern": {f"{prefix}.1.{path}": 2},
            },
        }[how]
        config = LoraConfig(r=4, task_type="SEQ_CLS", **chosen)
        tuned, folder = train(bases(family), tmp_path, config, AutoModelForSequenceClassification)
        self.check(load_model(folder), tuned, family, bases)

    @pytest.mark.parametrize("part", ["encoder", "decoder"])
    def test_parts_and_norms_are_read_as_of_any_model(self, part, bases, tmp_path):
        tuned, folder = train(bases("t5"), tmp_path, lora("t5"))
        reading = {"part": part, "final_norm": "pre"}
        on, plain = load_model(folder, **reading), load_model(bases("t5"), **reading)
        off = on.without_adapter("base")
        assert off.name == "base"
        assert equal(states(off), states(plain)) and off.fingerprint == plain.fingerprint
        assert near(states(on), states(merged(tuned, "t5", **reading)))

    def check(self, on, tuned, family, bases):
        plain = load_model(bases(family))
        assert near(states(on), states(merged(tuned, family)))
        assert not near(states(on), states(plain), 1e-3)
        off = on.without_adapter()
        assert equal(states(off), states(plain)) and off.fingerprint == plain.fingerprint != on.fingerprint


class TestFingerprint:
    def test_two_loads_agree_whatever_the_head_it_was_trained_under(self, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path, lora(task_type="SEQ_CLS"), AutoModelForSequenceClassification)
        assert load_model(folder).fingerprint == load_model(folder).fingerprint

    @pytest.mark.parametrize("change", [{"lora_alpha": 32}, {"use_rslora": True}])
    def test_the_scale_is_part_of_it(self, change, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path, lora())
        before = load_model(folder)
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | change))
        after = load_model(folder)
        assert not near(states(after), states(before), 1e-3)
        assert after.fingerprint != before.fingerprint
        assert after.without_adapter().fingerprint == before.without_adapter().fingerprint

    def test_one_weight_is_part_of_it(self, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path, lora())
        before = load_model(folder).fingerprint
        tensors = load_file(folder / "adapter_model.safetensors")
        tensors[min(tensors)][0, 0] += 1e-6
        save_file(tensors, folder / "adapter_model.safetensors")
        assert load_model(folder).fingerprint != before


class TestVocabulary:
    @pytest.mark.parametrize("kind", [AutoModel, AutoModelForSequenceClassification])
    @pytest.mark.parametrize("saved", [True, False])
    def test_words_added_in_tuning(self, kind, saved, bases, tmp_path):
        tokenizer = deepcopy(tiny.tokenizer("bert"))
        tokenizer.add_tokens(["Ostermarkish"])
        rows = len(tiny.tokenizer("bert"))
        config = lora(modules_to_save=["word_embeddings"] if saved else None)
        tuned, folder = train(bases("bert"), tmp_path, config, kind, tokenizer)
        state = torch.get_rng_state()
        on = load_model(folder)
        assert torch.equal(torch.get_rng_state(), state)
        reference = load_model(tuned.merge_and_unload().base_model, tokenizer=tokenizer)
        new = [Sentence("new", ("the", "Ostermarkish", "fox"))]
        assert rows in on.encode(new)[0].ids
        assert near(states(on, new), states(reference, new)) and near(states(on), states(reference))
        off, plain = on.without_adapter(), load_model(bases("bert"))
        assert equal(states(off), states(plain))
        torch.manual_seed(99)
        again = load_model(folder)
        assert again.fingerprint == on.fingerprint
        assert again.without_adapter().fingerprint == off.fingerprint != on.fingerprint
        other = tiny.save(
            "bert", tmp_path / "bert", seed=9, layers=2
        )  # its embeddings are not replaced by those saved along
        assert equal(states(load_model(folder, base=other).without_adapter()), states(load_model(other)))

    def test_embeddings_with_a_low_rank_part(self, bases, tmp_path):
        config = LoraConfig(r=2, target_modules=["word_embeddings", "position_embeddings"])
        tuned, folder = train(bases("roberta"), tmp_path, config)
        on, plain = load_model(folder), load_model(bases("roberta"))
        assert near(states(on), states(merged(tuned, "roberta")))
        assert equal(states(on.without_adapter()), states(plain))
        assert on.without_adapter().fingerprint == plain.fingerprint
        assert on.limit == plain.limit == 64


class TestCuts:
    def test_blocks_can_be_taken_out_with_the_adapter_on_or_off(self, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path, lora())
        on = load_model(folder)
        before = states(on)
        assert near(states(keep_blocks(on, range(1))), states(on)[:2], 0)
        off = keep_blocks(on.without_adapter(), range(1))
        assert near(states(off), states(load_model(bases("bert")))[:2], 0)
        assert off.fingerprint == keep_blocks(load_model(bases("bert")), range(1)).fingerprint
        assert equal(states(on), before)


class TestBadAdapters:
    @pytest.fixture
    def folder(self, bases, tmp_path) -> Path:
        return train(bases("bert"), tmp_path / "adapter", lora())[1]

    def configure(self, folder: Path, **changes) -> None:
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | changes))

    def test_a_base_of_another_width(self, folder, tmp_path):
        torch.manual_seed(0)
        AutoModel.from_config(tiny.config("bert", layers=2, width=16)).save_pretrained(tmp_path / "narrow")
        tiny.tokenizer("bert").save_pretrained(tmp_path / "narrow")
        with pytest.raises(ModelError, match=r"for another base than .*narrow.*size mismatch"):
            load_model(folder, base=tmp_path / "narrow")

    @pytest.mark.parametrize("family", ["gpt2", "distilbert", "llama"])
    def test_a_base_of_another_family(self, folder, family, bases):
        with pytest.raises(ModelError, match=r"none of the adapter's|cannot put|another base"):
            load_model(folder, base=bases(family))

    @pytest.mark.parametrize("layers", [1, 3])
    def test_a_base_of_another_depth(self, layers, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path / "adapter", lora(target_modules=["query", "value"]))
        tiny.save("bert", tmp_path / "other", layers=layers)
        with pytest.raises(ModelError, match="tensors are missing and"):
            load_model(folder, base=tmp_path / "other")

    def test_missing_tensors(self, folder):
        tensors = load_file(folder / "adapter_model.safetensors")
        some = {name: tensor for name, tensor in tensors.items() if "layer.1." not in name}
        save_file(some, folder / "adapter_model.safetensors")
        with pytest.raises(ModelError, match=r"12 of its tensors are missing and 0 too many.*layer\.1\."):
            load_model(folder)

    def test_another_base_of_the_same_shape_is_warned_of(self, folder, tmp_path):
        tiny.save("bert", tmp_path / "reseeded", seed=9, layers=2)
        with pytest.warns(UserWarning, match="was trained on '.*bert' and is loaded onto '.*reseeded'"):
            load_model(folder, base=tmp_path / "reseeded")

    def test_no_base_named(self, folder, bases):
        named = load_model(folder)
        self.configure(folder, base_model_name_or_path=None)
        with pytest.raises(ModelError, match="names no base model") as raised:
            load_model(folder)
        assert "base=" in raised.value.fix
        assert load_model(folder, base=bases("bert")).fingerprint == named.fingerprint

    def test_a_base_that_is_gone(self, folder, tmp_path):
        self.configure(folder, base_model_name_or_path=str(tmp_path / "gone"))
        with pytest.raises(ModelError, match=r"the base of this adapter: .*gone: no such folder") as raised:
            load_model(folder)
        assert "base=" in raised.value.fix

    def test_prompts_are_no_change_of_layers(self, bases, tmp_path):
        model = AutoModelForCausalLM.from_pretrained(bases("llama"))
        config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
        get_peft_model(model, config).save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="PROMPT_TUNING adds tokens to the input"):
            load_model(tmp_path)

    @pytest.mark.parametrize("bias", ["all", "lora_only"])
    def test_biases_trained_in_place_are_refused(self, bias, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path, lora(bias=bias))
        with pytest.raises(ModelError, match=r"changes .*bias of its base itself") as raised:
            load_model(folder)
        assert "merge_and_unload" in raised.value.fix

    def test_a_file_cut_short(self, folder):
        weights = folder / "adapter_model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        with pytest.raises(ModelError, match=r"adapter_model\.safetensors cannot be read"):
            load_model(folder)

    def test_no_safetensors(self, folder):
        shutil.move(folder / "adapter_model.safetensors", folder / "adapter_model.bin")
        with pytest.raises(ModelError, match=r"without adapter_model\.safetensors"):
            load_model(folder)

    def test_a_configuration_that_peft_cannot_read(self, folder):
        (folder / "adapter_config.json").write_text("{")
        with pytest.raises(ModelError, match=r"cannot read its adapter_config\.json"):
            load_model(folder)

    @pytest.mark.parametrize("option", [{"head": True}, {"device_map": "auto"}, {"dtype": torch.bfloat16}])
    def test_options_without_effect_are_refused(self, folder, option):
        with pytest.raises(ModelError, match=r"is an adapter, so .* has no meaning"):
            load_model(folder, **option)

    def test_a_base_for_what_is_no_adapter(self, bases):
        with pytest.raises(ModelError, match="is no adapter, so 'base' has no meaning"):
            load_model(bases("bert"), base=bases("gpt2"))


class TestTokenizer:
    def test_one_given_stays_as_it_was(self, bases, tmp_path):
        _, folder = train(bases("roberta"), tmp_path, lora())
        mine = tiny.TOKENIZERS["roberta"]()
        before = mine("the dog")["input_ids"]
        load_model(folder, tokenizer=mine)
        assert mine("the dog")["input_ids"] == before

    def test_the_adapters_own_the_bases_or_one_given(self, bases, tmp_path):
        _, folder = train(bases("bert"), tmp_path / "adapter", lora())
        cased = deepcopy(tiny.tokenizer("bert"))
        cased.add_tokens(["didn't"])  # a token that is not used below has no row, and needs none
        without = load_model(folder).encode(SENTENCES[1:])
        assert without == load_model(bases("bert")).encode(SENTENCES[1:])
        cased.save_pretrained(tmp_path / "other")
        (tmp_path / "other" / "config.json").write_text("{}")
        for given in (cased, tmp_path / "other"):
            assert load_model(folder, tokenizer=given).encode(SENTENCES)[0].word_of.count(2) == 1
