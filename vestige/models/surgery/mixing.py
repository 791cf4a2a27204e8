"""Models put together from the blocks of two, run without being built.

`surgery.replace_blocks` makes such a model; a sweep over many of them would run the same first
blocks again and again. Here a plan says whose embeddings and blocks compute, and all plans of a
batch are run together: what two plans have in common at their beginning, embeddings included, is
computed once. Forward passes are the families' own; only what a block returns is exchanged, so
results are those of the built models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from vestige.errors import ModelError
from vestige.models.surgery.anatomy import final_norm
from vestige.models.surgery.blocks import check_same_settings
from vestige.models.surgery.unroll import Parts, find_parts, unroll

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Plan = tuple[int, ...]
"""Whose parts compute: first the embeddings', then every block's. 0 is the model, 1 the other."""

_Outside = tuple[dict[str, Parameter], dict[str, Parameter]]


class Mixer:
    """Runs plans over two models of one architecture; layers that share a block are unrolled first."""

    def __init__(self, model: PreTrainedModel, other: PreTrainedModel) -> None:
        both = [model, other]
        if any(find_parts(each).shared for each in both):
            both = [unroll(each) for each in both]
        self.models = both
        parts = [find_parts(each) for each in both]
        self.depth = parts[0].depth
        if parts[1].depth != self.depth:
            raise ModelError(
                f"the models have {self.depth} and {parts[1].depth} blocks", fix="mix models of one architecture"
            )
        check_same_settings(*parts)
        self.blocks = [list(each.blocks) for each in parts]
        self.norms = [self._norm_of(each) for each in both]
        outside = [each.outside() for each in parts]
        self._outside = outside
        self._same = _find_same(parts, outside)
        self._before = [_modules_of(each, embeddings) for each, (embeddings, _) in zip(parts, outside, strict=True)]
        self.evaluations = 0
        """Blocks that were run so far."""
        self.embeddings = 0
        """How often what lies before the blocks was run so far."""

    def last(self, count: int, embeddings: bool = False) -> Plan:
        """The other's last `count` blocks, and on request its embeddings, in the model."""
        if not 0 <= count <= self.depth:
            raise ModelError(f"there are {self.depth} blocks, asked for the last {count}", fix="ask for fewer")
        return (int(embeddings), *(int(block >= self.depth - count) for block in range(self.depth)))

    def first(self, layer: int) -> Plan:
        """The other's embeddings and all its blocks up to a layer in the model; of layer 0, its embeddings alone."""
        self._check_layer(layer)
        return tuple(int(part <= layer) for part in range(self.depth + 1))

    def only(self, layer: int) -> Plan:
        """One layer of the other in the model; 0 are its embeddings."""
        self._check_layer(layer)
        return tuple(int(part == layer) for part in range(self.depth + 1))

    def _check_layer(self, layer: int) -> None:
        if not 0 <= layer <= self.depth:
            raise ModelError(f"there are layers 0 to {self.depth}, asked for {layer}", fix="choose one of them")

    def single(self, layer: int) -> Plan:
        """One layer of the other, counted from 1, in the model."""
        if not 1 <= layer <= self.depth:
            raise ModelError(f"there are layers 1 to {self.depth}, asked for {layer}", fix="choose one of them")
        return self.only(layer)

    @torch.inference_mode()
    def states(self, plans: Sequence[Plan], inputs: Mapping[str, Any]) -> list[Tensor]:
        """The last hidden state of every plan for one batch of inputs."""
        plans = [self.simplified(plan) for plan in plans]
        starts = Counter(plan[:size] for plan in set(plans) for size in range(2, len(plan)))
        known: dict[Plan, Any] = {}
        shared = {start for start, count in starts.items() if count > 1}
        found: dict[Plan, Tensor] = {}
        embedded: dict[int, list[Any]] = {}
        for plan in plans:
            if plan not in found:
                found[plan] = self._run(plan, inputs, known, shared, embedded)
        return [found[plan] for plan in plans]

    @contextmanager
    def mixed(self, plan: Plan) -> Iterator[None]:
        """Meanwhile the model itself computes a plan, so that what lies above its layers (pooler, head) stays its own.

        `states` gives the same last hidden states of many plans at less cost.
        """
        embeddings, *blocks = self.simplified(plan)
        with ExitStack() as stack:
            if embeddings:
                pairs = self._pairs(self._outside[0][0], self._outside[1][0])
                stack.enter_context(_holding({mine: other.data for mine, other in pairs}))
            for number in (number for number, side in enumerate(blocks) if side):
                stack.enter_context(computing(self.blocks[0][number], self.blocks[1][number].forward))
            mine, theirs = self.norms
            if blocks[-1] and mine is not None and theirs is not None:
                stack.enter_context(computing(mine, theirs.forward))
            yield

    @contextmanager
    def interpolated(self, share: float) -> Iterator[None]:
        """Meanwhile embeddings, blocks and final norm of the model have weights of which `share` is its own."""
        inside = [{str(number): p for number, p in enumerate(_parameters(side))} for side in self.blocks]
        pairs = [
            pair for here, there in (inside, *zip(*self._outside, strict=True)) for pair in self._pairs(here, there)
        ]
        with _holding({mine: torch.lerp(other.data, mine.data, share) for mine, other in pairs}):
            yield

    def _pairs(
        self, mine: Mapping[str, Parameter], theirs: Mapping[str, Parameter]
    ) -> list[tuple[Parameter, Parameter]]:
        for name, weight in mine.items():
            if name not in theirs or theirs[name].shape != weight.shape:
                other = tuple(theirs[name].shape) if name in theirs else "missing"
                raise ModelError(
                    f"{name} is {tuple(weight.shape)}, in the other model {other}",
                    fix="mix models of one architecture and one vocabulary",
                )
        return [(weight, theirs[name]) for name, weight in mine.items()]

    def _run(
        self,
        plan: Plan,
        inputs: Mapping[str, Any],
        known: dict[Plan, Any],
        shared: set[Plan],
        embedded: dict[int, list[Any]],
    ) -> Tensor:
        host = self.models[plan[0]]
        ready = next((size for size in range(len(plan), 1, -1) if plan[:size] in known), 1)
        whole = [[block.forward for block in side] for side in self.blocks]
        first = plan[0] not in embedded
        made = embedded.setdefault(plan[0], [])
        reached, again = False, iter(made)
        self.embeddings += first

        def before(compute: Callable[..., Any]) -> Callable[..., Any]:
            def run(*given: Any, **named: Any) -> Any:
                if reached:
                    return compute(*given, **named)
                if not first:
                    return next(again)
                made.append(compute(*given, **named))
                return made[-1]

            return run

        def forward(block: int) -> Callable[..., Any]:
            def run(*given: Any, **named: Any) -> Any:
                nonlocal reached
                reached = True
                if block + 1 < ready:
                    return known[plan[:ready]]
                output = whole[plan[block + 1]][block](*given, **named)
                self.evaluations += 1
                if plan[: block + 2] in shared:
                    known[plan[: block + 2]] = output
                return output

            return run

        with ExitStack() as stack:
            for module in self._before[plan[0]]:
                stack.enter_context(computing(module, before(module.forward)))
            for number, block in enumerate(self.blocks[plan[0]]):
                stack.enter_context(computing(block, forward(number)))
            mine, theirs = self.norms[plan[0]], self.norms[plan[-1]]
            if mine is not None and theirs is not None:
                stack.enter_context(computing(mine, theirs.forward))
            return host(**inputs).last_hidden_state

    def simplified(self, plan: Plan) -> Plan:
        """Parts that both models have alike are the model's own."""
        return tuple(0 if same else side for side, same in zip(plan, self._same, strict=True))

    def _norm_of(self, model: PreTrainedModel) -> Module | None:
        ids = torch.zeros(1, 2, dtype=torch.long, device=model.get_input_embeddings().weight.device)
        with torch.inference_mode():
            path = final_norm(model, self.depth, lambda: model(input_ids=ids))
        return None if path is None else model.get_submodule(path)


