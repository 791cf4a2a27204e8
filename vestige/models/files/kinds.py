"""What a weight is, from its name: the block it belongs to, and its kind. One table of rules for all families.

A fused matrix is a kind of its own (`attention qkv`); the input of a gated MLP that holds gate and input side by side
is `MLP in`. What no rule knows is `other`, and is counted.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

EMBEDDINGS, OTHER = "embeddings", "other"

_LISTS = r"(?:layers?|h|blocks?|albert_layer_groups|attentions|ffns|layer_norm[12])"
"""Names of lists of blocks; XLM has a list for every kind."""
_BLOCK = re.compile(rf"(?:^|\.){_LISTS}\.(\d+)\.")
_CROSS = re.compile(r"crossattention|cross_attn|encoder_attn|EncDecAttention", re.IGNORECASE)
_ATTENTION = r"(?:^|\.)\w*att(?:entio)?n\w*\."
_MLP = r"(?:^|\.)(?:mlp|ffn|ff|feed_forward|DenseReluDense|experts?|shared_expert)\.(?:.*\.)?"

_INSIDE: tuple[tuple[str, str], ...] = (
    (r"norm|(?:^|[._])ln(?:_\w+|\d)?$|layernorm", "norm"),
    (r"relative_attention_bias|rel_attn\.(?:r|r_\w_bias|seg_embed)$|pos_\w*proj|linear_pos", "positions"),
    (r"(?:^|\.)(?:c_attn|Wqkv|qkv|qkv_proj|qkv_lin|query_key_value|in_proj|in_proj_weight|in_proj_bias)$", "qkv"),
    (r"(?:^|\.)(?:q|query|q_proj|query_proj|q_lin|wq|q_[ab]_proj)$", "q"),
    (r"(?:^|\.)(?:k|key|k_proj|key_proj|k_lin|wk)$", "k"),
    (r"(?:^|\.)(?:v|value|v_proj|value_proj|v_lin|wv)$", "v"),
    (r"(?:^|\.)(?:kv|kv_proj|kv_[ab]_proj\w*)$", "kv"),
    (rf"{_ATTENTION}(?:.*\.)?(?:o|o_proj|out_proj|out_lin|wo|c_proj|dense)$", "o"),
    (rf"(?:{_MLP}|block_sparse_moe\.)(?:gate|router)$|(?:^|\.)router\.", "router"),
    (rf"(?:^|\.)(?:gate_proj|wi_0)$|{_MLP}w1$", "gate"),
    (rf"(?:^|\.)(?:intermediate\.dense|fc1|lin1|c_fc|up_proj|gate_up_proj|wi|wi_1|fc_in|ffn|layer_1|dense_h_to_4h)$"
     rf"|{_MLP}w3$", "in"),
    (rf"(?:^|\.)(?:output\.dense|fc2|lin2|down_proj|fc_out|ffn_output|layer_2|dense_4h_to_h)$"
     rf"|{_MLP}(?:c_proj|wo|w2)$", "out"),
)  # fmt: skip
"""In this order; the first that fits the name inside its block, without `weight` or `bias`, says what it is."""
_INSIDE_RULES = [(re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _INSIDE]

_OUTSIDE: tuple[tuple[str, str], ...] = (
    (r"(?:^|\.)(?:cls|lm_head|classifier|score|qa_outputs|predictions|generator_\w+|discriminator_\w+|vocab_\w+|"
     r"pre_classifier|head|logits_proj|pred_layer)(?:\.|$)", "head"),
    (r"embed|emb$|(?:^|\.)(?:wte|wpe|shared|token_type)(?:\.|$)", EMBEDDINGS),
    (r"pooler|sequence_summary", "pooler"),
    (r"norm|(?:^|[._])ln_\w+", "norm"),
)  # fmt: skip
_OUTSIDE_RULES = [(re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _OUTSIDE]

_MLP_KINDS = ("in", "gate", "out")
_ATTENTION_KINDS = ("q", "k", "v", "kv", "qkv", "o")
KINDS = (
    EMBEDDINGS, *(f"{front}attention {one}" for front in ("", "cross-") for one in _ATTENTION_KINDS),
    *(f"MLP {one}" for one in _MLP_KINDS), "router", "positions", "norm", "pooler", "head", OTHER,
)  # fmt: skip
"""All of them, in the order in which they are shown."""
MATRICES = frozenset(kind for kind in KINDS if "attention" in kind or "MLP" in kind)
"""Kinds whose matrices map the states of a block: those in which intruder dimensions are looked for."""

AFTER_LAYERS = frozenset({"pooler", "head"})
"""Kinds that no layer depends on; tuning often begins with new ones."""

Stack = Literal["", "encoder", "decoder"]


@dataclass(frozen=True)
class Place:
    """Where a weight belongs."""

    layer: int | None
    """The layer that its block puts out, from 1; 0: the embeddings; None: after the blocks, or between them."""
    kind: str
    stack: Stack = ""
    """Of a model that has blocks in both an encoder and a decoder: whose it is."""


def places(names: Iterable[str]) -> dict[str, Place]:
    """Block and kind of every weight of a model."""
    names = list(names)
    own = {name: _stack(name) for name in names if _BLOCK.search(name)}
    both = {"encoder", "decoder"} <= set(own.values())
    return {name: _place(name, own.get(name, "") if both else "") for name in names}


def _stack(name: str) -> Stack:
    before = f".{name[: _BLOCK.search(name).start()]}."  # type: ignore[union-attr]
    return "decoder" if ".decoder." in before else "encoder" if ".encoder." in before else ""


def _place(name: str, stack: Stack) -> Place:
    block = _BLOCK.search(name)
    bare = re.sub(r"\.(?:weight|bias|gamma|beta)$", "", name)
    if block is None or _head(bare[: block.start()]):
        kind = next((kind for rule, kind in _OUTSIDE_RULES if rule.search(bare)), OTHER)
        return Place(0 if kind == EMBEDDINGS else None, kind)
    within = bare[block.end() :] or bare[block.start() :]
    of_list = bare[block.start() : block.end()]  # XLM: attentions.3.q_lin
    kind = next((kind for rule, kind in _INSIDE_RULES if rule.search(within) or rule.search(of_list + within)), OTHER)
    if kind in _ATTENTION_KINDS:
        kind = f"{'cross-' * bool(_CROSS.search(within))}attention {kind}"
    elif kind in _MLP_KINDS:
        kind = f"MLP {kind}"
    return Place(int(block[1]) + 1, kind, stack)


def _head(path: str) -> bool:
    """Whether a numbered part belongs to a head: `classifier.layers.0`."""
    return bool(path) and bool(_OUTSIDE_RULES[0][0].search(path))
