"""Models with blocks taken out, exchanged or frozen: the same weights, assembled in another way.

Blocks are numbered from 0, layers from 0 (embeddings): block k computes layer k + 1. Of
encoder-decoders `part` says whose blocks are meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import Module

from vestige.errors import ModelError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.surgery.unroll import Part, Parts, configs, find_parts, replace_list

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def freeze(model: PreTrainedModel, blocks: int | None, part: Part = "encoder") -> list[str]:
    """Freeze the embeddings and the first blocks, in place; names of the parameters that no longer learn.

    None freezes nothing, 0 the embeddings (words, positions, types, their norm, ALBERT's map to the
    blocks' width, relative positions), k the embeddings and k blocks: layers 0 to k stay exactly what
    they were. So a norm after the last block is frozen together with that block; a pooler never is.
    A language-model head tied to the embeddings is frozen with them. Give an optimiser only what still
    learns, or its weight decay may move the rest; dropout in frozen blocks stays as it is elsewhere.
    """
    if blocks is None:
        return []
    parts = find_parts(model, part)
    if not 0 <= blocks <= parts.depth:
        raise ModelError(
            f"{type(model).__name__} has {parts.depth} blocks, asked to freeze {blocks}",
            fix=f"choose 0 (embeddings only) to {parts.depth}, or None to freeze nothing",
        )
    if blocks:
        parts.check_own()
    embeddings, norm = parts.outside()
    frozen = [*embeddings.values(), *(p for block in parts.blocks[:blocks] for p in block.parameters())]
    if blocks == parts.depth:
        frozen += norm.values()
    for parameter in frozen:
        parameter.requires_grad_(False)
    which = set(map(id, frozen))
    return [name for name, parameter in model.named_parameters() if id(parameter) in which]


def keep(model: PreTrainedModel, blocks: Sequence[int], part: Part = "encoder") -> PreTrainedModel:
    """A copy of the model with only these blocks, in this order; it can be saved, loaded and trained as usual.

    Embeddings, a final norm, a pooler and heads stay. `range(k)` truncates: what remains are layers
    0 to k (a final norm, where there is one, now follows block k). Where layers share one block
    (ALBERT) only their number can change, unless it is unrolled first.
    """
    made = deepcopy(model)
    parts = find_parts(made, part)
    _cut(made, parts, list(blocks), part)
    _check_built_alike(made, part)
    return made


def keep_blocks(encoder: HuggingFaceEncoder, keep: Sequence[int], name: str | None = None) -> HuggingFaceEncoder:
    """The same for an encoder, with adapters or without: a copy that has only these blocks."""
    depth, _ = encoder.depth, encoder.leaves_out_first  # the sink is the whole model's, and is copied along
    copied = deepcopy({name: encoder.__dict__[name] for name in _WEIGHTS if name in encoder.__dict__})
    part = encoder.reading.part
    parts = find_parts(copied["model"], part, depth)
    _cut(copied["model"], parts, list(keep), part)
    made = HuggingFaceEncoder.__new__(type(encoder))
    made.__dict__ = {k: v for k, v in encoder.__dict__.items() if k not in _REMEMBERED} | copied
    made.head, made.name = None, name or f"{encoder.name} ({len(keep)} of {depth} blocks)"
    return made


def replace_blocks(
    model: PreTrainedModel,
    other: PreTrainedModel,
    blocks: Sequence[int],
    embeddings: bool = False,
    part: Part = "encoder",
) -> PreTrainedModel:
    """A copy of the model whose named blocks, and on request embeddings, have the other model's weights.

    A norm after the last block goes with that block, so with all blocks and the embeddings replaced
    every layer is the other's. Head and pooler stay the model's; a language-model head tied to the
    embeddings follows them. T5's first block holds the relative positions of all blocks.
    """
    made = deepcopy(model)
    mine, theirs = find_parts(made, part), find_parts(other, part)
    if mine.depth != theirs.depth:
        raise ModelError(
            f"the models have {mine.depth} and {theirs.depth} blocks", fix="replace between models of one architecture"
        )
    mine.check_blocks(blocks)
    if blocks:
        mine.check_own()
        theirs.check_own()
    check_same_settings(mine, theirs)
    fixed, norm = mine.outside()
    named = [f"{mine.path}.{block}.{name}" for block in blocks for name in mine.blocks[block].state_dict()]
    named += (norm if mine.depth - 1 in blocks else {}) | (fixed if embeddings else {})
    target, source = mine.stack.state_dict(), theirs.stack.state_dict()
    for name in named:
        mine_is, theirs_is = (_described(tensors.get(name)) for tensors in (target, source))
        if mine_is != theirs_is:
            raise ModelError(
                f"{name} is {mine_is}, in the other model {theirs_is}",
                fix="replace between models of one architecture and, for embeddings, one vocabulary",
            )
        target[name].copy_(source[name])
    return made


_WEIGHTS = ("model", "backbone", "peft")
"""What holds the weights; an adapter's parts belong together, so all are copied at once."""

_REMEMBERED = ("widths", "depth", "fingerprint", "_final_norm", "_accepts")


def _cut(model: PreTrainedModel, parts: Parts, blocks: list[int], part: Part) -> None:
    """Leave only these blocks in the model, in place."""
    parts.check_blocks(blocks)
    if not blocks:
        raise ModelError(f"{type(model).__name__} would have no blocks", fix="keep at least one")
    whole = list(parts.blocks)
    if not parts.shared:
        others = {name for block in whole[1:] for name, _ in block.named_parameters()}
        needed = sorted(name for name, _ in whole[0].named_parameters() if name not in others)
        if len(whole) > 1 and needed and 0 not in blocks:
            raise ModelError(f"block 0 holds {needed[0]}, which all other blocks rely on", fix="keep block 0")
        replace_list(parts, [whole[block] for block in blocks])
        for number, block in enumerate(parts.blocks):
            for module in block.modules():
                if hasattr(module, "layer_idx"):
                    module.layer_idx = number
    elif len(whole) > 1 or blocks != list(range(len(blocks))):
        raise ModelError(
            f"the layers of {type(model).__name__} share {len(whole)} block(s): only their number can change",
            fix="keep range(k), or unroll(model) first",
        )
    _shorten_config(model, parts, blocks, part)


def _shorten_config(model: PreTrainedModel, parts: Parts, blocks: list[int], part: Part) -> None:
    """The number of layers, and every list that has an entry per layer; of an encoder-decoder, only of its part."""
    if part == "decoder":
        key = next(key for key in ("num_decoder_layers", "decoder_layers") if hasattr(model.config, key))
        setattr(model.config, key, len(blocks))
        if parts.stack.config is not model.config:
            parts.stack.config.num_hidden_layers = len(blocks)
        return
    both = [model.config, parts.stack.config]
    for config in both if model.config.is_encoder_decoder else configs(model):
        for key, value in config.to_dict().items():
            if isinstance(value, list) and len(value) == parts.depth and ("layer" in key or "block" in key):
                setattr(config, key, [value[block] for block in blocks])
        config.num_hidden_layers = len(blocks)
        if getattr(config, "num_hidden_groups", None) == parts.depth:
            config.num_hidden_groups = len(blocks)


def _check_built_alike(model: PreTrainedModel, part: Part) -> None:
    """A saved model is built again from its configuration: each block must then be what it is here."""
    with torch.device("meta"):
        fresh = type(model)(deepcopy(model.config))
    for number, pair in enumerate(zip(find_parts(model, part).blocks, find_parts(fresh, part).blocks, strict=True)):
        if (found := next(_differences(*pair), None)) is not None:
            raise ModelError(
                f"block {number} of the new model could not be loaded again: {found}",
                fix="keep block 0, or the order of the blocks",
            )


def _described(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{tuple(tensor.shape)} in {tensor.dtype}"


def check_same_settings(mine: Parts, theirs: Parts) -> None:
    """Refuse models whose blocks compute in different ways."""
    for number, pair in enumerate(zip(mine.blocks, theirs.blocks, strict=False)):
        if (found := next(_differences(*pair), None)) is not None:
            raise ModelError(f"block {number} of the models differs: {found}", fix="use models of one architecture")


def _differences(one: Module, other: Module) -> Iterator[str]:
    """In what two blocks differ apart from their weights: parts, shapes, and numbers such as heads and scales."""
    mine, theirs = dict(one.named_modules()), dict(other.named_modules())
    for name in sorted(mine.keys() ^ theirs.keys()):
        yield f"only one has {name}"
    for name in sorted(mine.keys() & theirs.keys()):
        a, b = mine[name], theirs[name]
        where = name or "the block"
        if type(a) is not type(b):
            yield f"{where} is {type(a).__name__} or {type(b).__name__}"
        for key in sorted(vars(a).keys() & vars(b).keys() - {"training", "p", "gradient_checkpointing"}):
            x, y = vars(a)[key], vars(b)[key]
            if isinstance(x, int | float | str | tuple) and not key.startswith("_") and x != y:
                yield f"{key} of {where} is {x} or {y}"
        for key in sorted(a._parameters.keys() | b._parameters.keys()):
            x, y = (None if p is None else tuple(p.shape) for p in (a._parameters.get(key), b._parameters.get(key)))
            if x != y:
                yield f"{key} of {where} is {x} or {y}"


def top_pruned(depth: int, count: int) -> list[int]:
    """Blocks left when the top `count` of them go."""
    _check_count(depth, count)
    return list(range(depth - count))


def bottom_pruned(depth: int, count: int) -> list[int]:
    """Blocks left when the bottom `count` of them go."""
    _check_count(depth, count)
    return list(range(count, depth))


def _check_count(depth: int, count: int) -> None:
    if not 0 <= count < depth:
        raise ModelError(f"there are {depth} blocks, asked to prune {count}", fix=f"choose 0 to {depth - 1}")
