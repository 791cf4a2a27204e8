"""What loading makes sure of: padding changes nothing, or is not used; every token has an embedding."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from transformers import BertForMaskedLM, BertModel

from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.models.files.load import load_model
from vestige.representations.extract import represent

SENTENCES = [
    Sentence("long", ("The", "quick", "brown", "fox", "can't", "remember", "whether", "stories", "froze", ".")),
    Sentence("short", ("paint", "!")),
    Sentence("middle", ("children", "skated", "to", "school")),
]


class WithoutMask(BertModel):
    """Attends to padding as if it were text."""

    def forward(self, input_ids, attention_mask=None, **options):
        return super().forward(input_ids, **options)


class ByLength(BertModel):
    """Every layer moves with the length that the batch was padded to."""

    def forward(self, input_ids, attention_mask=None, **options):
        output = super().forward(input_ids, attention_mask, **options)
        if output.hidden_states is not None:
            output["hidden_states"] = tuple(state + 0.01 * input_ids.shape[1] for state in output.hidden_states)
        return output


def padding_matters(kind: type[BertModel]):
    torch.manual_seed(0)
    return load_model(kind(tiny.config("bert")).eval(), tokenizer=tiny.tokenizer("bert"))


def near(one, other) -> bool:
    return torch.allclose(one, other, atol=1e-5 * max(1.0, float(other.abs().max())), rtol=0)


class TestPadding:
    @pytest.mark.parametrize("kind", [WithoutMask, ByLength])
    def test_where_it_changes_the_numbers_sentences_are_run_alone(self, kind, cache):
        encoder = padding_matters(kind)
        assert encoder.alone
        batch = encoder.encode(SENTENCES)
        found = encoder.hidden_states(batch)
        assert {state.shape for state in found} == {(3, max(len(e.ids) for e in batch), 32)}
        for row, encoded in enumerate(batch):
            with torch.inference_mode():
                theirs = encoder.model(torch.tensor([encoded.ids]), output_hidden_states=True).hidden_states
            for mine, expected in zip(found, theirs, strict=True):
                assert torch.equal(mine[row, : len(encoded.ids)], expected[0])
                assert not mine[row, len(encoded.ids) :].any()
        encoder.alone = False
        assert not near(found[-1][1, :2], encoder.hidden_states(batch)[-1][1, :2])
        encoder.alone = True
        together = represent(encoder, SENTENCES, ["mean"], cache=cache)["mean"]
        one = represent(encoder, SENTENCES[1:2], ["mean"], cache=cache)["mean"]
        assert np.array_equal(together.layer(3)[len(SENTENCES[0].words) :][:2], one.layer(3))

    def test_attention_and_scores_are_then_those_of_the_sentence_alone_too(self):
        torch.manual_seed(0)
        whole = BertForMaskedLM(tiny.config("bert")).eval()
        whole.bert = WithoutMask(tiny.config("bert"), add_pooling_layer=False).eval()
        encoder = load_model(whole, tokenizer=tiny.tokenizer("bert"), head=True)
        assert encoder.alone
        batch = encoder.encode(SENTENCES)
        attentions, logits = encoder.attentions(batch), encoder.logits(batch)
        for row, encoded in enumerate(batch):
            length = len(encoded.ids)
            single = encoder.attentions([encoded])
            for block in range(3):
                assert torch.equal(attentions[block][row, :, :length, :length], single[block][0])
                assert not attentions[block][row, :, :, length:].any()
            assert torch.equal(logits[row, :length], encoder.logits([encoded])[0])

    def test_a_random_twin_is_run_the_same_way(self):
        assert padding_matters(WithoutMask).random_twin(1).alone
        assert not load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("bert")).random_twin(1).alone

    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_no_known_family_needs_it(self, family, tiny_encoder):
        encoder = tiny_encoder(family)
        assert not encoder.alone
        batch = encoder.encode(SENTENCES)
        together = encoder.hidden_states(batch)
        for row, encoded in enumerate(batch):
            for mine, single in zip(together, encoder.hidden_states([encoded]), strict=True):
                assert near(mine[row, : len(encoded.ids)], single[0])

    def test_a_model_too_short_for_the_trial_loads_all_the_same(self):
        config = tiny.config("bert")
        config.max_position_embeddings = 2
        encoder = load_model(BertModel(config).eval(), tokenizer=tiny.tokenizer("bert"))
        assert encoder.limit == 2


def grown_tokenizer(family: str):
    grown = deepcopy(tiny.tokenizer(family))
    assert grown.add_tokens(["Ostermarkish"]) == 1
    return grown


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "llama"])
class TestVocabulary:
    def tuned(self, family: str, folder: Path) -> Path:
        """A checkpoint that was tuned with a word more than its base had."""
        model = tiny.model(family, classes=2)
        model.resize_token_embeddings(len(grown_tokenizer(family)), mean_resizing=False)
        model.save_pretrained(folder)
        grown_tokenizer(family).save_pretrained(folder)
        return folder

    def test_a_word_added_in_tuning_is_one_token(self, family, tmp_path):
        encoder = load_model(self.tuned(family, tmp_path))
        base = load_model(tiny.model(family), tokenizer=tiny.tokenizer(family))
        sentence = [Sentence("a", ("the", "Ostermarkish", "fox"))]
        (found,), (before,) = encoder.encode(sentence), base.encode(sentence)
        assert found.word_of.count(1) == 1 < before.word_of.count(1)
        assert len(tiny.tokenizer(family)) in found.ids
        assert [state.shape for state in encoder.hidden_states([found])] == [(1, len(found.ids), 32)] * 4
        twin = encoder.random_twin(1)
        assert twin.hidden_states(twin.encode(sentence))[0].shape == (1, len(found.ids), 32)

    def test_its_tokenizer_on_the_bases_weights_is_refused(self, family, tmp_path):
        encoder = load_model(tiny.model(family), tokenizer=grown_tokenizer(family))
        rows = len(tiny.tokenizer(family))
        with pytest.raises(ModelError, match=f"gives token {rows}, but the model has {rows} embeddings") as raised:
            encoder.hidden_states(encoder.encode([Sentence("a", ("the", "Ostermarkish"))]))
        assert "added tokens" in raised.value.fix


def test_a_tokenizer_that_is_far_too_large_is_refused_at_once():
    with pytest.raises(ModelError, match=r"but the model has \d+ embeddings"):
        load_model(tiny.model("bert"), tokenizer=tiny.tokenizer("gpt2"))
