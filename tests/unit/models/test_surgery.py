"""Taking out, exchanging and freezing blocks: heads, encoder-decoders, and what cannot be done."""

from copy import deepcopy

import pytest
import tiny
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    XLMConfig,
)

from vestige.corpus.types import Sentence
from vestige.errors import ModelError
from vestige.models.files.load import load_model
from vestige.models.surgery.blocks import (
    bottom_pruned,
    freeze,
    keep,
    keep_blocks,
    replace_blocks,
    top_pruned,
)
from vestige.models.surgery.unroll import find_parts, unroll

IDS = torch.tensor([[5, 9, 11, 7, 6, 12]])


def drawn(kind, family, seed=0, layers=3, **settings):
    torch.manual_seed(seed)
    config = tiny.config(family, layers)
    for name, value in settings.items():
        setattr(config, name, value)
    return kind.from_config(config).eval()


def run(model, **given):
    with torch.inference_mode():
        return model(input_ids=IDS, output_hidden_states=True, **given)


def learning(model) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


class TestFreeze:
    @pytest.mark.parametrize(
        ("family", "expected"),
        [
            (
                "bert",
                {"word_embeddings.weight", "position_embeddings.weight", "token_type_embeddings.weight"}
                | {"LayerNorm.weight", "LayerNorm.bias"},
            ),
            ("gpt2", {"wte.weight", "wpe.weight"}),
            ("xlnet", {"word_embedding.weight", "mask_emb"}),
            ("llama", {"embed_tokens.weight"}),
            ("deberta", {"word_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias", "rel_embeddings.weight"}),
        ],
    )
    def test_embeddings_are_all_that_blocks_are_fed_with(self, family, expected):
        names = freeze(tiny.model(family), 0)
        assert {name.removeprefix("embeddings.").removeprefix("encoder.") for name in names} == expected

    @pytest.mark.parametrize("family", ["albert", "electra"])
    def test_embeddings_end_with_the_map_to_the_width_of_the_blocks(self, family):
        names = freeze(tiny.model(family), 0)
        mapping = "encoder.embedding_hidden_mapping_in" if family == "albert" else "embeddings_project"
        assert {f"{mapping}.weight", f"{mapping}.bias"} <= set(names)

    def test_blocks_one_by_one(self):
        model = tiny.model("bert", classes=2)
        found = [set(freeze(deepcopy(model), count)) for count in range(4)]
        for count in range(3):
            assert found[count] < found[count + 1]
            assert {name.startswith(f"bert.encoder.layer.{count}.") for name in found[count + 1] - found[count]} == {
                True
            }
        freeze(model, 3)
        assert learning(model) == {
            f"{part}.{kind}" for part in ("bert.pooler.dense", "classifier") for kind in ("weight", "bias")
        }

    def test_none_freezes_nothing(self):
        model = tiny.model("bert")
        assert freeze(model, None) == [] and learning(model) == {name for name, _ in model.named_parameters()}

    @pytest.mark.parametrize(("family", "norm"), [("gpt2", "ln_f"), ("llama", "norm"), ("modernbert", "final_norm")])
    def test_a_final_norm_goes_with_the_last_block(self, family, norm):
        most, everything = tiny.model(family), tiny.model(family)
        freeze(most, 2)
        freeze(everything, 3)
        assert f"{norm}.weight" in learning(most) and not learning(everything)

    def test_again_with_more_blocks(self):
        once, twice = tiny.model("gpt2"), tiny.model("gpt2")
        freeze(twice, 1)
        assert freeze(twice, 2) == freeze(once, 2) and learning(twice) == learning(once)

    def test_the_model_is_left_in_its_mode(self):
        model = tiny.model("bert").train()
        model.embeddings.eval()
        before = torch.random.get_rng_state()
        freeze(model, 1)
        assert model.training and model.encoder.layer[0].training and not model.embeddings.training
        assert torch.equal(before, torch.random.get_rng_state())
        assert all(parameter.grad is None for parameter in model.parameters())

    def test_a_tied_head_is_frozen_with_the_embeddings(self):
        model = drawn(AutoModelForMaskedLM, "bert")
        assert freeze(model, 0)[0] == "bert.embeddings.word_embeddings.weight"
        assert not model.get_output_embeddings().weight.requires_grad and model.cls.predictions.bias.requires_grad

    @pytest.mark.parametrize("part", ["encoder", "decoder"])
    @pytest.mark.parametrize("family", ["t5", "bart"])
    def test_parts_of_encoder_decoders(self, family, part):
        names = freeze(drawn(AutoModel, family), 2, part)
        other = "decoder" if part == "encoder" else "encoder"
        assert any(f"{part}.block.1." in name or f"{part}.layers.1." in name for name in names)
        assert "shared.weight" in names and not any(name.startswith(other) for name in names)

    @pytest.mark.parametrize("family", tiny.ENCODERS)
    def test_training_moves_only_the_rest(self, family):
        model = unroll(tiny.model(family, classes=2)).train()
        frozen = set(freeze(model, 1))
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
        types = torch.tensor([[0, 0, 0, 1, 1, 1]])
        for _ in range(2):
            optimiser.zero_grad()
            model(
                input_ids=IDS, token_type_ids=types if family != "roberta" else None, labels=torch.tensor([1])
            ).loss.backward()
            optimiser.step()
        same = {name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])}
        assert same == frozen
        assert all(parameter.grad is None for name, parameter in model.named_parameters() if name in frozen)

    @pytest.mark.parametrize("count", [-1, 4])
    def test_more_blocks_than_there_are(self, count):
        with pytest.raises(ModelError, match=f"has 3 blocks, asked to freeze {count}"):
            freeze(tiny.model("bert"), count)

    def test_shared_blocks(self):
        with pytest.raises(ModelError, match=r"3 layers of AlbertModel share 1 block(?s:.)*unroll"):
            freeze(tiny.model("albert"), 1)
        assert len(freeze(unroll(tiny.model("albert")), 1)) == 7 + 16


