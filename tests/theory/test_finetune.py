"""What must hold whatever the data: frozen weights stay, the rest moves, fewer blocks are the same blocks."""

from dataclasses import replace

import pytest
import tiny
import torch
from unit.finetune.made import QUICK, opinions, words

from vestige.finetune.loop import optimiser
from vestige.finetune.model import build, load_tuned
from vestige.finetune.problems import find_problem
from vestige.finetune.train import finetune
from vestige.models.files.load import load_model
from vestige.models.surgery.blocks import freeze
from vestige.models.surgery.unroll import unroll

DECAYING = replace(QUICK, epochs=1, decay=0.5)


def parameters(folder):
    return dict(load_model(folder).model.named_parameters())


@pytest.mark.parametrize(
    ("family", "blocks"),
    [
        ("bert", 0),
        ("bert", 2),
        ("bert", 3),
        ("roberta", 2),
        ("xlnet", 2),
        ("gpt2", 3),
        ("albert", 0),
        ("albert", 1),
        ("albert", 3),
    ],
)
def test_frozen_weights_are_the_same_to_the_bit_in_spite_of_weight_decay(family, blocks, tmp_path, cache):
    base = tiny.save(family, tmp_path / family)
    tuned = finetune(base, opinions(), replace(DECAYING, freeze=blocks), threads=1, cache=cache)
    assert tuned.log["unrolled"] is (family == "albert" and blocks > 0)
    started = load_model(base).model
    started = unroll(started) if tuned.log["unrolled"] else started
    before, after = dict(started.named_parameters()), parameters(tuned.folder)
    held = set(freeze(started, blocks))
    assert held
    for name, parameter in before.items():
        moved = not torch.equal(parameter, after[name])
        if name in held:
            assert not moved, name
        elif parameter.ndim > 1 and not name.startswith("pooler"):
            assert moved, name
    assert before.keys() == after.keys()
    batch = load_model(base).encode(opinions().corpus["dev"])
    pairs = zip(load_model(base).hidden_states(batch), load_model(tuned.folder).hidden_states(batch), strict=True)
    same = [torch.equal(one, other) for one, other in pairs]
    assert all(same[: blocks + 1]) and not any(same[blocks + 1 :])


def test_with_everything_frozen_only_the_head_learns(tmp_path, cache):
    """The baseline of a tuned model: the same head on the encoder as it was."""
    base = tiny.save("bert", tmp_path / "bert")
    tuned = finetune(base, words(), replace(QUICK, rate=3e-2, dropout=0.0, freeze=3), threads=1, cache=cache)
    assert load_model(tuned.folder).weights_digest() == load_model(base).weights_digest()
    assert tuned.log["learning"] == 32 * 3 + 3
    assert tuned.log["curve"][-1]["loss"] < tuned.log["curve"][1]["loss"]


def test_frozen_parameters_are_not_in_the_optimiser_and_get_no_gradient(tiny_encoder):
    encoder = tiny_encoder("bert")
    recipe = replace(QUICK, freeze=2)
    problem = find_problem(opinions(), recipe)
    model = build(encoder.model, encoder.tokenizer, problem, recipe, name="x", seed=0, device="cpu")
    inside = {id(p) for group in optimiser(model, recipe).param_groups for p in group["params"]}
    examples, _ = problem.examples(model.encoder, opinions().corpus["train"][:4], "opinion", True)
    model.train()
    model(*model.batch(examples, training=True)).backward()
    for parameter in model.parameters():
        assert (id(parameter) in inside) is parameter.requires_grad is (parameter.grad is not None)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "xlnet", "distilbert"])
@pytest.mark.parametrize("still", [False, True])
def test_dropout_in_frozen_blocks_is_active_unless_switched_off(still, family, tiny_encoder):
    encoder = tiny_encoder(family)
    recipe = replace(QUICK, freeze=2, freeze_eval=still)
    problem = find_problem(opinions(), recipe)
    model = build(encoder.model, encoder.tokenizer, problem, recipe, name="x", seed=0, device="cpu").train()
    inputs, _ = model.batch(problem.examples(model.encoder, opinions().corpus["train"][:4], "opinion", True)[0], True)
    with torch.no_grad():
        one, two = (model.whole(**inputs, output_hidden_states=True).hidden_states for _ in range(2))
    assert [torch.equal(a, b) for a, b in zip(one, two, strict=True)] == [still] * 3 + [False]


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_weight_decay_spares_biases_and_norms(family, tmp_path, cache):
    """XLNet's biases of attention are matrices."""
    encoder = load_model(tiny.save(family, tmp_path / family))
    problem = find_problem(opinions(), QUICK)
    model = build(encoder.model, encoder.tokenizer, problem, QUICK, name="x", seed=0, device="cpu")
    decayed, spared = optimiser(model, replace(QUICK, decay=0.3)).param_groups
    assert decayed["weight_decay"] == 0.3 and spared["weight_decay"] == 0
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    small = ("bias", "Norm", "layer_norm")
    assert all(any(part in names[id(p)] for part in small) for p in spared["params"])
    assert not any(part in names[id(p)] for part in small for p in decayed["params"])


def test_a_tuned_model_on_the_first_blocks_starts_from_the_layers_of_the_whole(tmp_path, cache):
    """With a rate of nothing, the truncated model's layers are the base's first."""
    base = tiny.save("bert", tmp_path / "bert")
    tuned = finetune(base, opinions(), replace(QUICK, epochs=1, rate=1e-30), keep=range(2), threads=1, cache=cache)
    batch = load_model(base).encode(opinions().corpus["dev"])
    whole, cut = load_model(base).hidden_states(batch), load_model(tuned.folder).hidden_states(batch)
    assert len(cut) == 3 and all(torch.equal(a, b) for a, b in zip(cut, whole, strict=False))
    assert load_tuned(tuned.folder).config.num_hidden_layers == 2
