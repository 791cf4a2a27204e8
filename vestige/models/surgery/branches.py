"""What attention and MLP of a block put out, found by what becomes of it and not by the names of families.

A block adds the output of its attention, and then that of its MLP, to the states that run through it. So a module
whose output plus a state of the block is the next state is a branch; it is the attention if its output at one
token depends on the states of others, else the MLP. Sums are compared bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn import Module

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Branch = Literal["attention", "mlp"]
TITLES: dict[Branch, str] = {"attention": "attention", "mlp": "MLP"}
TOKENS = 5
"""Tokens of the text that is run; no other dimension has this size."""


@dataclass
class _Passed:
    """What went through the modules of one block, in the order in which they ended."""

    calls: list[tuple[str, Module, Tensor, Tensor]] = field(default_factory=list)
    """Path, module, first input, first output; the block itself is last."""


def find_branches(model: PreTrainedModel, blocks: Sequence[Module]) -> dict[Branch, list[str]]:
    """By branch, the path of its module inside every block; without those that some block does not show.

    Missing is what is no module's output (XLNet's attention), what a module puts out that runs more than once, and
    what is added together with something else (blocks that run attention and MLP side by side).
    """
    with torch.inference_mode(False), torch.enable_grad():
        found = [_branches_of(passed) for passed in _passes(model, blocks)]
    names: tuple[Branch, ...] = ("attention", "mlp")
    return {name: [each[name] for each in found] for name in names if all(name in each for each in found)}


def first_tensor(output: Any) -> Tensor | None:
    """The hidden states among what a module returns."""
    first = output[0] if isinstance(output, tuple | list) and output else output
    return first if isinstance(first, Tensor) else None


@contextmanager
def recording(modules: Sequence[Module]) -> Iterator[list[list[Any]]]:
    """All that each module returns, call by call."""
    calls: list[list[Any]] = [[] for _ in modules]

    def keep(number: int) -> Callable[[Module, tuple, Any], None]:
        return lambda module, given, output: calls[number].append(output)

    with ExitStack() as stack:
        for number, module in enumerate(modules):
            stack.enter_context(module.register_forward_hook(keep(number)))
        yield calls


@contextmanager
def answering(modules: Sequence[Module], calls: Sequence[Sequence[Any]]) -> Iterator[None]:
    """Meanwhile each module returns the hidden states it is given here, call by call, and else what it computes."""

    def put(answers: Sequence[Any]) -> Callable[[Module, tuple, Any], Any]:
        following = iter(answers)

        def replace(module: Module, given: tuple, output: Any) -> Any:
            states = first_tensor(next(following))
            return (states, *output[1:]) if isinstance(output, tuple) else states

        return replace

    with ExitStack() as stack:
        for module, answers in zip(modules, calls, strict=True):
            stack.enter_context(module.register_forward_hook(put(answers)))
        yield


def _passes(model: PreTrainedModel, blocks: Sequence[Module]) -> list[_Passed]:
    """One forward pass of a few tokens, followed by autograd from the first block on."""
    passed = [_Passed() for _ in blocks]

    def keep(into: _Passed, path: str) -> Callable[[Module, tuple, dict, Any], None]:
        def hook(module: Module, given: tuple, named: dict, output: Any) -> None:
            first = next((value for value in (*given, *named.values()) if isinstance(value, Tensor)), None)
            if first is not None and (states := first_tensor(output)) is not None:
                into.calls.append((path, module, first, states))

        return hook

    def traced(module: Module, given: tuple, named: dict) -> tuple[tuple, dict]:
        place = next((number for number, value in enumerate(given) if isinstance(value, Tensor)), None)
        if place is not None:
            return (*given[:place], given[place].detach().requires_grad_(), *given[place + 1 :]), named
        name = next(name for name, value in named.items() if isinstance(value, Tensor))
        return given, {**named, name: named[name].detach().requires_grad_()}

    with ExitStack() as stack:
        ids = torch.arange(1, TOKENS + 1, device=model.get_input_embeddings().weight.device)[None]
        stack.enter_context(blocks[0].register_forward_pre_hook(traced, with_kwargs=True))
        for block, into in zip(blocks, passed, strict=True):
            for path, module in block.named_modules():
                stack.enter_context(module.register_forward_hook(keep(into, path), with_kwargs=True))
        model(input_ids=ids)
    return passed


def _branches_of(passed: _Passed) -> dict[Branch, str]:
    """The one module of each kind, where there is exactly one."""
    if not passed.calls:
        return {}
    *_, start, end = passed.calls[-1]
    often = Counter(path for path, *_ in passed.calls)
    reached = [end, *(given for _, _, given, _ in passed.calls if given.shape == start.shape)]
    states, found = [start], list[tuple[Branch, str]]()
    for path, _, _, output in passed.calls[:-1]:
        if often[path] > 1 or output.shape != start.shape:
            continue
        sums = [(state, total) for state in states if (total := _among(state + output, reached)) is not None]
        if sums and _among(sums[0][1], states) is None:
            state, total = sums[0]
            found.append(("attention" if _mixes(output, state) else "mlp", path))
            normed = (
                out for _, module, given, out in passed.calls if "Norm" in type(module).__name__ and given is total
            )
            states += [total, *normed]
    kinds = Counter(kind for kind, _ in found)
    return {kind: path for kind, path in found if kinds[kind] == 1}


def _among(wanted: Tensor, tensors: Sequence[Tensor]) -> Tensor | None:
    return next((one for one in tensors if one.shape == wanted.shape and torch.equal(one, wanted)), None)


def _mixes(output: Tensor, state: Tensor) -> bool:
    """Does the output at the last token depend on the states of tokens before it?"""
    axis = list(output.shape).index(TOKENS)
    (slope,) = torch.autograd.grad(output.select(axis, -1).sum(), state, retain_graph=True, allow_unused=True)
    return slope is not None and bool(slope.narrow(axis, 0, TOKENS - 1).any())
