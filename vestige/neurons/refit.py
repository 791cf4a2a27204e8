"""How much of a ranking is the solver's doing: the same probe is fitted once more, and the two rankings compared.

The objective of an elastic-net probe is convex: at its optimum no seed would matter. The solver stops before that,
at the gap that is reported beside the ranking, and where it stopped depends on its way: on the order of mini-batches
and on where it began. A re-fit has the same rows, labels and penalties, another order (the next seed), and the other
beginning: from zero where the probe came down a path of penalties, down such a path where it came from zero. Another
order alone would not do: two probes that both begin at zero are unfinished in the same way, and agree with each other
more than either does with the optimum.

A re-fit says nothing of other training sentences, with which other neurons may be chosen.
"""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from vestige.neurons.matrix import Neurons
from vestige.neurons.ranking import Ranking, rank
from vestige.probes.elastic_net.path import solve_path
from vestige.probes.elastic_net.polish import Polished, polish
from vestige.probes.elastic_net.proximal import Form

TOPS = (0.05, 0.1)
"""Shares of all neurons, from the top of a ranking, of which the overlap is reported."""
STRONGER = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""Values of l1 that a path begins with, as far as they are above the one that is wanted."""


@dataclass(frozen=True)
class Refit:
    """A second fit of a probe."""

    probe: Polished
    order: np.ndarray
    """Ids of all neurons, best first."""
    ranking: Ranking | None
    """None where no neuron has any weight; their order is then drawn."""

    def overlap(self, order: np.ndarray, count: int) -> float:
        """The share of the first `count` neurons of another ranking that are among the first of this one."""
        return len(np.intersect1d(order[:count], self.order[:count])) / count

    def places(self, order: np.ndarray) -> np.ndarray:
        """The place that every neuron of another ranking has in this one, from 0."""
        place = np.empty(len(self.order), dtype=np.int32)
        place[self.order] = np.arange(len(self.order))
        return place[order]


def refit(
    source: Neurons,
    labels: Tensor,
    classes: int,
    l1: float,
    l2: float,
    *,
    from_zero: bool,
    form: Form = "squared",
    seed: int = 0,
) -> Refit:
    """Fit the probe of `seed` again; `from_zero` says where this fit begins, unlike the first."""
    start = None
    if not from_zero:
        strengths = [*(value for value in STRONGER if value > l1), l1]
        found = solve_path(source, labels, classes, strengths, [l2], form=form, seed=seed + 1).at(l1, l2)
        start = found.weights, found.biases
    probe = polish(source, labels, classes, l1, l2, start=start, form=form, seed=seed + 1)
    if not bool(probe.weights.any()):
        return Refit(probe, np.random.default_rng(seed + 1).permutation(source.width), None)
    ranking = rank(probe.weights, seed=seed + 1)
    return Refit(probe, ranking.order, ranking)
