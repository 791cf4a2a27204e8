"""Other ways to read a model: final norms, attention sinks, chat templates, decoders; each against Hugging Face."""

from copy import deepcopy

import numpy as np
import pytest
import tiny
import torch
from transformers import AutoModel, XLMConfig

from vestige.corpus.types import Sentence
from vestige.errors import CorpusError, ModelError
from vestige.models.encoders.reading import Reading
from vestige.models.files.load import load_model
from vestige.models.surgery.blocks import keep_blocks
from vestige.models.surgery.unroll import find_parts
from vestige.models.tokens.align import SINK, SPECIAL
from vestige.representations.extract import represent

WORDS = ("The", "fox", "didn't", "jump", "over", "unbelievable", "stories", ".")
SENTENCES = [Sentence("long", WORDS), Sentence("short", ("paint", "!"))]
FINAL_NORM = {"modernbert": "final_norm", "gpt2": "ln_f", "llama": "norm", "qwen": "norm", "t5": "final_layer_norm"}


def uneven(family: str, **settings):
    """A tiny model whose norms do more than to normalise."""
    torch.manual_seed(0)
    config = tiny.config(family)
    for name, value in settings.items():
        setattr(config, name, value)
    made = AutoModel.from_config(config).eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    return made


def read(family: str, model=None, **reading):
    return load_model(uneven(family) if model is None else model, tokenizer=tiny.tokenizer(family), **reading)


def alone(model, ids, **more):
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), output_hidden_states=True, **more)


def states(encoder):
    return encoder.hidden_states(encoder.encode(SENTENCES))


def same(found, expected) -> bool:
    return torch.allclose(found, expected, atol=2e-5 * max(1.0, float(expected.abs().max())), rtol=0)


class TestFinalNorm:
    @pytest.mark.parametrize("family", tiny.FAMILIES)
    def test_before_and_after_it(self, family):
        model = uneven(family)
        as_is, pre, post = (read(family, model, final_norm=choice) for choice in ("as_is", "pre", "post"))
        batch = as_is.encode(SENTENCES)
        found = {e.reading.final_norm: e.hidden_states(batch) for e in (as_is, pre, post)}
        for layer in range(as_is.depth):
            assert torch.equal(found["as_is"][layer], found["pre"][layer])
            assert torch.equal(found["as_is"][layer], found["post"][layer])
        top = {choice: states[-1] for choice, states in found.items()}
        if family not in FINAL_NORM:
            assert torch.equal(top["as_is"], top["pre"]) and torch.equal(top["as_is"], top["post"])
            return
        norm = as_is.model.get_submodule(FINAL_NORM[family])
        with torch.inference_mode():
            assert torch.equal(norm(top["pre"]), top["post"])
        assert torch.equal(top["as_is"], top["post"])
        assert not same(top["pre"], top["post"])
        assert len({as_is.fingerprint, pre.fingerprint, post.fingerprint}) == 3

    @pytest.mark.parametrize("family", FINAL_NORM)
    def test_where_hugging_face_is_told_to_leave_it_out(self, family):
        model = uneven(family, tie_last_hidden_states=False)
        as_is, pre, post = (read(family, model, final_norm=choice) for choice in ("as_is", "pre", "post"))
        batch = as_is.encode(SENTENCES)
        assert torch.equal(as_is.hidden_states(batch)[-1], pre.hidden_states(batch)[-1])
        with torch.inference_mode():
            last = as_is.model(**as_is.inputs(batch)).last_hidden_state
        assert torch.equal(post.hidden_states(batch)[-1], last)
        assert as_is.fingerprint != read(family).fingerprint

    def test_layers_whose_parts_lie_in_lists_of_their_own(self):
        vocabulary = len(tiny.tokenizer("llama"))
        config = XLMConfig(vocab_size=vocabulary, emb_dim=32, n_layers=3, n_heads=4, max_position_embeddings=64)
        model = AutoModel.from_config(config).eval()
        found = [states(read("llama", model, final_norm=choice)) for choice in ("as_is", "pre", "post")]
        assert torch.equal(found[0][-1], found[1][-1]) and torch.equal(found[0][-1], found[2][-1])
        for keep in ([0, 1], [1, 2]):
            with pytest.raises(ModelError, match="has no list of 3 blocks"):
                keep_blocks(read("llama", model), keep)

    def test_of_a_decoder(self):
        model = uneven("t5")
        pre, post = (read("t5", model, part="decoder", final_norm=choice) for choice in ("pre", "post"))
        batch = pre.encode(SENTENCES)
        with torch.inference_mode():
            assert torch.equal(
                model.decoder.final_layer_norm(pre.hidden_states(batch)[-1]), post.hidden_states(batch)[-1]
            )
        assert torch.equal(post.hidden_states(batch)[-1], read("t5", model, part="decoder").hidden_states(batch)[-1])


