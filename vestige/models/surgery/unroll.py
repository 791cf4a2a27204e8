"""What surgery works on: the blocks of a model, what lies before and after them; shared blocks unrolled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from vestige.errors import ModelError
from vestige.models.surgery.anatomy import block_list, watching

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Part = Literal["encoder", "decoder"]


@dataclass(frozen=True)
class Parts:
    """Where the blocks of a model are."""

    stack: Module
    """The module that runs the blocks: the backbone; of an encoder-decoder, its encoder or its decoder."""
    depth: int
    """Number of layers above the embeddings."""
    path: str
    """The list of blocks, seen from the stack."""

    @property
    def blocks(self) -> ModuleList:
        found = self.stack.get_submodule(self.path)
        assert isinstance(found, ModuleList)
        return found

    @property
    def shared(self) -> bool:
        """Do several layers use one block (ALBERT)?"""
        return len(self.blocks) != self.depth

    def own(self, index: int) -> Module:
        """The block of one layer, shared or not."""
        return self.blocks[int(index / (self.depth / len(self.blocks)))]

    def check_own(self) -> None:
        if self.shared:
            raise ModelError(
                f"the {self.depth} layers of {type(self.stack).__name__} share {len(self.blocks)} block(s)",
                fix="give every layer a block of its own first: unroll(model)",
            )

    def check_blocks(self, wanted: Sequence[int]) -> None:
        known = all(0 <= block < self.depth for block in wanted)
        if not known or len(set(wanted)) != len(wanted):
            raise ModelError(
                f"{type(self.stack).__name__} has blocks 0 to {self.depth - 1}, found {list(wanted)}",
                fix="name some of them, each once",
            )

    @contextmanager
    def _traced(self) -> Iterator[dict[str, Parameter]]:
        """Every parameter outside the blocks, all of them followed by autograd; dropout is off meanwhile."""
        training = {module: module.training for module in self.stack.modules()}
        outside = {n: p for n, p in self.stack.named_parameters() if not n.startswith(f"{self.path}.")}
        learned = {name: parameter.requires_grad for name, parameter in outside.items()}
        self.stack.eval()
        for parameter in outside.values():
            parameter.requires_grad_(True)
        try:
            with torch.inference_mode(False), torch.enable_grad():
                yield outside
        finally:
            for module, was in training.items():
                module.training = was
            for name, was in learned.items():
                outside[name].requires_grad_(was)

    def outside(self) -> tuple[dict[str, Parameter], dict[str, Parameter]]:
        """Parameters outside the blocks: the embeddings', and those of a norm between last block and last layer.

        Embeddings are all that blocks are fed with (words, positions, types, their norm, a map to the
        width of the blocks, relative positions), and what lies idle (XLNet's mask). A pooler is in neither.
        """
        with self._traced() as outside:
            last = f"{self.path}.{len(self.blocks) - 1}"
            with watching({last: self.stack.get_submodule(last)}) as seen:
                output = self.stack(input_ids=torch.zeros(1, 2, dtype=torch.long, device=_device(self.stack)))
            values = output.values() if isinstance(output, dict) else output
            every = [value for value in values if isinstance(value, Tensor) and value.requires_grad]
            fed = _reached([seen[last].output], outside)
            top = _reached(every[:1], outside) - fed
            after = _reached(every, outside) - fed
        return {n: p for n, p in outside.items() if n not in after}, {n: p for n, p in outside.items() if n in top}


def find_parts(model: PreTrainedModel, part: Part = "encoder", depth: int | None = None) -> Parts:
    """The parts of a backbone, with or without a head on it; `depth` where it is known, else the configuration's."""
    stack = model.base_model
    if stack.config.is_encoder_decoder:
        stack = stack.get_encoder() if part == "encoder" else stack.get_decoder()
    elif part == "decoder":
        raise ModelError(f"{type(model).__name__} is not an encoder-decoder", fix='leave part="decoder" out')
    if depth is None:
        own = getattr(stack.config, "decoder_layers", None) if part == "decoder" else None
        depth = own or stack.config.num_hidden_layers
    if getattr(stack.config, "num_hidden_groups", None) is None:
        path = block_list(stack, depth)
    else:
        path = next((name for name, module in stack.named_modules() if isinstance(module, ModuleList)), None)
    if path is None:
        raise ModelError(
            f"{type(stack).__name__} has no list of {depth} blocks: its layers are kept in a way not seen before",
            fix="choose a model whose layers have blocks of their own",
        )
    return Parts(stack, depth, path)


def unroll(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the model in which every layer has a block of its own.

    ALBERT's layers share one block; here each gets a copy of it, so that blocks can be frozen,
    replaced or taken out one by one. The copy computes the same and is an ordinary ALBERT with as
    many groups as layers: it can be saved and loaded. Other models are copied as they are.
    """
    made = deepcopy(model)
    parts = find_parts(made)
    if parts.shared:
        if made.config.inner_group_num != 1:
            raise ModelError(
                f"a block of this model is {made.config.inner_group_num} layers deep (inner_group_num)",
                fix="only models with one layer per block can be unrolled",
            )
        own = [deepcopy(parts.own(layer)) for layer in range(parts.depth)]
        replace_list(parts, own)
        for config in configs(made):
            config.num_hidden_groups = parts.depth
    return made


def replace_list(parts: Parts, blocks: Sequence[Module]) -> None:
    """Put another list of blocks in the place of the old one."""
    holder, _, name = parts.path.rpartition(".")
    setattr(parts.stack.get_submodule(holder), name, ModuleList(blocks))


def configs(model: Module) -> list:
    """Every configuration that some module of the model refers to, once."""
    return list({id(c): c for c in (m.config for m in model.modules() if hasattr(m, "config"))}.values())


def _reached(tensors: Sequence[Tensor], parameters: dict[str, Parameter]) -> set[str]:
    """Names of the parameters the tensors depend on."""
    total = torch.stack([tensor.float().sum() for tensor in tensors]).sum()
    found = torch.autograd.grad(total, list(parameters.values()), retain_graph=True, allow_unused=True)
    return {name for name, gradient in zip(parameters, found, strict=True) if gradient is not None}


def _device(stack: Module) -> torch.device:
    return stack.get_input_embeddings().weight.device
