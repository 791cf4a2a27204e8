"""Which penalties make the weights of a probe separate neurons? (durrani2020, section 3)

For every pair of l1 and l2 a probe is trained on all neurons, its neurons are ranked, and all but
the top, then all but the bottom share of them are ablated, without training again. The pair's
score on dev is

    S = 0.5 (A_top - A_bottom) - 0.5 (A_zero - A_all),

where A_all is the probe's accuracy and A_zero that of the probe without penalties: a good ranking
separates top from bottom and costs little.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.neurons.ranking import Ranking, bottom, rank, share_to_count, top
from vestige.probes.elastic_net.path import PenaltyPath, Solution, solve_path
from vestige.probes.elastic_net.proximal import Form

GRID = (0.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""The values of l1 and of l2 that the paper tries."""


@dataclass(frozen=True)
class Scored:
    """One pair of penalties and how its ranking did on dev."""

    l1: float
    l2: float
    solution: Solution
    ranking: Ranking | None
    """None where every weight is zero."""
    accuracy: float
    top: float
    bottom: float
    score: float


@dataclass(frozen=True)
class Search:
    """Every pair of the grid."""

    pairs: tuple[Scored, ...]
    path: PenaltyPath

    @property
    def best(self) -> Scored:
        """The pair with the highest score; among equals the stronger penalties."""
        usable = [pair for pair in self.pairs if pair.ranking is not None]
        if not usable:
            raise AnalysisError(
                "every weight is zero at every pair of penalties",
                fix="try weaker values of l1; the smallest was " + f"{min(pair.l1 for pair in self.pairs):g}",
            )
        return max(usable, key=lambda pair: (pair.score, pair.l1, pair.l2))


def search_penalties(
    train: Neurons,
    train_labels: Tensor,
    dev: Neurons,
    dev_labels: np.ndarray,
    classes: int,
    *,
    l1: Sequence[float] = GRID,
    l2: Sequence[float] = GRID,
    share: float = 0.2,
    form: Form = "squared",
    seed: int = 0,
    tick: Callable[[float], None] = lambda l1: None,
    unfinished: Path | None = None,
) -> Search:
    """Train the grid, rank and ablate at every pair; labels that train lacks are -1 on dev.

    `unfinished` is a folder where an interrupted search left what it had, see `solve_path`.
    """
    path = solve_path(
        train, train_labels, classes, [*l1, 0.0], [*l2, 0.0], form=form, seed=seed, tick=tick, unfinished=unfinished
    )
    judged: dict[int, tuple[Ranking | None, dict[str, float]]] = {}
    free = _judge(path.at(0.0, 0.0), dev, dev_labels, share, seed, judged)[1]["all"]
    pairs = []
    for strength in l1:
        for ridge in l2:
            solution = path.at(strength, ridge)
            ranking, found = _judge(solution, dev, dev_labels, share, seed, judged)
            score = 0.5 * (found["top"] - found["bottom"]) - 0.5 * (free - found["all"])
            pairs.append(Scored(strength, ridge, solution, ranking, found["all"], found["top"], found["bottom"], score))
    return Search(tuple(pairs), path)


def _judge(
    solution: Solution,
    dev: Neurons,
    labels: np.ndarray,
    share: float,
    seed: int,
    judged: dict[int, tuple[Ranking | None, dict[str, float]]],
) -> tuple[Ranking | None, dict[str, float]]:
    """Ranking and accuracies of a solution; pairs that share one are judged once."""
    if id(solution) not in judged:
        everything = np.arange(dev.width)
        if not bool(solution.weights.any()):
            found = ablate(dev, labels, solution.weights, solution.biases, {"all": everything}).accuracy
            judged[id(solution)] = None, {**found, "top": found["all"], "bottom": found["all"]}
        else:
            ranking = rank(solution.weights, seed=seed)
            count = share_to_count(share, dev.width)
            keeps = {"all": everything, "top": top(ranking, count), "bottom": bottom(ranking, count)}
            found = ablate(dev, labels, solution.weights, solution.biases, keeps).accuracy
            judged[id(solution)] = ranking, found
    return judged[id(solution)]