class TestSink:
    @pytest.mark.parametrize(("family", "token"), [("gpt2", "<|endoftext|>"), ("qwen", "<|im_end|>"), ("xlnet", "<s>")])
    def test_a_token_is_put_before_the_sentence(self, family, token, cache):
        plain, sunk = read(family), read(family, sink="add")
        (before,), (after,) = plain.encode(SENTENCES[:1]), sunk.encode(SENTENCES[:1])
        assert after.ids == (tiny.tokenizer(family).convert_tokens_to_ids(token), *before.ids)
        assert after.word_of == (SINK, *before.word_of)
        types = {"token_type_ids": torch.tensor([after.type_ids])} if family == "xlnet" else {}
        theirs = alone(sunk.model, after.ids, **types).hidden_states
        found = represent(sunk, SENTENCES[:1], ["last", "sentence_mean"], cache=cache)
        ends = [max(i for i, word in enumerate(after.word_of) if word == w) for w in range(len(WORDS))]
        for layer, states in enumerate(theirs):
            assert np.allclose(found["last"].layer(layer), states[0, ends], atol=1e-4)
            assert np.allclose(found["sentence_mean"].layer(layer), states[0, 1:].mean(0), atol=1e-4)
        assert not same(theirs[1][0, 1:], plain.hidden_states([before])[1][0])
        assert plain.fingerprint != sunk.fingerprint

    @pytest.mark.parametrize("family", ["llama", "bert", "roberta", "bart"])
    def test_where_one_is_there_already_nothing_is_added(self, family):
        assert read(family, sink="add").encode(SENTENCES) == read(family).encode(SENTENCES)

    def test_room_is_made_for_it(self):
        long = Sentence("long", ("fox",) * 100)
        (plain,), (sunk,) = read("gpt2").encode([long]), read("gpt2", sink="add").encode([long])
        assert len(sunk.ids) <= 64 and sunk.word_of[0] == SINK
        assert sunk.kept == plain.kept - 1 or len(plain.ids) < 64

    def test_a_tokenizer_without_such_a_token(self):
        bare = deepcopy(tiny.tokenizer("qwen"))
        bare.bos_token = bare.eos_token = None
        with pytest.raises(ModelError, match="neither BOS nor EOS"):
            load_model(uneven("qwen"), tokenizer=bare, sink="add")


def with_a_sink(times: float = 300.0):
    """A tiny GPT-2 whose first position is huge, whatever the token."""
    model = uneven("gpt2")
    model.wpe.weight.data[0] *= times
    return model


