"""Neurons as features: the whole model's numbers from part of it, in scikit-learn's way, saved and found again."""

import json

import numpy as np
import pytest
import tiny
import torch
from peft import LoraConfig, get_peft_model
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from transformers import AutoModel

from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError, CorpusError, ModelError, RepresentationError, StorageError
from vestige.models.encoders.characters import CnnSettings
from vestige.models.encoders.elmo import BiLM, ElmoEncoder, ElmoSettings
from vestige.models.files.load import load_model
from vestige.neurons.features import NeuronFeatures
from vestige.neurons.matrix import Neurons
from vestige.representations.extract import represent

SENTENCES = [Sentence(f"s{i}", tuple(line.split())) for i, line in enumerate(tiny.TEXT)]
WORDS = sum(len(sentence.words) for sentence in SENTENCES)
FAMILIES = ("bert", "albert", "xlnet", "gpt2", "llama", "t5", "deberta", "modernbert", "bart")


def ids_up_to(encoder, layer: int, count: int = 6) -> np.ndarray:
    """Some neurons of the layers 0 to `layer`, in no order, at least one of the highest."""
    offsets = np.cumsum([0, *encoder.widths])
    rng = np.random.default_rng(layer)
    lower = rng.choice(offsets[layer], size=min(count, offsets[layer]), replace=False) if layer else []
    return rng.permutation([*lower, rng.integers(offsets[layer], offsets[layer + 1])]).astype(int)


def of_whole_model(encoder, ids, cache, pooling="last", sentences=SENTENCES) -> np.ndarray:
    return Neurons.of(represent(encoder, sentences, (pooling,), cache=cache)[pooling]).columns(ids)


def elmo(stateful: bool = False) -> ElmoEncoder:
    torch.manual_seed(0)
    characters = CnnSettings(dim=5, filters=((1, 4), (2, 5)), highways=1, projection=6)
    settings = ElmoSettings(characters, layers=2, cell=12, cell_clip=3.0, projection_clip=3.0, skip=True)
    return ElmoEncoder(BiLM(settings), "tiny elmo", stateful=stateful)