class TestKeep:
    @pytest.mark.parametrize(
        ("family", "kind"),
        [
            *((family, AutoModelForSequenceClassification) for family in (*tiny.ENCODERS, "gpt2", "bart")),
            *((family, AutoModelForTokenClassification) for family in ("bert", "xlnet", "gpt2")),
        ],
    )
    def test_heads_stay(self, family, kind, tmp_path):
        model = drawn(kind, family, num_labels=3, pad_token_id=1, eos_token_id=12)
        cut = keep(model, range(2))
        assert type(cut) is type(model) and cut.config.num_hidden_layers == 2 and model.config.num_hidden_layers == 3
        head = [name for name in model.state_dict() if not name.startswith(f"{model.base_model_prefix}.")]
        assert head and all(torch.equal(model.state_dict()[name], cut.state_dict()[name]) for name in head)
        cut.save_pretrained(tmp_path)
        again = kind.from_pretrained(tmp_path).eval()
        assert again.state_dict().keys() == cut.state_dict().keys()
        assert all(map(torch.equal, again.state_dict().values(), cut.state_dict().values()))
        assert torch.allclose(run(again).logits, run(cut).logits, atol=1e-5)
        assert not torch.allclose(run(cut).logits, run(model).logits, atol=1e-3)

    @pytest.mark.parametrize(("kind", "family"), [(AutoModelForMaskedLM, "bert"), (AutoModelForCausalLM, "gpt2")])
    def test_ties_stay(self, kind, family):
        cut = keep(drawn(kind, family), [0, 2])
        assert cut.get_output_embeddings().weight is cut.get_input_embeddings().weight

    def test_text_is_written_with_the_cache_as_without(self):
        cut = keep(drawn(AutoModelForCausalLM, "gpt2"), [1, 2])
        cached, plain = (
            cut.generate(IDS, max_new_tokens=6, do_sample=False, use_cache=use, pad_token_id=0) for use in (True, False)
        )
        assert torch.equal(cached, plain)

    @pytest.mark.parametrize("part", ["encoder", "decoder"])
    @pytest.mark.parametrize("family", ["t5", "bart"])
    def test_parts_of_encoder_decoders(self, family, part, tmp_path):
        model = drawn(AutoModelForSeq2SeqLM, family)
        cut = keep(model, [0, 2], part)
        sizes = [find_parts(cut, which).depth for which in ("encoder", "decoder")]
        assert sizes == ([2, 3] if part == "encoder" else [3, 2])
        cut.save_pretrained(tmp_path)
        again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
        given = {"decoder_input_ids": IDS}
        assert torch.allclose(run(again, **given).logits, run(cut, **given).logits, atol=1e-4)
        key = f"{part}_hidden_states"
        found, whole = getattr(run(cut, **given), key), getattr(run(model, **given), key)
        assert len(found) == 3 and torch.equal(found[1], whole[1]) and not torch.equal(found[2], whole[2])

    def test_nothing_is_drawn_at_random(self):
        model, before = tiny.model("bert"), torch.random.get_rng_state()
        keep(model, [0])
        assert torch.equal(before, torch.random.get_rng_state())

    def test_only_the_number_of_shared_blocks(self):
        model = tiny.model("albert")
        assert all(map(torch.equal, run(keep(model, range(2))).hidden_states, run(model).hidden_states))
        assert keep(model, range(2)).config.num_hidden_groups == 1
        with pytest.raises(ModelError, match=r"share 1 block\(s\): only their number can change"):
            keep(model, [1, 2])

    def test_groups_of_layers_that_share(self):
        """Two groups of two layers: the first two layers alone would be taken for one of each group."""
        with pytest.raises(ModelError, match=r"share 2 block"):
            keep(drawn(AutoModel, "albert", layers=4, num_hidden_groups=2), range(2))

    def test_lists_by_layer_are_cut_and_others_are_not(self):
        kept = keep(drawn(AutoModel, "modernbert"), [0, 2]).config.layer_types
        assert kept == [tiny.config("modernbert").layer_types[block] for block in (0, 2)]
        assert keep(drawn(AutoModel, "deberta", layers=2), [0]).config.pos_att_type == ["p2c", "c2p"]

    def test_a_scale_that_depends_on_the_place_of_a_block(self):
        """Loaded again, the second block would scale as the first."""
        model = drawn(AutoModel, "gpt2", scale_attn_by_inverse_layer_idx=True)
        assert keep(model, [0, 1]).config.n_layer == 2
        with pytest.raises(ModelError, match=r"could not be loaded again: scal.* of attn is"):
            keep(model, [1, 2])

    @pytest.mark.parametrize("wrong", [[3], [-1], [0, 0]])
    def test_blocks_that_are_not_there(self, wrong):
        with pytest.raises(ModelError, match="has blocks 0 to 2, found"):
            keep(tiny.model("bert"), wrong)

    def test_no_block_at_all(self):
        with pytest.raises(ModelError, match="would have no blocks"):
            keep(tiny.model("bert"), [])

    def test_a_model_without_a_list_of_blocks(self):
        model = AutoModel.from_config(XLMConfig(vocab_size=99, emb_dim=32, n_layers=3, n_heads=4))
        with pytest.raises(ModelError, match="has no list of 3 blocks"):
            keep(model, [0])

    def test_decoder_of_a_model_without_one(self):
        with pytest.raises(ModelError, match="is not an encoder-decoder"):
            keep(tiny.model("bert"), [0], "decoder")