class TestSinkLeftOut:
    def test_it_is_found_from_the_hidden_states(self):
        assert read("gpt2", with_a_sink()).leaves_out_first
        assert not any(read(family).leaves_out_first for family in ("gpt2", "qwen", "llama", "bert", "t5", "xlnet"))

    def test_a_special_first_token_is_no_words(self):
        assert not read("gpt2", with_a_sink(), sink="add").leaves_out_first

    @pytest.mark.parametrize("pooling", ["first", "last", "mean", "max"])
    def test_words_have_no_part_in_it(self, pooling, cache):
        encoder, plain = read("gpt2", with_a_sink()), read("gpt2", with_a_sink(), sink="keep")
        (encoded,) = encoder.encode(SENTENCES[:1])
        assert encoded == plain.encode(SENTENCES[:1])[0]
        single = encoded.word_of.count(0) == 1
        found, whole = (represent(e, SENTENCES[:1], [pooling], cache=cache)[pooling] for e in (encoder, plain))
        assert found.index[:, 1].tolist() == list(range(single, len(WORDS)))
        assert found.manifest["sink_words"] == single and found.manifest["vanished_words"] == 0
        for layer in range(found.layers):
            assert np.array_equal(found.layer(layer)[1 - single :], whole.layer(layer)[1:])
        assert encoder.fingerprint != plain.fingerprint
        assert encoder.describe()["reading"] == {"sink": "leave_out"}

    def test_a_first_word_of_several_tokens_keeps_the_others(self, cache):
        sentence = [Sentence("a", ("antidisestablishmentarianism", "fox"))]
        encoder = read("gpt2", with_a_sink())
        (encoded,) = encoder.encode(sentence)
        pieces = encoded.word_of.count(0)
        assert pieces > 2
        states = encoder.hidden_states([encoded])
        found = represent(encoder, sentence, ["first", "mean"], cache=cache)
        for layer, state in enumerate(states):
            assert np.allclose(found["first"].layer(layer)[0], state[0, 1], atol=1e-5)
            assert np.allclose(found["mean"].layer(layer)[0], state[0, 1:pieces].mean(0), atol=1e-5)

    def test_sentences_have_no_part_in_it_unless_there_is_nothing_else(self, cache):
        encoder = read("gpt2", with_a_sink())
        one = Sentence("one", ("a",))
        batch = encoder.encode([SENTENCES[0], one])
        assert len(batch[1].ids) == 1
        states = encoder.hidden_states(batch)
        found = represent(encoder, [SENTENCES[0], one], ["sentence_mean", "sentence_max"], cache=cache)
        own = len(batch[0].ids)
        for layer, state in enumerate(states):
            assert np.allclose(found["sentence_mean"].layer(layer)[0], state[0, 1:own].mean(0), atol=1e-4)
            assert np.allclose(found["sentence_max"].layer(layer)[0], state[0, 1:own].amax(0), atol=1e-4)
            assert np.allclose(found["sentence_mean"].layer(layer)[1], state[1, 0], atol=1e-2)

    def test_its_twin_and_its_parts_are_read_alike(self):
        encoder = read("gpt2", with_a_sink())
        assert encoder.random_twin(1).leaves_out_first and keep_blocks(encoder, [0, 1]).leaves_out_first
        assert not read("gpt2").random_twin(1).leaves_out_first

    def test_it_can_be_settled_by_the_model_it_is_compared_with(self):
        encoder = read("gpt2")
        before = encoder.fingerprint
        alike = encoder.sink_like(True)
        assert alike.leaves_out_first and alike.fingerprint == read("gpt2", sink="leave_out").fingerprint != before
        assert not encoder.leaves_out_first and encoder.fingerprint == before
        kept = read("gpt2", with_a_sink(), sink="keep")
        assert not kept.sink_like(True).leaves_out_first


