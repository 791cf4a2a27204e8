"""Activations, or blocks, of one model put into the run of another of the same architecture.

The output of a block holds all that lies below it. So putting the donor's output of block l into a run is to run the
donor's embeddings and blocks up to l, and the host's above: a plan of the `Mixer`. What attention or MLP add to the
states is another matter: the donor's run is recorded, and the host's goes on with what the donor's branch gave.

A patched run is always one of the first model with parts exchanged, its pooler and head included, so that a task's
head is the same whichever model is the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import Module

from vestige.errors import ModelError
from vestige.models.surgery.branches import Branch, answering, find_branches, recording
from vestige.models.surgery.mixing import Mixer, Plan, computing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Site = Literal["block", "block weights", "attention", "mlp"]
"""Whose output is exchanged; `block weights`: the block itself, which computes on the host's states."""


@dataclass(frozen=True)
class Patch:
    """What of the donor is put where; without layers nothing is."""

    host: int = 0
    """Into which model: 0 the first, 1 the other; the donor is the one that is not the host."""
    site: Site = "block weights"
    layers: tuple[int, ...] = ()
    """Blocks counted from 1; 0 are the embeddings, which blocks alone have. Of `block`, the highest one counts."""


@dataclass(frozen=True)
class Interpolation:
    """Weights on the way from the other model to the first: `share` of the first, the rest of the other."""

    share: float


Change = Patch | Interpolation
_Calls = list[list[Any]]


class Patcher:
    """Runs a model with parts of another of the same architecture; layers that share a block are unrolled first."""

    def __init__(self, model: PreTrainedModel, other: PreTrainedModel) -> None:
        self.mixer = Mixer(model, other)
        self.depth = self.mixer.depth
        self.branches = find_branches(self.mixer.models[0], self.mixer.blocks[0])
        """Where attention and MLP outputs are, of those that were found."""
        self._forwards = [each.forward for each in self.mixer.models]

    def check(self, patch: Patch) -> None:
        """An error unless there is such a place."""
        lowest = 1 if patch.site in get_args(Branch) else 0
        wrong = [layer for layer in patch.layers if not lowest <= layer <= self.depth]
        if wrong:
            raise ModelError(
                f"{patch.site} can be patched at layers {lowest} to {self.depth}, asked for {wrong[0]}",
                fix="choose among them",
            )
        if lowest and patch.site not in self.branches:
            raise ModelError(
                f"the {patch.site} output of {type(self.mixer.models[0]).__name__} is not found in its blocks",
                fix="patch blocks",
            )

    def plan(self, patch: Patch) -> Plan:
        """Whose embeddings and blocks compute; of branches, the host's alone."""
        self.check(patch)
        if not patch.layers or patch.site in get_args(Branch):
            donor = [0] * (self.depth + 1)
        elif patch.site == "block":
            donor = list(self.mixer.first(max(patch.layers)))
        else:
            donor = [sum(parts) for parts in zip(*map(self.mixer.only, patch.layers), strict=True)]
        return tuple(part ^ patch.host for part in donor)

    @torch.inference_mode()
    def output(self, change: Change, *given: Any, **named: Any) -> Any:
        """What the first model returns for some inputs, changed."""
        return self._changed(change, lambda run: run(*given, **named), {})

    @torch.inference_mode()
    def states(self, changes: Sequence[Change], inputs: Mapping[str, Any]) -> list[Tensor]:
        """The last hidden state of every change for one batch; what they have in common is computed once."""
        plans = {c: self.plan(c) for c in changes if isinstance(c, Patch) and c.site not in get_args(Branch)}
        found: dict[Change, Tensor] = dict(zip(plans, self.mixer.states([*plans.values()], inputs), strict=True))
        recorded: dict[tuple[int, str], _Calls] = {}
        for change in changes:
            if change not in found:
                found[change] = self._changed(change, lambda run: run(**inputs), recorded).last_hidden_state
        return [found[change] for change in changes]

    def _changed(
        self, change: Change, run: Callable[[Callable[..., Any]], Any], recorded: dict[tuple[int, str], _Calls]
    ) -> Any:
        if isinstance(change, Interpolation):
            with self.mixer.interpolated(change.share):
                return run(self._forwards[0])
        plan, calls = self.plan(change), _Calls()
        branch = change.layers and change.site in get_args(Branch)
        if branch:
            kept = (1 - change.host, change.site)
            if kept not in recorded:
                with recording(self._modules(*kept)) as recorded[kept]:
                    run(self._forwards[kept[0]])
            calls = recorded[kept]
        with ExitStack() as stack:
            stack.enter_context(self.mixer.mixed(plan))
            if branch:
                computes, chosen = self.mixer.simplified(plan), [layer - 1 for layer in change.layers]
                modules = [self._modules(computes[block + 1], change.site)[block] for block in chosen]
                stack.enter_context(answering(modules, [calls[block] for block in chosen]))
            return run(self._forwards[0])

    def _modules(self, side: int, site: str) -> list[Module]:
        paths = self.branches[site]  # type: ignore[index]
        return [block.get_submodule(path) for block, path in zip(self.mixer.blocks[side], paths, strict=True)]


@contextmanager
def patched(patcher: Patcher, backbone: Module, change: Change) -> Iterator[None]:
    """Meanwhile the backbone of a model with a head, the patcher's first, computes what is changed."""
    with computing(backbone, lambda *given, **named: patcher.output(change, *given, **named)):
        yield