class TestEncoders:
    @pytest.mark.parametrize("blocks", [[0, 2], [1, 2], [2]])
    @pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2", "bart"])
    def test_an_encoder_is_cut_as_its_model(self, family, blocks):
        model = tiny.model(family)
        whole = load_model(model, tokenizer=tiny.tokenizer(family), name="whole")
        cut = keep_blocks(whole, blocks)
        also = load_model(keep(model, blocks), tokenizer=tiny.tokenizer(family))
        batch = whole.encode([Sentence("one", ("The", "fox", "came", "."))])
        assert all(map(torch.equal, cut.hidden_states(batch), also.hidden_states(batch)))
        assert cut.name == f"whole ({len(blocks)} of 3 blocks)" and cut.depth == len(blocks)

    def test_of_an_unrolled_model(self):
        model = unroll(tiny.model("albert"))
        whole = load_model(model, tokenizer=tiny.tokenizer("albert"))
        batch = whole.encode([Sentence("one", ("The", "fox", "came", "."))])
        cut = keep_blocks(whole, [2]).hidden_states(batch)
        assert len(cut) == 2 and torch.equal(cut[1], whole.hidden_states(batch)[1])


class TestReplace:
    def test_a_tied_head_follows_the_embeddings(self):
        model, other = (drawn(AutoModelForMaskedLM, "bert", seed) for seed in (0, 1))
        made = replace_blocks(model, other, range(3), embeddings=True)
        assert made.get_output_embeddings().weight is made.get_input_embeddings().weight
        assert torch.equal(made.get_output_embeddings().weight, other.get_output_embeddings().weight)
        mine, theirs, found = (m.cls.predictions.transform.dense.weight for m in (model, other, made))
        assert torch.equal(found, mine) and not torch.equal(found, theirs)

    def test_from_a_model_with_another_head(self):
        model, other = drawn(AutoModelForMaskedLM, "roberta"), tiny.model("roberta", seed=1, classes=2)
        made = replace_blocks(model, other, range(3), embeddings=True)
        assert all(map(torch.equal, run(made).hidden_states, run(other).hidden_states))

    def test_pooler_stays(self):
        model, other = tiny.model("bert"), tiny.model("bert", seed=1)
        made = replace_blocks(model, other, range(3), embeddings=True)
        assert torch.equal(made.pooler.dense.weight, model.pooler.dense.weight)

    @pytest.mark.parametrize("family", ["t5", "bart"])
    def test_decoders(self, family):
        model, other = drawn(AutoModel, family), drawn(AutoModel, family, seed=1)
        made = replace_blocks(model, other, [1], part="decoder")
        changed = {
            name for name, tensor in made.state_dict().items() if not torch.equal(tensor, model.state_dict()[name])
        }
        assert changed and all(name.startswith(("decoder.block.1.", "decoder.layers.1.")) for name in changed)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"num_attention_heads": 2}, "attention_head_size of attention.self is 8 or 16"),
            ({"layer_norm_eps": 1e-3}, "eps of attention.output.LayerNorm"),
            ({"hidden_act": "relu"}, "intermediate_act_fn is GELUActivation or ReLU"),
            ({"intermediate_size": 40}, "intermediate.dense is 48 or 40"),
            ({"num_hidden_layers": 2}, "have 3 and 2 blocks"),
            ({"vocab_size": 90}, r"word_embeddings.weight is \(\d+, 32\) .* in the other model \(90, 32\)"),
        ],
    )
    def test_models_that_do_not_match(self, change, problem):
        with pytest.raises(ModelError, match=problem):
            replace_blocks(tiny.model("bert"), drawn(AutoModel, "bert", **change), [0], embeddings=True)

    def test_another_vocabulary_is_no_matter_to_blocks(self):
        replace_blocks(tiny.model("bert"), drawn(AutoModel, "bert", vocab_size=90), [0])

    def test_another_precision(self):
        with pytest.raises(ModelError, match=r"in torch.float32, in the other model .* in torch.bfloat16"):
            replace_blocks(tiny.model("bert"), tiny.model("bert").to(torch.bfloat16), [0])

    def test_shared_blocks(self):
        with pytest.raises(ModelError, match="share 1 block"):
            replace_blocks(tiny.model("albert"), tiny.model("albert", seed=1), [0])