class TestChat:
    HARD = ("The", "didn't", "—", "“naïve”", "京", "4.5", "%", "(", "it", ")", "e\u0301", "👩", "?")

    @pytest.mark.parametrize("role", ["user", "assistant", "system"])
    def test_tokens_are_those_of_the_template(self, role):
        (found,) = read("qwen", chat=role).encode([Sentence("a", self.HARD)])
        message = [{"role": role, "content": " ".join(self.HARD)}]
        theirs = tiny.tokenizer("qwen").apply_chat_template(message, tokenize=True, return_dict=True)
        assert list(found.ids) == theirs["input_ids"]
        assert found.kept == found.words == len(self.HARD) and not found.vanished

    def test_every_token_is_tied_to_its_word(self):
        encoder = read("qwen", chat="user")
        (found,) = encoder.encode([Sentence("a", self.HARD)])
        for word, text in enumerate(self.HARD):
            ids = [token for token, of in zip(found.ids, found.word_of, strict=True) if of == word]
            assert encoder.tokenizer.decode(ids).strip() == text.replace("e\u0301", "é")
        frame = [token for token, of in zip(found.ids, found.word_of, strict=True) if of == SPECIAL]
        assert encoder.tokenizer.decode(frame) == "<|im_start|>user\n<|im_end|>\n"

    def test_words_have_the_tokens_that_they_have_without_a_template(self):
        def by_word(encoder):
            (found,) = encoder.encode([Sentence("a", self.HARD)])
            pairs = list(zip(found.ids, found.word_of, strict=True))
            return [[token for token, of in pairs if of == word] for word in range(1, len(self.HARD))]

        assert by_word(read("qwen", chat="user")) == by_word(read("qwen"))

    def test_hidden_states_are_those_of_the_message(self, cache):
        encoder = read("qwen", chat="user")
        (encoded,) = encoder.encode(SENTENCES[:1])
        theirs = alone(encoder.model, encoded.ids).hidden_states
        found = represent(encoder, SENTENCES, ["first"], cache=cache)["first"]
        starts = [encoded.word_of.index(word) for word in range(len(WORDS))]
        for layer, states in enumerate(theirs):
            assert np.allclose(found.layer(layer)[: len(WORDS)], states[0, starts], atol=1e-4)

    def test_a_message_cut_short_keeps_the_end_of_the_template(self):
        encoder = read("qwen", chat="user")
        (found,) = encoder.encode([Sentence("a", ("paint",) * 100)])
        assert len(found.ids) <= 64 and 0 < found.kept < 100 == found.words
        assert encoder.tokenizer.decode(found.ids).endswith("paint<|im_end|>\n")
        with pytest.raises(CorpusError, match="but the model takes 64"):
            encoder.encode([Sentence("a", ("paint",) * 100)], "error")

    def test_a_token_that_the_template_and_a_word_share_is_the_words(self):
        tight = deepcopy(tiny.tokenizer("qwen"))
        tight.chat_template = "{% for m in messages %}{{ m['role'] }} -{{ m['content'] }}.{% endfor %}"
        tight.add_tokens(["-mix"])
        encoder = load_model(larger("qwen", len(tight)), tokenizer=tight, chat="user")
        (found,) = encoder.encode([Sentence("a", ("mix", "it"))])
        tokens = tight.convert_ids_to_tokens(found.ids)
        assert found.word_of[tokens.index("-mix")] == 0 and not found.vanished

    def test_the_words_of_a_pair_follow_each_other(self):
        encoder = read("qwen", chat="user")
        pair = Sentence("a", WORDS[:3], WORDS[3:])
        assert encoder.encode([pair])[0].word_of == encoder.encode([Sentence("b", WORDS)])[0].word_of

    def test_the_tokenizer_is_used_as_it_was_saved(self, tmp_path):
        from_folder = load_model(tiny.save("qwen", tmp_path), chat="user")
        from_memory = load_model(tiny.model("qwen"), tokenizer=tiny.tokenizer("qwen"), chat="user")
        assert from_folder.encode(SENTENCES) == from_memory.encode(SENTENCES)
        assert from_folder.fingerprint == from_memory.fingerprint

    def test_another_template_is_another_fingerprint(self):
        other = deepcopy(tiny.tokenizer("qwen"))
        other.chat_template = tiny.CHATML.replace("<|im_end|>", "<|im_end|>!")
        one, two = read("qwen", chat="user"), load_model(uneven("qwen"), tokenizer=other, chat="user")
        assert len({one.fingerprint, two.fingerprint, read("qwen").fingerprint}) == 3

    def test_with_a_sink_it_stays_as_it_is(self):
        assert read("qwen", chat="user", sink="add").encode(SENTENCES) == read("qwen", chat="user").encode(SENTENCES)

    def test_no_template(self):
        with pytest.raises(ModelError, match="has no chat template"):
            read("bert", chat="user")

    @pytest.mark.parametrize(
        ("template", "complaint"),
        [
            ("{{ raise_exception('only users speak') }}", "refuses a message of role 'user'.*only users speak"),
            ("{% for m in messages %}{{ m['content'] | upper }}{% endfor %}", "does not show the message once"),
            ("{% for m in messages %}{{ m['content'] * 2 }}{% endfor %}", "does not show the message once"),
        ],
    )
    def test_templates_that_do_not_fit(self, template, complaint):
        odd = deepcopy(tiny.tokenizer("qwen"))
        odd.chat_template = template
        with pytest.raises(ModelError, match=complaint):
            load_model(uneven("qwen"), tokenizer=odd, chat="user")


