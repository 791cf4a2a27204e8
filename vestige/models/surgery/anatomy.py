"""Where the parts of a backbone are, found by what they do and not by the names of families."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, ModuleList


class Seen(NamedTuple):
    """What went through a module during a forward pass."""

    input: Tensor
    output: Tensor


@contextmanager
def watching(modules: Mapping[str, Module]) -> Iterator[dict[str, Seen]]:
    """First input and first output of each module, filled in as they run, in that order."""
    seen: dict[str, Seen] = {}

    def hook(name: str) -> Callable[[Module, tuple, dict, Tensor | tuple], None]:
        def keep(module: Module, given: tuple, named: dict, output: Tensor | tuple) -> None:
            first = given[0] if given else next((v for v in named.values() if isinstance(v, Tensor)), None)
            if isinstance(first, Tensor):
                seen[name] = Seen(first, output if isinstance(output, Tensor) else output[0])

        return keep

    hooks = [module.register_forward_hook(hook(name), with_kwargs=True) for name, module in modules.items()]
    try:
        yield seen
    finally:
        for handle in hooks:
            handle.remove()


def block_list(model: Module, depth: int) -> str | None:
    """Path of the list of blocks, one per layer; None where layers share a block (ALBERT) or have none (XLM).

    It is the one outermost list that has as many modules as the model has layers above its embeddings.
    """
    found = {path: module for path, module in model.named_modules() if isinstance(module, ModuleList)}
    outermost = [path for path in found if not any(path.startswith(f"{other}.") for other in found)]
    fitting = [path for path in outermost if len(found[path]) == depth]
    return fitting[0] if len(fitting) == 1 else None


def final_norm(model: Module, depth: int, run: Callable[[], object]) -> str | None:
    """Path of the norm that is applied to what the last block puts out, if there is one.

    `run` makes one forward pass; every norm outside the blocks that runs after them is looked at.
    """
    path = block_list(model, depth)
    if path is None:
        return None
    last = f"{path}.{depth - 1}"
    norms = {
        name: module
        for name, module in model.named_modules()
        if "Norm" in type(module).__name__ and not name.startswith(f"{path}.")
    }
    with watching({**norms, last: model.get_submodule(last)}) as seen:
        run()
    after = list(seen)[list(seen).index(last) + 1 :]
    return next((name for name in after if torch.equal(seen[name].input, seen[last].output)), None)
