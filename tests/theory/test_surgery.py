"""What taking blocks out, exchanging and freezing them must leave exactly as it was, family by family."""

from contextlib import contextmanager

import pytest
import tiny
import torch
from transformers import AutoModel

from vestige.errors import ModelError
from vestige.models.surgery.blocks import bottom_pruned, freeze, keep, replace_blocks, top_pruned
from vestige.models.surgery.unroll import find_parts, unroll

FINAL_NORM = {"modernbert": "final_norm", "gpt2": "ln_f", "llama": "norm", "qwen": "norm", "t5": "final_layer_norm"}
"""Families with a norm after their last block, and where it is."""
IDS = torch.tensor([[5, 9, 11, 7, 6, 12], [8, 5, 10, 13, 7, 9]])


def states(model):
    """Every hidden state of a model; of an encoder-decoder, its encoder's."""
    stack = find_parts(model).stack
    with torch.inference_mode():
        found = stack(input_ids=IDS, output_hidden_states=True).hidden_states
    assert len(found) == find_parts(model).depth + 1
    return found


def equal(found, expected) -> bool:
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def uneven(family: str, seed: int = 0, layers: int = 3):
    """A tiny model whose norms and biases are not the identity, with a block for each layer."""
    made = tiny.model(family, seed=seed, layers=layers)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
    return unroll(made)


@contextmanager
def untouched(*models):
    """The models are, to the bit, what they were."""
    before = [({k: v.clone() for k, v in m.state_dict().items()}, m.config.to_dict(), states(m)) for m in models]
    yield
    for model, (weights, config, layers) in zip(models, before, strict=True):
        assert model.config.to_dict() == config
        assert equal(states(model), layers)
        assert equal(list(model.state_dict().values()), list(weights.values()))
        assert list(model.state_dict()) == list(weights)


def states_at_first(model):
    """What the first block is fed with."""
    seen = []
    hook = find_parts(model).blocks[0].register_forward_pre_hook(lambda block, given: seen.append(given[0]))
    states(model)
    hook.remove()
    return seen[0]


def reloaded(model, folder):
    model.save_pretrained(folder)
    return AutoModel.from_pretrained(folder).eval()


@pytest.mark.parametrize("family", tiny.FAMILIES)
class TestKeep:
    def test_all_blocks_are_the_model(self, family):
        model = uneven(family)
        assert top_pruned(3, 0) == bottom_pruned(3, 0) == [0, 1, 2]
        assert equal(states(keep(model, range(3))), states(model))

    def test_a_truncated_model_computes_the_lower_layers(self, family, tmp_path):
        model = uneven(family)
        whole = states(model)
        for count in (1, 2):
            with untouched(model):
                cut = keep(model, top_pruned(3, 3 - count))
            assert equal(states(cut)[:count], whole[:count])
            top = states(cut)[-1]
            if family in FINAL_NORM:
                norm = find_parts(cut).stack.get_submodule(FINAL_NORM[family])
                with torch.inference_mode():
                    assert torch.equal(top, norm(whole[count]))
            else:
                assert torch.equal(top, whole[count])
            assert equal(states(reloaded(cut, tmp_path / str(count))), states(cut))

    def test_without_its_lower_blocks_the_upper_run_on_the_embeddings(self, family, tmp_path):
        if family in ("t5", "modernbert"):
            return self.refused(family)
        model = uneven(family)
        with untouched(model):
            cut = keep(model, bottom_pruned(3, 2))
        assert torch.equal(states(cut)[0], states(model)[0])
        entered = states_at_first(model)
        hook = find_parts(model).blocks[2].register_forward_pre_hook(lambda block, given: (entered, *given[1:]))
        found = states(model)[-1]
        hook.remove()
        assert torch.equal(states(cut)[-1], found) and not torch.equal(found, states(model)[-1])
        assert equal(states(reloaded(cut, tmp_path)), states(cut))

    def refused(self, family):
        """T5's first block holds the relative positions of all; ModernBERT's has a norm less than the others."""
        with pytest.raises(ModelError, match=r"relative_attention_bias|attn_norm is LayerNorm or Identity"):
            keep(uneven(family), bottom_pruned(3, 2))

    def test_a_block_less_is_its_parameters_less(self, family):
        model = uneven(family)
        block = sum(p.numel() for p in find_parts(model).blocks[2].parameters())
        sizes = [sum(p.numel() for p in m.parameters()) for m in (model, keep(model, [0]), keep(model, [0, 2]))]
        assert sizes[0] - sizes[1] == 2 * block and sizes[0] - sizes[2] == block


@pytest.mark.parametrize("family", tiny.FAMILIES)
class TestReplace:
    def test_by_itself(self, family):
        model = uneven(family)
        for count in (1, 3):
            assert equal(states(replace_blocks(model, model, range(3 - count, 3), embeddings=True)), states(model))

    def test_everything(self, family, tmp_path):
        model, other = uneven(family), uneven(family, seed=1)
        with untouched(model, other):
            made = replace_blocks(model, other, range(3), embeddings=True)
        assert equal(states(made), states(other)) and not equal(states(made), states(model))
        assert equal(states(reloaded(made, tmp_path)), states(other))

    def test_only_the_last_blocks(self, family):
        model, other = uneven(family), uneven(family, seed=1)
        made = states(replace_blocks(model, other, [2]))
        assert [torch.equal(*pair) for pair in zip(made, states(model), strict=True)] == [True, True, True, False]

    def test_only_the_embeddings(self, family):
        model, other = uneven(family), uneven(family, seed=1)
        made = states(replace_blocks(model, other, [], embeddings=True))
        assert torch.equal(made[0], states(other)[0]) and not torch.equal(made[1], states(other)[1])
        back = replace_blocks(replace_blocks(model, other, [], embeddings=True), model, [], embeddings=True)
        assert equal(states(back), states(model))


@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_frozen_layers_stay_what_they_are(family, blocks):
    """With every other parameter moved at random, layers up to the frozen blocks are the same to the bit."""
    model = uneven(family)
    before = states(model)
    names = freeze(model, blocks)
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert sorted(names) == sorted(frozen) and names
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter))
    assert [torch.equal(*pair) for pair in zip(before, states(model), strict=True)] == [
        layer <= blocks for layer in range(4)
    ]


class TestUnroll:
    @pytest.mark.parametrize("groups", [1, 2, 3])
    @pytest.mark.parametrize("ran", [False, True])
    def test_computes_the_same(self, groups, ran, tmp_path):
        torch.manual_seed(0)
        config = tiny.config("albert", layers=5)
        config.num_hidden_groups = groups
        model = AutoModel.from_config(config).eval()
        if ran:
            states(model)
        made = unroll(model)
        with untouched(model):
            assert equal(states(made), states(model))
        assert equal(states(reloaded(made, tmp_path)), states(model))
        assert model.config.num_hidden_groups == groups and made.config.num_hidden_groups == 5
        blocks = find_parts(made).blocks
        assert len({p.data_ptr() for block in blocks for p in block.parameters()}) == 5 * len(
            list(blocks[0].parameters())
        )
