"""Zero-out: what a trained probe still gets right when all but some neurons are ablated (durrani2020).

The probe is not trained again. Its logits are a sum over neurons, so nothing is copied and no
matrix is masked: the columns that are kept are multiplied with their own weights. Columns are cut
into parts that every keep set has or has not, and each part is multiplied once, however many sets
have it: a curve over growing sets costs as much as its largest set. Weights of zero cost nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.rankers.checks import refuse_not_finite
from vestige.neurons.spread import checked_ids
from vestige.probes.steps import gather, largest
from vestige.products import times_transposed
from vestige.representations.store import row_blocks

_ROWS = 1024
_VALUES = 1 << 19
"""Rows, and values of all columns, that are gathered at once: they stay in the processor's cache."""


@dataclass(frozen=True)
class Ablation:
    """Which rows a probe gets right with some neurons kept."""

    correct: dict[str, np.ndarray]
    """Per keep set (rows,), true or false."""

    @property
    def accuracy(self) -> dict[str, float]:
        """Per keep set the share of rows the probe gets right."""
        return {name: float(correct.mean()) for name, correct in self.correct.items()}


@dataclass(frozen=True)
class _Part:
    """Columns that the same keep sets have."""

    weights: Tensor
    """(classes, columns)."""
    pieces: list[tuple[int, np.ndarray, int]]
    """(layer, units, first of its columns)."""
    block: np.ndarray
    """(rows at once, columns): where they are gathered, again and again."""


@dataclass(frozen=True)
class _Plan:
    """Which columns are read, and which keep sets they count for."""

    members: Tensor
    """(keep sets, parts): 1 where the set has the part's neurons, else 0."""
    parts: list[_Part]
    rows: int
    """Rows at once."""


def ablate(
    neurons: Neurons,
    labels: np.ndarray,
    weights: Tensor | np.ndarray,
    bias: Tensor | np.ndarray,
    keeps: Mapping[str, np.ndarray],
) -> Ablation:
    """Predict `labels` (rows,) with every set of neuron ids in `keeps` alone.

    `weights` (neurons, classes) and `bias` (classes,) belong to the neurons as read. A neuron that
    is not kept is 0. A label of -1, which the probe does not know, is never right.
    """
    weights, bias = (torch.as_tensor(given, dtype=torch.float32).detach() for given in (weights, bias))
    labels = np.asarray(labels)
    if weights.shape != (neurons.width, len(bias)) or labels.shape != (len(neurons),):
        raise AnalysisError(
            f"{len(neurons)} rows of {neurons.width} neurons do not go with {labels.shape} labels, "
            f"{tuple(weights.shape)} weights and {len(bias)} biases",
            fix="give a label per row, weights (neurons, classes) and a bias per class",
        )
    if not len(neurons):
        raise AnalysisError("accuracy over no rows at all", fix="give at least one row")
    for name, values in (("weights", weights), ("bias", bias)):
        if values.numel() and not torch.isfinite(torch.stack(torch.aminmax(values))).all():
            raise AnalysisError(f"{name}: some values are not finite", fix="take a probe whose training went well")
    if not keeps:
        return Ablation({})
    known = {name: checked_ids(ids, neurons.width, f"keep set {name!r}") for name, ids in keeps.items()}
    sets = [np.isin(np.arange(neurons.width), ids) for ids in known.values()]
    plan = _plan(neurons, sets, weights)
    correct = {name: np.empty(len(neurons), dtype=bool) for name in keeps}
    for span in row_blocks(len(neurons), plan.rows):
        predicted = _predict(neurons, span, bias, plan)
        for name, row in zip(keeps, predicted, strict=True):
            correct[name][span] = row == labels[span]
    return Ablation(correct)


def _plan(neurons: Neurons, sets: Sequence[np.ndarray], weights: Tensor) -> _Plan:
    """Neurons with weight by the sets that keep them, or set by set where that would be too many parts."""
    kept = np.stack(sets) & (weights != 0).any(1).numpy()
    first, of_neuron = _patterns(kept)
    if len(first) > 2 * len(sets) + 2:
        members = [([index], np.flatnonzero(row)) for index, row in enumerate(kept)]
    else:
        groups = (np.flatnonzero(of_neuron == number) for number in range(len(first)))
        members = [(np.flatnonzero(kept[:, ids[0]]).tolist(), ids) for ids in groups]
    members = [(which, ids) for which, ids in members if which and len(ids)]
    table = torch.zeros(len(sets), len(members))
    for part, (which, _) in enumerate(members):
        table[which, part] = 1.0
    rows = int(np.clip(_VALUES // max(1, sum(len(ids) for _, ids in members)), 64, _ROWS))
    rows = min(rows // 64 * 64, len(neurons))
    return _Plan(table, [_part(neurons, ids, weights, rows) for _, ids in members], rows)


def _patterns(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different columns of `kept` (sets, neurons): a neuron of each, and of which kind every neuron is."""
    if len(kept) <= 62:
        codes = (1 << np.arange(len(kept))) @ kept
        _, first, of_neuron = np.unique(codes, return_index=True, return_inverse=True)
    else:
        packed = np.packbits(kept, axis=0)
        _, first, of_neuron = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    return first, of_neuron


def _part(neurons: Neurons, ids: np.ndarray, weights: Tensor, rows: int) -> _Part:
    cuts = np.searchsorted(ids, neurons.offsets)
    pieces = [
        (layer, ids[start:end] - neurons.offsets[layer], int(start))
        for layer, (start, end) in enumerate(pairwise(cuts))
        if start < end
    ]
    return _Part(weights[ids].T.contiguous(), pieces, np.empty((rows, len(ids)), dtype=np.float32))


def _predict(neurons: Neurons, span: slice, bias: Tensor, plan: _Plan) -> np.ndarray:
    """(sets, rows): the class of the largest logit."""
    rows = span.stop - span.start
    sums = torch.zeros(len(plan.parts), len(bias), rows)
    for part, found in zip(plan.parts, sums, strict=True):
        block = part.block[:rows]
        for layer, units, start in part.pieces:
            gather(neurons.layers[layer][span], units, block, start)
        found.copy_(times_transposed(part.weights, torch.from_numpy(block)))
    logits = (plan.members @ sums.flatten(1)).view(len(plan.members), -1, rows)
    if not math.isfinite(float(logits.sum())):
        refuse_not_finite(neurons, span)
    return largest(logits, bias)