def larger(family: str, vocabulary: int):
    torch.manual_seed(0)
    config = tiny.config(family)
    config.vocab_size = vocabulary
    return AutoModel.from_config(config).eval()


class TestDecoder:
    @pytest.mark.parametrize("family", ["t5", "bart"])
    def test_it_is_hugging_faces_of_the_shifted_tokens(self, family):
        model = uneven(family)
        encoder = read(family, model, part="decoder")
        batch = encoder.encode(SENTENCES)
        found = encoder.hidden_states(batch)
        for row, encoded in enumerate(batch):
            shifted = torch.tensor([[model.config.decoder_start_token_id, *encoded.ids[:-1]]])
            theirs = alone(model, encoded.ids, decoder_input_ids=shifted).decoder_hidden_states
            assert len(found) == len(theirs)
            for mine, expected in zip(found, theirs, strict=True):
                assert same(mine[row, : len(encoded.ids)], expected[0])
        assert not encoder.alone
        assert encoder.fingerprint != read(family, model).fingerprint

    def test_its_depth_may_be_another(self):
        torch.manual_seed(0)
        config = tiny.config("t5")
        config.num_decoder_layers = 2
        model = AutoModel.from_config(config)
        assert [read("t5", model, part=part).depth for part in ("encoder", "decoder")] == [3, 2]

    def test_its_attention_is_causal_and_its_twin_is_read_alike(self):
        encoder = read("bart", part="decoder")
        batch = encoder.encode(SENTENCES[:1])
        weights = encoder.attentions(batch)
        assert len(weights) == 3 and all(torch.equal(a, a.tril()) for a in weights)
        twin = encoder.random_twin(1)
        assert twin.reading == encoder.reading and len(twin.hidden_states(batch)) == 4

    @pytest.mark.parametrize("family", ["t5", "bart"])
    def test_blocks_can_be_taken_out_of_it(self, family):
        encoder = read(family, part="decoder")
        batch = encoder.encode(SENTENCES)
        cut = keep_blocks(encoder, [0, 2])
        assert [
            torch.equal(*pair) for pair in zip(cut.hidden_states(batch), encoder.hidden_states(batch), strict=False)
        ] == [True, True, False]
        assert cut.random_twin(1).depth == cut.depth == 2
        whole = cut.random_twin(1).model
        assert [len(find_parts(whole, part).blocks) for part in ("encoder", "decoder")] == [3, 2]

    @pytest.mark.parametrize("family", ["bert", "gpt2"])
    def test_a_model_without_one(self, family):
        with pytest.raises(ModelError, match="is not an encoder-decoder"):
            read(family, part="decoder")


class TestReading:
    def test_defaults_leave_no_trace(self):
        assert Reading().changes() == {}
        plain = read("qwen")
        said = read("qwen", final_norm="as_is", sink="auto", chat=None, part="encoder")
        assert plain.fingerprint == said.fingerprint
        assert "reading" not in plain.describe()
        assert read("qwen", final_norm="pre").describe()["reading"] == {"final_norm": "pre"}

    @pytest.mark.parametrize("wrong", [{"final_norm": "before"}, {"part": "decode"}])
    def test_unknown_choices_are_refused(self, wrong):
        with pytest.raises(ModelError, match=r"is 'before'|is 'decode'"):
            read("qwen", **wrong)
