"""Block and kind of every weight of every family, from its name."""

import pytest
import tiny
import tiny_lm

from vestige.models.files.kinds import KINDS, OTHER, places

ATTENTION = {"attention q", "attention k", "attention v", "attention o"}
FUSED = {"attention qkv", "attention o"}
WANTED = {"gpt2": FUSED, "modernbert": FUSED}


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_weight_inside_a_block_has_a_kind(family):
    made = tiny.model(family, layers=2)
    found = places(name for name, _ in made.named_parameters())
    assert not [name for name, place in found.items() if place.kind == OTHER]
    assert {place.kind for place in found.values()} <= set(KINDS)
    inside = {place.kind for place in found.values() if place.layer}
    assert inside >= WANTED.get(family, ATTENTION) | {"MLP in", "MLP out", "norm"}
    blocks = 1 if family == "albert" else 2
    assert {place.layer for place in found.values()} - {None} == {*range(blocks + 1)}
    stacks = {place.stack for place in found.values() if place.layer}
    assert stacks == ({"encoder", "decoder"} if made.config.is_encoder_decoder else {""})


@pytest.mark.parametrize("family", ("bert", "roberta", "gpt2", "llama"))
def test_names_under_a_head_are_those_without_one(family):
    headed = tiny_lm.whole(family, layers=2) if family != "roberta" else tiny.model(family, layers=2, classes=2)
    plain, found = (places(name for name, _ in model.named_parameters()) for model in (headed.base_model, headed))
    front = f"{headed.base_model_prefix}."
    shared = [name for name in found if name.removeprefix(front) in plain]
    assert len(shared) >= 20
    assert all(found[name] == plain[name.removeprefix(front)] for name in shared)
    assert all(found[name].kind == "head" for name in found if name not in shared)


@pytest.mark.parametrize(
    "name, layer, kind",
    [
        ("transformer.h.3.self_attention.query_key_value.weight", 4, "attention qkv"),
        ("transformer.h.3.self_attention.dense.bias", 4, "attention o"),
        ("gpt_neox.layers.0.mlp.dense_4h_to_h.weight", 1, "MLP out"),
        ("model.layers.1.block_sparse_moe.gate.weight", 2, "router"),
        ("model.layers.1.block_sparse_moe.experts.7.w2.weight", 2, "MLP out"),
        ("model.layers.1.mlp.experts.7.gate_proj.weight", 2, "MLP gate"),
        ("model.layers.9.self_attn.q_norm.weight", 10, "norm"),
        ("bert.encoder.layer.0.attention.output.LayerNorm.gamma", 1, "norm"),
        ("bert.encoder.layer.2.crossattention.self.key.weight", 3, "cross-attention k"),
        ("attentions.4.q_lin.weight", 5, "attention q"),
        ("ffns.4.lin2.weight", 5, "MLP out"),
        ("layer_norm1.4.weight", 5, "norm"),
        ("encoder.block.0.layer.1.DenseReluDense.wi_0.weight", 1, "MLP gate"),
        ("cls.predictions.transform.dense.weight", None, "head"),
        ("score.weight", None, "head"),
        ("model.norm.weight", None, "norm"),
        ("something.of.its.own", None, OTHER),
    ],
)
def test_names_of_other_families(name, layer, kind):
    place = places([name])[name]
    assert (place.layer, place.kind) == (layer, kind)