def _find_same(parts: Sequence[Parts], outside: Sequence[_Outside]) -> list[bool]:
    """Per part of a plan: have both models the same weights there? A norm after the blocks goes with the last."""
    embeddings, norm = (
        all(torch.equal(weight, other[name]) for name, weight in here.items())
        for here, other in zip(*outside, strict=True)
    )
    blocks = [
        all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))
        for one, other in zip(parts[0].blocks, parts[1].blocks, strict=True)
    ]
    blocks[-1] &= norm
    return [embeddings, *blocks]


def _modules_of(parts: Parts, parameters: Mapping[str, Parameter]) -> list[Module]:
    """The largest modules without blocks that hold these parameters."""
    blocks = set(parts.blocks)
    found: dict[Module, None] = {}
    for name in parameters:
        path = name.split(".")[:-1]
        inside = (parts.stack.get_submodule(".".join(path[:size])) for size in range(1, len(path) + 1))
        largest = next((module for module in inside if blocks.isdisjoint(module.modules())), None)
        found |= {} if largest is None else {largest: None}
    return list(found)


def _parameters(blocks: Sequence[Module]) -> Iterator[Parameter]:
    return (parameter for block in blocks for parameter in block.parameters())


@contextmanager
def _holding(values: Mapping[Parameter, Tensor]) -> Iterator[None]:
    """Meanwhile parameters have other values."""
    before = {parameter: parameter.data for parameter in values}
    try:
        for parameter, value in values.items():
            parameter.data = value
        yield
    finally:
        for parameter, value in before.items():
            parameter.data = value


@contextmanager
def computing(module: Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Meanwhile the module computes something else; its attributes stay."""
    before = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before
