"""Models spread over memory and disk, and models with their language-model head, are the plain ones."""

from pathlib import Path

import pytest
import tiny
import torch
from accelerate import infer_auto_device_map
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    T5EncoderModel,
)

from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.models.files.load import load_model

SENTENCES = [
    Sentence("long", ("The", "fox", "didn't", "jump", "over", "unbelievable", "stories", ".")),
    Sentence("short", ("paint", "!")),
]
HEADS = {
    "bert": AutoModelForMaskedLM,
    "roberta": AutoModelForMaskedLM,
    "albert": AutoModelForMaskedLM,
    "distilbert": AutoModelForMaskedLM,
    "electra": AutoModelForMaskedLM,
    "deberta": AutoModelForMaskedLM,
    "modernbert": AutoModelForMaskedLM,
    "xlnet": AutoModelForCausalLM,
    "gpt2": AutoModelForCausalLM,
    "llama": AutoModelForCausalLM,
    "qwen": AutoModelForCausalLM,
    "t5": AutoModelForSeq2SeqLM,
    "bart": AutoModelForSeq2SeqLM,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("VESTIGE_CACHE", str(tmp_path / "cache"))


def states(encoder):
    return encoder.hidden_states(encoder.encode(SENTENCES))


def equal(found, expected) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


ON_DISK = {
    "bert": {
        "embeddings": "cpu", "encoder.layer.0": "cpu", "encoder.layer.1": "disk", "encoder.layer.2": "disk",
        "pooler": "cpu",
    },
    "gpt2": {"wte": "disk", "wpe": "disk", "drop": "cpu", "h": "disk", "ln_f": "cpu"},
    "t5": {"shared": "cpu", "encoder.embed_tokens": "cpu", "encoder.block": "disk", "encoder.final_layer_norm": "disk",
           "encoder.dropout": "cpu", "decoder": "cpu"},
}  # fmt: skip


class TestDeviceMap:
    @pytest.mark.parametrize("family", ON_DISK)
    def test_weights_on_disk_give_the_same_numbers_and_fingerprint(self, family, tmp_path):
        folder = tiny.save(family, tmp_path / family)
        plain, placed = load_model(folder), load_model(folder, device_map=ON_DISK[family])
        assert any(weight.is_meta for weight in placed.model.parameters())
        assert equal(states(placed), states(plain))
        assert placed.fingerprint == plain.fingerprint
        assert placed.widths == plain.widths and not placed.alone
        assert any(weight.is_meta for weight in placed.model.parameters())  # hashing left them there
        assert placed.device.type == "cpu"

    def test_one_changed_weight_on_disk_is_another_fingerprint(self, tmp_path):
        before = load_model(tiny.save("bert", tmp_path / "one"), device_map=ON_DISK["bert"]).fingerprint
        changed = tiny.model("bert")
        with torch.no_grad():
            changed.encoder.layer[2].output.dense.weight[3, 4] += 1e-6
        changed.save_pretrained(tmp_path / "two")
        tiny.tokenizer("bert").save_pretrained(tmp_path / "two")
        assert load_model(tmp_path / "two", device_map=ON_DISK["bert"]).fingerprint != before

    def test_weights_stored_in_half_precision(self, tmp_path):
        tiny.model("bert").half().save_pretrained(tmp_path)
        tiny.tokenizer("bert").save_pretrained(tmp_path)
        plain, placed = load_model(tmp_path), load_model(tmp_path, device_map=ON_DISK["bert"])
        assert equal(states(placed), states(plain)) and placed.fingerprint == plain.fingerprint

    def test_auto_with_and_without_room(self, tmp_path):
        folder = tiny.save("bert", tmp_path / "bert")
        plain, auto = load_model(folder), load_model(folder, device_map="auto")
        assert equal(states(auto), states(plain)) and auto.fingerprint == plain.fingerprint
        size = sum(weight.nbytes for weight in plain.model.parameters())
        model = tiny.model("bert")
        tight = infer_auto_device_map(
            model, max_memory={"cpu": size // 2}, no_split_module_classes=model._no_split_modules
        )
        assert {"cpu", "disk"} == set(tight.values())
        placed = load_model(folder, device_map=tight)
        assert equal(states(placed), states(plain)) and placed.fingerprint == plain.fingerprint

    def test_a_random_twin_is_in_memory(self, tmp_path):
        folder = tiny.save("bert", tmp_path / "bert")
        plain, placed = load_model(folder), load_model(folder, device_map=ON_DISK["bert"])
        twin = placed.random_twin(1)
        assert not any(weight.is_meta for weight in twin.model.parameters())
        assert twin.fingerprint == plain.random_twin(1).fingerprint

    def test_other_readings_work_there_too(self, tmp_path):
        folder = tiny.save("gpt2", tmp_path / "gpt2")
        reading = {"final_norm": "pre", "sink": "add"}
        placed = load_model(folder, device_map=ON_DISK["gpt2"], **reading)
        assert equal(states(placed), states(load_model(folder, **reading)))


def save_whole(family: str, folder: Path):
    torch.manual_seed(0)
    whole = HEADS[family].from_config(tiny.config(family)).eval()
    with torch.no_grad():
        for weight in whole.parameters():
            if weight.ndim == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    whole.save_pretrained(folder)
    tiny.tokenizer(family).save_pretrained(folder)
    return whole


class TestHead:
    @pytest.mark.parametrize("family", HEADS)
    def test_its_scores_are_hugging_faces_of_each_sentence_alone(self, family, tmp_path):
        whole = save_whole(family, tmp_path)
        encoder, bare = load_model(tmp_path, head=True), load_model(tmp_path)
        in_memory = load_model(whole, tokenizer=tiny.tokenizer(family), head=True)
        assert encoder.fingerprint == bare.fingerprint == in_memory.fingerprint
        assert equal(states(encoder), states(bare))
        batch = encoder.encode(SENTENCES)
        found = encoder.logits(batch)
        assert torch.equal(in_memory.logits(batch), found)
        for row, encoded in enumerate(batch):
            given = {"input_ids": torch.tensor([encoded.ids])}
            if "token_type_ids" in tiny.tokenizer(family).model_input_names:
                given["token_type_ids"] = torch.tensor([encoded.type_ids])
            if whole.config.is_encoder_decoder:
                shifted = [whole.config.decoder_start_token_id, *encoded.ids[:-1]]
                given["decoder_input_ids"] = torch.tensor([shifted])
            with torch.inference_mode():
                theirs = whole(**given).logits[0]
            assert torch.allclose(found[row, : len(encoded.ids)], theirs, atol=1e-5 * float(theirs.abs().max()))

    @pytest.mark.parametrize("family", ["bert", "modernbert", "xlnet", "llama"])
    def test_a_folder_without_its_weights(self, family, tmp_path):
        with pytest.raises(ModelError, match="weights of the model and its head are not in its files") as raised:
            load_model(tiny.save(family, tmp_path), head=True)
        assert "language-model head" in raised.value.fix

    @pytest.mark.parametrize("family", ["gpt2", "t5"])
    def test_a_head_tied_to_the_embeddings_needs_none(self, family, tmp_path):
        encoder = load_model(tiny.save(family, tmp_path), head=True)
        assert encoder.logits(encoder.encode(SENTENCES)).shape[-1] == len(tiny.tokenizer(family))

    def test_an_encoder_without_its_decoder(self, tmp_path):
        half = T5EncoderModel(tiny.config("t5"))
        half.encoder.load_state_dict(tiny.model("t5").encoder.state_dict())
        half.save_pretrained(tmp_path)
        tiny.tokenizer("t5").save_pretrained(tmp_path)
        encoder = load_model(tmp_path)
        assert type(encoder.model).__name__ == "T5Stack" and encoder.depth == 3
        assert encoder.fingerprint == load_model(tiny.save("t5", tmp_path / "whole")).fingerprint
        for options in ({"head": True}, {"part": "decoder"}):
            with pytest.raises(ModelError, match=r"are not in its files, for example decoder\."):
                load_model(tmp_path, **options)

    def test_without_it_there_are_no_scores(self, tiny_encoder):
        encoder = tiny_encoder("bert")
        with pytest.raises(ModelError, match="loaded without its language-model head"):
            encoder.logits(encoder.encode(SENTENCES))

    @pytest.mark.parametrize("classes", [0, 3])
    def test_a_model_in_memory_without_one(self, classes):
        with pytest.raises(ModelError, match="has no language-model head"):
            load_model(tiny.model("bert", classes=classes), tokenizer=tiny.tokenizer("bert"), head=True)

    def test_spread_over_memory_and_disk(self, tmp_path):
        save_whole("llama", tmp_path)
        plain = load_model(tmp_path, head=True)
        places = {"model.embed_tokens": "cpu", "model.layers.0": "disk", "model.layers.1": "cpu"}
        places |= {"model.layers.2": "disk", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk"}
        placed = load_model(tmp_path, head=True, device_map=places)
        batch = plain.encode(SENTENCES)
        assert torch.equal(placed.logits(batch), plain.logits(batch))
        assert placed.fingerprint == plain.fingerprint
