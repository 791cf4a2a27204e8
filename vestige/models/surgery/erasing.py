"""Running a model on hidden states of which something is erased: hooks that change one layer of a forward pass."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from vestige.errors import AnalysisError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.surgery.unroll import find_parts
from vestige.models.tokens.align import Encoded

Erase = Callable[[Tensor], Tensor]
"""States (..., width) to states of the same shape."""


@contextmanager
def erasing(encoder: HuggingFaceEncoder, layer: int, eraser: Erase | None) -> Iterator[None]:
    """Meanwhile the model goes on from a layer's erased states, at all positions, special tokens included.

    None erases nothing.
    """
    if eraser is None:
        yield
        return
    erase = eraser
    if not 0 <= layer <= encoder.depth:
        raise AnalysisError(
            f"{encoder.name} has layers 0 to {encoder.depth}, asked for {layer}", fix="name one of them"
        )
    parts = find_parts(encoder.model, encoder.reading.part, encoder.depth)
    norm = encoder._final_norm if layer == encoder.depth and encoder.reading.final_norm != "pre" else None
    streams = 2 if "perm_mask" in encoder._accepts else 1
    block = parts.own(max(layer - 1, 0))
    pass_number = sum(parts.own(earlier) is block for earlier in range(layer - 1))
    runs = 0

    def start(module: Module, given: tuple, named: dict) -> None:
        nonlocal runs
        runs = 0

    def is_this_layer() -> bool:
        """A block that layers share runs several times in a pass."""
        nonlocal runs
        runs += 1
        return runs == pass_number + 1

    def before(module: Module, given: tuple, named: dict) -> tuple[tuple, dict] | None:
        if not is_this_layer():
            return None
        if given:
            return _first(given, erase, streams), named
        name = next(name for name, value in named.items() if isinstance(value, Tensor))
        return given, {**named, name: erase(named[name])}

    def after(module: Module, given: tuple, output: Any) -> Any:
        if not is_this_layer():
            return None
        return erase(output) if isinstance(output, Tensor) else _first(output, erase, streams)

    with ExitStack() as stack:
        stack.enter_context(parts.stack.register_forward_pre_hook(start, with_kwargs=True))
        if layer == 0:
            stack.enter_context(block.register_forward_pre_hook(before, with_kwargs=True))
        elif norm is not None:
            pass_number = 0
            stack.enter_context(encoder.stack.get_submodule(norm).register_forward_hook(after, prepend=True))
        else:
            stack.enter_context(block.register_forward_hook(after, prepend=True))
        yield


def check_erasing(encoder: HuggingFaceEncoder, layer: int, encoded: Encoded) -> None:
    """An error unless what would be erased is, once a pass, what the model shows as this layer.

    The layer itself may still be shown as it was: some families note their states before they pass them on.
    """
    shown = encoder.hidden_states([encoded])[layer]
    seen: list[Tensor] = []

    def watch(states: Tensor) -> Tensor:
        seen.append(states)
        return states

    with erasing(encoder, layer, watch):
        encoder.hidden_states([encoded])
    rows = [states.reshape(-1, shown.shape[-1]) for states in seen]
    if len(rows) != 1 or not torch.equal(rows[0], shown.reshape(rows[0].shape)):
        raise AnalysisError(
            f"{encoder.name}: what would be erased is not what the model shows as layer {layer}",
            fix="leave this layer out, or choose another model",
        )


def _first(values: tuple, eraser: Erase, count: int) -> tuple:
    """The first values erased, where they are tensors: a model of two streams (XLNet) has two."""
    changed = (eraser(value) if isinstance(value, Tensor) else value for value in values[:count])
    return (*changed, *values[count:])
