"""Erasing a property from hidden states, and running a model on what is left of them.

LEACE (Belrose et al. 2023, section 4): among all affine maps after which no linear probe
reads the property better than by guessing, the one that changes the states least in the mean square.
With W the inverse square root of the states' covariance and U an orthonormal basis of what W makes of
their covariance with the labels,

    x -> x - W^-1 U U' W (x - mean).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from vestige.corpus.types import Sentence
from vestige.errors import AnalysisError
from vestige.models.encoders.huggingface import HuggingFaceEncoder
from vestige.models.surgery.unroll import find_parts
from vestige.models.tokens.align import Encoded
from vestige.representations.extract import batches_for
from vestige.representations.pool import REDUCE, groups_for

Pooling = Literal["first", "last", "mean"]
"""Of a word's tokens; each gives of erased tokens the erased word."""

BLOCK = 4096
"""Rows read from a (possibly memory-mapped) array at once."""

SMALLEST = 1e-4
"""A correlation of states and labels below this is taken for the rounding of float32 states."""


@dataclass(frozen=True)
class Eraser:
    """x -> x - left right (x - mean), computed in float64."""

    left: Tensor
    """(width, rank)."""
    right: Tensor
    """(rank, width)."""
    mean: Tensor
    """(width,)."""

    @property
    def rank(self) -> int:
        """How many directions are taken away."""
        return self.left.shape[1]

    def __call__(self, states: Tensor) -> Tensor:
        """States (..., width) without what is erased, in their own precision."""
        left, right, mean = (part.to(states.device) for part in (self.left, self.right, self.mean))
        return (states.double() - (states.double() - mean) @ right.T @ left.T).to(states.dtype)

    def rows(self, array: np.ndarray) -> np.ndarray:
        """The same of an array (rows, width), block by block, as float32."""
        made = np.empty(array.shape, dtype=np.float32)
        for span, block in _blocks(array):
            made[span] = self(block).numpy()
        return made

    def change(self, array: np.ndarray) -> float:
        """Mean squared change of the rows, as a share of their mean squared distance from the mean."""
        moved = total = 0.0
        for _, block in _blocks(array):
            moved += float((self(block) - block).square().sum())
            total += float((block - self.mean).square().sum())
        return moved / total if total else 0.0


def leace(array: np.ndarray, labels: np.ndarray, classes: int) -> Eraser:
    """The eraser of class numbers `labels` (rows,) from rows (rows, width)."""
    if len(array) != len(labels) or not len(array):
        raise AnalysisError(f"{len(labels)} labels for {len(array)} rows", fix="give one label per row")
    mean = sum(block.sum(0) for _, block in _blocks(array)) / len(array)
    width = array.shape[1]
    covariance = torch.zeros(width, width, dtype=torch.float64)
    crossed = torch.zeros(width, classes, dtype=torch.float64)
    numbers = torch.from_numpy(np.asarray(labels, dtype=np.int64))
    for span, block in _blocks(array):
        centred = block - mean
        covariance += centred.T @ centred
        crossed.index_add_(1, numbers[span], centred.T)
    values, axes = torch.linalg.eigh(covariance / len(array))
    there = values > values[-1] * width * torch.finfo(torch.float32).eps ** 2
    spread, axes = values[there].sqrt(), axes[:, there]
    shares = torch.bincount(numbers, minlength=classes).double() / len(array)
    crossed /= (shares * (1 - shares)).sqrt().clamp(min=1 / len(array)) * len(array)
    basis, sizes, _ = torch.linalg.svd((axes / spread).T @ crossed, full_matrices=False)
    basis = basis[:, sizes > SMALLEST]
    return Eraser((axes * spread) @ basis, ((axes / spread) @ basis).T, mean)