class TestUnroll:
    def test_the_head_stays(self, tmp_path):
        model = tiny.model("albert", classes=2)
        made = unroll(model)
        assert torch.equal(run(made).logits, run(model).logits)
        made.save_pretrained(tmp_path)
        again = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
        assert torch.allclose(run(again).logits, run(model).logits, atol=1e-5)

    def test_other_models_are_copied(self):
        model = tiny.model("bert")
        made = unroll(model)
        assert made is not model and all(map(torch.equal, run(made).hidden_states, run(model).hidden_states))

    def test_blocks_of_several_layers(self):
        with pytest.raises(ModelError, match="2 layers deep"):
            unroll(drawn(AutoModel, "albert", inner_group_num=2))


class TestBlocksToKeep:
    """The examples that Sajjad and others give for twelve layers, counted from 1, with four or six gone."""

    def test_examples(self):
        layers = range(1, 13)

        def gone(kept):
            return [layer for layer in layers if layer - 1 not in kept]

        assert gone(top_pruned(12, 4)) == [9, 10, 11, 12]
        assert gone(bottom_pruned(12, 4)) == [1, 2, 3, 4]

    @pytest.mark.parametrize("depth", [1, 2, 5, 12])
    def test_as_many_go_as_asked(self, depth):
        for count in range(depth):
            found = [top_pruned(depth, count), bottom_pruned(depth, count)]
            for kept in found:
                assert len(kept) == depth - count and kept == sorted(set(kept)) and set(kept) <= set(range(depth))

    @pytest.mark.parametrize("prune", [top_pruned, bottom_pruned])
    @pytest.mark.parametrize("count", [-1, 12])
    def test_too_many(self, prune, count):
        with pytest.raises(ModelError, match=f"there are 12 blocks, asked to prune {count}"):
            prune(12, count)
