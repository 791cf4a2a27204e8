"""Zero-out: what a trained probe still gets right when all but some neurons are ablated (durrani2020).

The probe is not trained again. Its logits are a sum over neurons, so nothing is copied and no
matrix is masked: the columns that are kept are multiplied with their own weights. Columns are cut
into parts that every keep set has or has not, and each part is multiplied once, however many sets
have it: a curve over growing sets costs as much as its largest set. Weights of zero cost nothing.
"""

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
from vestige.representations.store import row_blocks

_ROWS = 1024


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
class _Plan:
    """Which columns are read, and which keep sets they count for."""

    members: Tensor
    """(keep sets, parts): 1 where the set has the part's neurons, else 0."""
    layers: list[tuple[int, np.ndarray, list[tuple[int, slice, Tensor]]]]
    """(layer, units, pieces), a piece being a part's number, its place among the units, and its weights."""


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
        if not torch.isfinite(values).all():
            raise AnalysisError(f"{name}: some values are not finite", fix="take a probe whose training went well")
    if not keeps:
        return Ablation({})
    known = {name: checked_ids(ids, neurons.width, f"keep set {name!r}") for name, ids in keeps.items()}
    sets = [np.isin(np.arange(neurons.width), ids) for ids in known.values()]
    plan = _plan(neurons, sets, weights)
    correct = {name: np.empty(len(neurons), dtype=bool) for name in keeps}
    for span in row_blocks(len(neurons), _ROWS):
        predicted = _predict(neurons, span, bias, plan)
        for name, row in zip(keeps, predicted, strict=True):
            correct[name][span] = row == labels[span]
    return Ablation(correct)


def _plan(neurons: Neurons, sets: Sequence[np.ndarray], weights: Tensor) -> _Plan:
    """Neurons with weight by the sets that keep them, or set by set where that would be too many parts."""
    kept = np.stack(sets) & (weights != 0).any(1).numpy()
    patterns, of_neuron = np.unique(np.packbits(kept, axis=0), axis=1, return_inverse=True)
    if patterns.shape[1] > 2 * len(sets) + 2:
        members = [([index], np.flatnonzero(row)) for index, row in enumerate(kept)]
    else:
        groups = (np.flatnonzero(of_neuron == number) for number in range(patterns.shape[1]))
        members = [(np.flatnonzero(kept[:, ids[0]]).tolist(), ids) for ids in groups]
    members = [(which, ids) for which, ids in members if which]
    layers = []
    for layer, (low, high) in enumerate(pairwise(neurons.offsets)):
        pieces, units, start = [], [], 0
        for part, (_, ids) in enumerate(members):
            here = ids[np.searchsorted(ids, low) : np.searchsorted(ids, high)]
            if len(here):
                pieces.append((part, slice(start, start + len(here)), weights[here]))
                units.append(here - low)
                start += len(here)
        if pieces:
            layers.append((layer, np.concatenate(units), pieces))
    table = torch.zeros(len(sets), len(members))
    for part, (which, _) in enumerate(members):
        table[which, part] = 1.0
    return _Plan(table, layers)


def _predict(neurons: Neurons, span: slice, bias: Tensor, plan: _Plan) -> np.ndarray:
    """(sets, rows): the class of the largest logit."""
    rows = span.stop - span.start
    sums = torch.zeros(plan.members.shape[1], rows, len(bias))
    for layer, units, pieces in plan.layers:
        block = torch.from_numpy(np.take(neurons.layers[layer][span], units, axis=1)).float()
        for part, place, weights in pieces:
            sums[part].addmm_(block[:, place], weights)
    logits = (plan.members @ sums.flatten(1)).view(len(plan.members), rows, -1) + bias
    if not torch.isfinite(logits).all():
        refuse_not_finite(neurons, span)
    return logits.argmax(-1).numpy()