class TestNumbers:
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("layer", [0, 1, 2, 3])
    def test_bit_for_bit_those_of_the_whole_model(self, family, layer, tiny_encoder, cache):
        encoder = tiny_encoder(family)
        ids = ids_up_to(encoder, layer)
        features = NeuronFeatures(encoder, ids)
        found = features.transform(SENTENCES)
        assert found.dtype == np.float32 and found.shape == (WORDS, len(ids))
        np.testing.assert_array_equal(found, of_whole_model(encoder, ids, cache))
        assert features.saved()["blocks"] == max(1, layer)

    @pytest.mark.parametrize("family", ["llama", "t5"])
    @pytest.mark.parametrize("final_norm", ["pre", "post"])
    def test_however_the_top_layer_is_read(self, family, final_norm, cache):
        encoder = load_model(tiny.model(family), tokenizer=tiny.tokenizer(family), final_norm=final_norm)
        for layer in (2, 3):
            ids = ids_up_to(encoder, layer)
            np.testing.assert_array_equal(
                NeuronFeatures(encoder, ids).transform(SENTENCES), of_whole_model(encoder, ids, cache)
            )

    @pytest.mark.parametrize("family", ["t5", "bart"])
    def test_the_decoder_of_an_encoder_decoder(self, family, cache):
        encoder = load_model(tiny.model(family), tokenizer=tiny.tokenizer(family), part="decoder")
        ids = ids_up_to(encoder, 2)
        features = NeuronFeatures(encoder, ids)
        np.testing.assert_array_equal(features.transform(SENTENCES), of_whole_model(encoder, ids, cache))
        assert features.saved()["blocks"] == 2

    @pytest.mark.parametrize("pooling", ["first", "mean", "max", "cls", "sentence_mean"])
    def test_every_pooling(self, pooling, tiny_encoder, cache):
        encoder = tiny_encoder("bert")
        ids = ids_up_to(encoder, 2)
        found = NeuronFeatures(encoder, ids).transform(SENTENCES, pooling)
        np.testing.assert_array_equal(found, of_whole_model(encoder, ids, cache, pooling))
        np.testing.assert_array_equal(found, NeuronFeatures(encoder, ids, pooling).transform(SENTENCES))

    def test_rows_are_indexed_as_representations_are(self, tiny_encoder, cache):
        long = Sentence("long", ("the",) * 80)
        encoder = tiny_encoder("bert")
        for pooling, whole in represent(encoder, [long, *SENTENCES], ("last", "cls"), cache=cache).items():
            index = NeuronFeatures(encoder, [0]).index([long, *SENTENCES], pooling)
            np.testing.assert_array_equal(index, whole.index)
            assert index.dtype == whole.index.dtype

    @pytest.mark.parametrize("stateful", [False, True])
    def test_elmo_runs_whole(self, stateful, cache):
        encoder = elmo(stateful)
        ids = np.array([13, 2, 7])
        features = NeuronFeatures(encoder, ids)
        for _ in range(2):
            np.testing.assert_array_equal(features.transform(SENTENCES), of_whole_model(encoder, ids, cache))
        saved = features.saved()
        assert saved["blocks"] == saved["all_blocks"] == 2 and saved["parameters"] == saved["all_parameters"] > 0

    def test_adapters_on_and_off(self, tmp_path, cache):
        base = tiny.save("bert", tmp_path / "base")
        torch.manual_seed(1)
        tuned = get_peft_model(
            AutoModel.from_pretrained(base), LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
        )
        tuned.save_pretrained(tmp_path / "adapter")
        on = load_model(tmp_path / "adapter", base=base)
        off = on.without_adapter()
        ids = ids_up_to(on, 2)
        found = [NeuronFeatures(encoder, ids).transform(SENTENCES) for encoder in (on, off)]
        for values, encoder in zip(found, (on, off), strict=True):
            np.testing.assert_array_equal(values, of_whole_model(encoder, ids, cache))
        assert np.abs(found[0] - found[1]).max() > 0.1

    def test_a_model_whose_lower_layers_depend_on_its_depth_runs_whole(self, cache):
        model = tiny.model("bert")
        model.embeddings.of = model.config
        model.embeddings.register_forward_hook(lambda module, given, out: out * module.of.num_hidden_layers)
        encoder = load_model(model, tokenizer=tiny.tokenizer("bert"), name="deep")
        ids = ids_up_to(encoder, 2)
        features = NeuronFeatures(encoder, ids)
        np.testing.assert_array_equal(features.transform(SENTENCES), of_whole_model(encoder, ids, cache))
        assert features.saved()["blocks"] == 3

    def test_minilm(self, minilm, cache):
        ids = ids_up_to(minilm, 3, count=50)
        features = NeuronFeatures(minilm, ids)
        np.testing.assert_array_equal(features.transform(SENTENCES), of_whole_model(minilm, ids, cache))
        saved = features.saved()
        assert (saved["blocks"], saved["all_blocks"]) == (3, 6)
        block = sum(p.numel() for p in minilm.model.encoder.layer[0].parameters())
        assert saved["all_parameters"] - saved["parameters"] == 3 * block
        assert (saved["neurons"], saved["all_neurons"]) == (51, 7 * 384)

    def test_fewer_blocks_take_less_time(self, minilm):
        saved = NeuronFeatures(minilm, [5]).saved(SENTENCES)
        assert 0 < saved["seconds"] < saved["all_seconds"]

    def test_no_sentences_give_no_rows(self, tiny_encoder):
        features = NeuronFeatures(tiny_encoder("bert"), [1, 2])
        assert features.transform([]).shape == (0, 2) and features.index([]).shape == (0, 2)
        assert "seconds" not in features.saved()

    def test_the_model_given_stays_as_it_was(self, tiny_encoder):
        encoder = tiny_encoder("llama")
        before, reading = encoder.fingerprint, encoder.reading
        NeuronFeatures(encoder, [0]).transform(SENTENCES)
        assert encoder.reading == reading and encoder.depth == 3 and len(encoder.model.layers) == 3
        del encoder.__dict__["fingerprint"]
        assert encoder.fingerprint == before


class TestScikitLearn:
    def test_names(self, tiny_encoder):
        features = NeuronFeatures(tiny_encoder("bert"), [33, 0, 127])
        assert features.get_feature_names_out().tolist() == ["layer1_unit1", "layer0_unit0", "layer3_unit31"]

    def test_in_a_pipeline(self, tiny_encoder):
        encoder = tiny_encoder("bert")
        features = NeuronFeatures(encoder, np.arange(0, 64, 4), pooling="sentence_mean")
        pipeline = make_pipeline(features, LogisticRegression(C=1e4, max_iter=2000))
        labels = ["a", "b"] * 3
        assert pipeline.fit(SENTENCES, labels).predict(SENTENCES).tolist() == labels
        assert clone(pipeline)[0].encoder is encoder

    def test_parameters_may_change(self, tiny_encoder):
        encoder = tiny_encoder("bert")
        first = NeuronFeatures(encoder, [1])
        second = clone(first).set_params(ids=[40, 3], pooling="cls")
        expected = NeuronFeatures(encoder, [40, 3], "cls").transform(SENTENCES)
        np.testing.assert_array_equal(second.transform(SENTENCES), expected)
        assert first.transform(SENTENCES).shape == (WORDS, 1)

    def test_pandas_output(self, tiny_encoder):
        features = NeuronFeatures(tiny_encoder("bert"), [33, 0]).set_output(transform="pandas")
        frame = features.fit_transform(SENTENCES)
        assert list(frame.columns) == ["layer1_unit1", "layer0_unit0"] and len(frame) == WORDS


