"""Other ways to rank neurons than a probe's weights, by name, and how far two rankings agree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.rankers.columns import average_precision, iou, mutual_information
from vestige.neurons.rankers.greedy import gaussian
from vestige.neurons.rankers.means import probeless

Ranker = Callable[[Neurons, np.ndarray, Sequence[str]], np.ndarray]
"""(neurons, label numbers (rows,), names of the labels) -> ids of all neurons, best first."""


def random(neurons: Neurons, labels: np.ndarray, classes: Sequence[str], *, seed: int = 0) -> np.ndarray:
    """Neurons in an order drawn with `seed`: what any ranking must beat."""
    return np.random.default_rng(seed).permutation(neurons.width)


RANKERS: dict[str, Ranker] = {
    "probeless": probeless,
    "gaussian": gaussian,
    "iou": iou,
    "average_precision": average_precision,
    "mutual_information": mutual_information,
    "random": random,
}


@dataclass(frozen=True)
class Agreement:
    """How far two rankings of the same neurons agree."""

    overlap: dict[int, float]
    """Per count, the share of neurons among the first so many of both."""
    spearman: float


def agreement(first: np.ndarray, second: np.ndarray, tops: Sequence[int] = (10, 100)) -> Agreement:
    """Compare two orders of the same neuron ids: their first so many, and the ranks of all."""
    first, second = np.asarray(first), np.asarray(second)
    ids = np.sort(first)
    if len(ids) < 2 or not np.array_equal(ids, np.sort(second)) or (ids[1:] == ids[:-1]).any():
        raise AnalysisError(
            f"two rankings of {len(first)} and {len(second)} neurons do not order the same neurons",
            fix="compare rankings of all neurons of models of the same shape",
        )
    wrong = [count for count in tops if not 1 <= count <= len(ids)]
    if wrong:
        raise AnalysisError(
            f"the first {wrong[0]} of {len(ids)} neurons cannot be compared", fix=f"ask for 1 to {len(ids)}"
        )
    ranks = np.argsort(first), np.argsort(second)
    return Agreement(
        {count: len(np.intersect1d(first[:count], second[:count])) / count for count in tops},
        float(scipy.stats.spearmanr(*ranks).statistic),
    )
