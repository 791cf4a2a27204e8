"""Models with blocks taken out: the same weights, fewer layers."""

from collections.abc import Sequence
from copy import deepcopy

from torch.nn import Module, ModuleList

from vestige.errors import ModelError
from vestige.models.anatomy import block_list, blocks
from vestige.models.huggingface import HuggingFaceEncoder


def keep_blocks(encoder: HuggingFaceEncoder, keep: Sequence[int], name: str | None = None) -> HuggingFaceEncoder:
    """A copy of the model with only these blocks (numbered from 0), in this order.

    Embeddings, a final norm and a pooler stay. `range(k)` truncates: what remains are layers 0 to k.
    Where all layers share one block (ALBERT) only their number can change.
    """
    depth = encoder.depth
    keep = list(keep)
    if not keep or any(not 0 <= block < depth for block in keep):
        raise ModelError(f"{encoder.name} has blocks 0 to {depth - 1}, found {keep}", fix="name at least one of them")
    copied = deepcopy({name: encoder.__dict__[name] for name in _WEIGHTS if name in encoder.__dict__})
    model = copied["model"]
    stack = model.get_decoder() if encoder.stack is not encoder.model else model
    if getattr(stack.config, "num_hidden_groups", None) is None:
        _cut(stack, keep, depth)
    elif keep != list(range(len(keep))):
        raise ModelError(
            f"the layers of {encoder.name} share one block: only their number can change", fix="keep range(k)"
        )
    _shorten_config(model, stack, keep, depth)
    made = HuggingFaceEncoder.__new__(type(encoder))
    made.__dict__ = {k: v for k, v in encoder.__dict__.items() if k not in _REMEMBERED} | copied
    made.head, made.name = None, name or f"{encoder.name} ({len(keep)} of {depth} blocks)"
    return made


_WEIGHTS = ("model", "backbone", "peft")
"""What holds the weights; an adapter's parts belong together, so all are copied at once."""

_REMEMBERED = ("widths", "depth", "fingerprint", "_final_norm", "_accepts")


def _cut(stack: Module, keep: Sequence[int], depth: int) -> None:
    whole = blocks(stack, depth)
    path = block_list(stack, depth)
    assert path is not None
    others = {name for block in whole[1:] for name, _ in block.named_parameters()}
    needed = sorted(name for name, _ in whole[0].named_parameters() if name not in others)
    if needed and 0 not in keep:
        raise ModelError(f"block 0 holds {needed[0]}, which all other blocks rely on", fix="keep block 0")
    parent = stack.get_submodule(path.rpartition(".")[0]) if "." in path else stack
    setattr(parent, path.rpartition(".")[2], ModuleList(whole[block] for block in keep))
    for number, block in enumerate(blocks(stack, len(keep))):
        for module in block.modules():
            if hasattr(module, "layer_idx"):
                module.layer_idx = number


def _shorten_config(model: Module, stack: Module, keep: Sequence[int], depth: int) -> None:
    """The number of layers, and every list that has an entry per layer; of a decoder, only its own."""
    if stack is not model:
        key = next(key for key in ("num_decoder_layers", "decoder_layers") if hasattr(model.config, key))
        setattr(model.config, key, len(keep))
        if stack.config is not model.config:
            stack.config.num_hidden_layers = len(keep)
        return
    for config in {id(c): c for c in (m.config for m in model.modules() if hasattr(m, "config"))}.values():
        for key, value in config.to_dict().items():
            if isinstance(value, list) and len(value) == depth:
                setattr(config, key, [value[block] for block in keep])
        config.num_hidden_layers = len(keep)