class TestSaving:
    def test_found_again(self, tmp_path):
        folder = tiny.save("llama", tmp_path / "model")
        encoder = load_model(folder, final_norm="pre")
        saved = NeuronFeatures(encoder, [97, 5, 40], "mean")
        saved.save(tmp_path / "features")
        again = NeuronFeatures.load(tmp_path / "features")
        assert again.pooling == "mean" and again.encoder.reading == encoder.reading
        np.testing.assert_array_equal(again.transform(SENTENCES), saved.transform(SENTENCES))
        stored = json.loads((tmp_path / "features" / "neurons.json").read_text())
        assert (stored["layers"], stored["units"]) == ([3, 0, 1], [1, 5, 8])
        assert sum(file.stat().st_size for file in (tmp_path / "features").iterdir()) < 2000

    def test_a_model_in_memory_is_given(self, tmp_path, tiny_encoder):
        encoder = tiny_encoder("bert")
        NeuronFeatures(encoder, [3]).save(tmp_path)
        assert NeuronFeatures.load(tmp_path, encoder).encoder is encoder

    def test_another_model_is_refused(self, tmp_path, tiny_encoder):
        NeuronFeatures(tiny_encoder("bert"), [3]).save(tmp_path)
        other = load_model(tiny.model("bert", seed=1), tokenizer=tiny.tokenizer("bert"), name="tiny bert")
        with pytest.raises(ModelError, match="fingerprint"):
            NeuronFeatures.load(tmp_path, other)

    @pytest.mark.parametrize("content", [None, "{", "[]", '{"neurons": [1]}'])
    def test_what_is_no_selection(self, tmp_path, content):
        if content is not None:
            (tmp_path / "neurons.json").write_text(content)
        with pytest.raises(StorageError, match=r"neurons\.json: not a file of selected neurons"):
            NeuronFeatures.load(tmp_path)


class TestRefused:
    @pytest.mark.parametrize(("ids", "message"), [([128], "there are 128"), ([1, 1], "twice"), ([], "no neurons")])
    def test_ids(self, ids, message, tiny_encoder):
        with pytest.raises(AnalysisError, match=message):
            NeuronFeatures(tiny_encoder("bert"), ids)

    def test_poolings(self, tiny_encoder):
        with pytest.raises(RepresentationError, match="unknown pooling 'middle'"):
            NeuronFeatures(tiny_encoder("bert"), [1], "middle")
        with pytest.raises(RepresentationError, match="unknown pooling 'middle'"):
            NeuronFeatures(tiny_encoder("bert"), [1]).transform(SENTENCES, "middle")

    def test_what_is_no_sentence(self, tiny_encoder):
        with pytest.raises(RepresentationError, match="found str at 0"):
            NeuronFeatures(tiny_encoder("bert"), [1]).transform(["some words"])

    def test_sentences_past_the_limit(self, tiny_encoder):
        long = [Sentence("long", ("the",) * 80)]
        assert NeuronFeatures(tiny_encoder("bert"), [1]).transform(long).shape == (62, 1)
        with pytest.raises(CorpusError, match="tokens"):
            NeuronFeatures(tiny_encoder("bert"), [1], on_overflow="error").transform(long)

    def test_activations_that_are_not_finite(self):
        model = tiny.model("bert")
        with torch.no_grad():
            model.encoder.layer[1].output.LayerNorm.bias[4] = torch.nan
        spoilt = load_model(model, tokenizer=tiny.tokenizer("bert"), name="spoilt")
        with pytest.raises(RepresentationError, match=r"spoilt.*NaN"):
            NeuronFeatures(spoilt, [2 * 32 + 4]).transform(SENTENCES)
        assert NeuronFeatures(spoilt, [32 + 4]).transform(SENTENCES).shape == (WORDS, 1)