def random_eraser(like: Eraser, seed: int) -> Eraser:
    """As many directions as `like` takes away, drawn at random and orthogonal; the mean stays as there."""
    drawn = torch.randn(*like.left.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    basis, _ = torch.linalg.qr(drawn)
    return Eraser(basis, basis.T, like.mean)


@dataclass(frozen=True)
class Variant:
    """A model of which something is erased, and what its rows are called; an eraser of None erases nothing."""

    subset: str
    eraser: Eraser | None = None
    draw: int | None = None

    @property
    def where(self) -> dict[str, Any]:
        """What `Outcome.add` is told of it."""
        return {"subset": self.subset, **({} if self.draw is None else {"probe_seed": self.draw})}

    def rows(self, array: np.ndarray) -> np.ndarray:
        """Rows of the layer as this variant has them."""
        return array if self.eraser is None else self.eraser.rows(array)

    def change(self, array: np.ndarray) -> float:
        """How far its rows are from those of the layer."""
        return 0.0 if self.eraser is None else self.eraser.change(array)

    def applied(self, encoder: HuggingFaceEncoder, layer: int) -> AbstractContextManager[None]:
        """Meanwhile the model is this variant."""
        return nullcontext() if self.eraser is None else erasing(encoder, layer, self.eraser)


def variants(found: Eraser, draws: int, seed: int) -> Iterator[Variant]:
    """The model itself, the erased one, and those that lose random directions."""
    yield Variant("none")
    yield Variant("erased", found)
    for draw in range(draws):
        yield Variant("random", random_eraser(found, seed + draw), draw)


@contextmanager
def erasing(encoder: HuggingFaceEncoder, layer: int, eraser: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Meanwhile the model goes on from a layer's erased states, at all positions, special tokens included."""
    if not 0 <= layer <= encoder.depth:
        raise AnalysisError(
            f"{encoder.name} has layers 0 to {encoder.depth}, asked for {layer}", fix="name one of them"
        )
    parts = find_parts(encoder.model, encoder.reading.part, encoder.depth)
    norm = encoder._final_norm if layer == encoder.depth and encoder.reading.final_norm != "pre" else None
    streams = 2 if "perm_mask" in encoder._accepts else 1
    block = parts.own(max(layer - 1, 0))
    turn = sum(parts.own(earlier) is block for earlier in range(layer - 1))
    runs = 0

    def start(module: Module, given: tuple, named: dict) -> None:
        nonlocal runs
        runs = 0

    def is_turn() -> bool:
        """A block that layers share runs several times in a pass."""
        nonlocal runs
        runs += 1
        return runs == turn + 1

    def before(module: Module, given: tuple, named: dict) -> tuple[tuple, dict] | None:
        if not is_turn():
            return None
        if given:
            return _first(given, eraser, streams), named
        name = next(name for name, value in named.items() if isinstance(value, Tensor))
        return given, {**named, name: eraser(named[name])}

    def after(module: Module, given: tuple, output: Any) -> Any:
        if not is_turn():
            return None
        return eraser(output) if isinstance(output, Tensor) else _first(output, eraser, streams)

    with ExitStack() as stack:
        stack.enter_context(parts.stack.register_forward_pre_hook(start, with_kwargs=True))
        if layer == 0:
            stack.enter_context(block.register_forward_pre_hook(before, with_kwargs=True))
        elif norm is not None:
            turn = 0
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


def word_states(
    encoder: HuggingFaceEncoder, sentences: Sequence[Sentence], layers: Sequence[int], pooling: str, index: np.ndarray
) -> dict[int, np.ndarray]:
    """By layer the vectors of the words of `index` (rows, 2: sentence, word), as the model gives them now."""
    encoded = encoder.encode(sentences)
    starts = np.concatenate([[0], np.cumsum([sentence.kept for sentence in encoded], dtype=int)])
    found = {layer: np.zeros((starts[-1], encoder.widths[layer]), dtype=np.float32) for layer in layers}
    for numbers in batches_for(encoder, encoded):
        batch = [encoded[number] for number in numbers]
        states = encoder.hidden_states(batch)
        groups = groups_for(pooling, batch, encoder, states[0].device)
        places = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
        for layer, rows in found.items():
            rows[places] = REDUCE[pooling](states[layer], groups).to("cpu", torch.float32).numpy()
    chosen = starts[index[:, 0]] + index[:, 1]
    return {layer: rows[chosen] for layer, rows in found.items()}


def _first(values: tuple, eraser: Callable[[Tensor], Tensor], count: int) -> tuple:
    """The first values erased, where they are tensors: a model of two streams (XLNet) has two."""
    changed = (eraser(value) if isinstance(value, Tensor) else value for value in values[:count])
    return (*changed, *values[count:])


def _blocks(array: np.ndarray) -> Iterator[tuple[slice, Tensor]]:
    for start in range(0, len(array), BLOCK):
        span = slice(start, min(start + BLOCK, len(array)))
        yield span, torch.from_numpy(np.array(array[span], dtype=np.float64))
