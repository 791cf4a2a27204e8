"""A whole grid of elastic-net penalties for little more than the cost of one probe.

Strong penalties first: every probe starts from the solution of the next stronger l1, so that
weights only grow and no pass is spent on shrinking what a cold start blew up. All values of l2
are columns of one matrix and share every pass.

Not every pair is trained. If W is optimal for l1, a weaker l1' can lower the objective by at most
(l1 - l1')(|W'| - |W|): where that is below `SLACK`, with |W'| - |W| taken to be at most `REACH`, the
solution is used again. Every pair then takes, of all solutions found, the one that is best under
its own penalties.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vestige.cache import read_checked, write_checked
from vestige.errors import AnalysisError
from vestige.probes.elastic_net.proximal import Form, Probes, train
from vestige.probes.problem import BLOCK, check_labels
from vestige.probes.visit import Frame, Rows, Visit, sample_rows
from vestige.products import times_transposed

SLACK = 5e-3
"""Nats per word that a pair may lose by taking its neighbour's solution."""

BATCH = 256
SIZE = 10.0
"""How large the Frobenius norm of a probe is taken to get, on rows of unit size."""
REACH = 2500.0
"""By how much its L1 norm is taken to grow from one l1 to the next, on rows of unit size."""

STAGES = (
    (5e-2, 0.1, 5.6e-3),
    (5e-3, 0.6, 5.6e-3),
    (5e-4, 1.2, 5.6e-3),
    (5e-5, 1.6, 3.4e-3),
    (5e-6, 1.6, 2.2e-3),
    (0.0, 0.6, 1.7e-3),
)
"""(from this l1 on, passes over 20,000 rows, rate on rows of unit size)."""


def steps_for(passes: float, rows: int) -> int:
    """Mini-batches worth so many passes over 20,000 rows: as many for fewer rows, more for more,
    but not in proportion."""
    return max(1, round(passes * 20_000 / BATCH * max(1.0, (rows / 20_000) ** 0.5)))


@dataclass(frozen=True)
class Solution:
    """One trained probe and what its objective is made of."""

    weights: Tensor
    """(width, classes)."""
    biases: Tensor
    trained_for: tuple[float, float]
    loss: float
    """Mean cross-entropy on the sample."""
    l1_norm: float
    l2_norm: float

    def objective(self, l1: float, l2: float, form: Form) -> float:
        """The objective on the sample under any penalties."""
        return self.loss + l1 * self.l1_norm + l2 * self.l2_norm ** (2 if form == "squared" else 1)


def _keep_stage(folder: Path | None, stage: int, probes: Probes, solutions: list[Solution]) -> None:
    """Keep what a stage found, and where the next one starts."""
    if folder is not None:
        buffer = io.BytesIO()
        torch.save({"probes": probes.state(), "solutions": [vars(solution) for solution in solutions]}, buffer)
        write_checked(folder / f"stage-{stage}.pt", buffer.getvalue())


def _kept_stage(folder: Path | None, stage: int, probes: Probes) -> list[Solution] | None:
    """What an interrupted call kept of a stage, with `probes` as that call left them."""
    content = None if folder is None else read_checked(folder / f"stage-{stage}.pt")
    if content is None:
        return None
    kept = torch.load(io.BytesIO(content), weights_only=True)
    probes.restore(kept["probes"])
    return [Solution(**solution) for solution in kept["solutions"]]


@dataclass(frozen=True)
class PenaltyPath:
    """Solutions from strong to weak penalties."""

    solutions: tuple[Solution, ...]
    form: Form

    def at(self, l1: float, l2: float) -> Solution:
        """The best solution for a pair."""
        return min(self.solutions, key=lambda solution: solution.objective(l1, l2, self.form))


def solve_path(
    source: Rows,
    labels: Tensor,
    classes: int,
    l1: Sequence[float],
    l2: Sequence[float],
    *,
    form: Form = "squared",
    seed: int = 0,
    tick: Callable[[float], None] = lambda l1: None,
    unfinished: Path | None = None,
) -> PenaltyPath:
    """Solutions for every pair of l1 x l2; labels (rows,). `tick` is called with each l1 that is done.

    `unfinished` is a folder for this path alone: what it holds of an interrupted call is not
    computed again, and the result is the same to the bit.
    """
    check_labels(labels, classes, len(source))
    if not l1 or not l2 or min(*l1, *l2, 0.0) < 0:
        raise AnalysisError(f"penalties l1 {list(l1)} and l2 {list(l2)}", fix="give at least one of each, from 0 on")
    gold = labels.unsqueeze(0)
    sample = sample_rows(len(source), seed=seed)
    frame = Frame.of(source, sample)
    rows, sampled = source.rows(sample) - frame.centre, labels[sample]
    ridges = _distinct_ridges(l2, form, frame.size)
    probes = Probes.at_zero(gold, source.width, classes, [max(l1)] * len(ridges), ridges, form, frame)
    visit: Visit | None = None
    found: list[Solution] = []
    last: float | None = None
    for stage, strength in enumerate(sorted(set(l1), reverse=True)):
        if last is None or (last - strength) * REACH / frame.size > SLACK:
            kept = _kept_stage(unfinished, stage, probes)
            if kept is None:
                visit = visit or Visit(source, BATCH, seed, centre=frame.centre)
                probes.l1.fill_(strength)
                passes, rate = _effort(strength, cold=last is None)
                train(probes, visit.batches(stage), gold, steps_for(passes, len(source)), rate)
                kept = [_weigh(probes, index, (strength, ridge), rows, sampled) for index, ridge in enumerate(ridges)]
                _keep_stage(unfinished, stage, probes, kept)
            found += kept
            last = strength
        tick(strength)
    return PenaltyPath(tuple(found), form)


def _effort(l1: float, cold: bool) -> tuple[float, float]:
    """Passes and rate; a cold start makes up for the stages it has not been through."""
    passes, rate = next((passes, rate) for least, passes, rate in STAGES if l1 >= least)
    if cold:
        passes = sum(more for least, more, _ in STAGES if least >= min(l1, STAGES[-2][0]))
    return passes, rate


def _distinct_ridges(l2: Sequence[float], form: Form, size: float) -> list[float]:
    """The values of l2 to train: all that can matter, and the weakest for those that cannot."""
    reach = (SIZE / size) ** (2 if form == "squared" else 1)
    strong = sorted((value for value in set(l2) if value * reach > SLACK), reverse=True)
    weak = [value for value in set(l2) if value not in strong]
    return strong + ([min(weak)] if weak else [])


def _weigh(probes: Probes, index: int, pair: tuple[float, float], rows: Tensor, labels: Tensor) -> Solution:
    """The solution with its best scale: one number per probe, found on the sample (`rows` around their centre).

    Under weak penalties and a few passes weights are too small rather than wrong.
    """
    weights, biases = probes.solution(index)
    centred = probes.biases[index * probes.classes : (index + 1) * probes.classes].clone()
    logits = torch.cat([times_transposed(part, weights.T) for part in rows.split(BLOCK)])
    l1_norm, l2_norm = float(weights.abs().sum()), float(weights.norm())

    def at(scale: float) -> Solution:
        loss = float(torch.nn.functional.cross_entropy(scale * logits + centred, labels))
        return Solution(weights, biases, pair, loss, scale * l1_norm, scale * l2_norm)

    scales = [2.0 ** (power / 4) for power in range(-4, 9)]
    best = min(scales, key=lambda scale: at(scale).objective(*pair, probes.form))
    chosen = at(best)
    moved = centred + best * (biases - centred)
    return Solution(weights * best, moved, pair, chosen.loss, chosen.l1_norm, chosen.l2_norm)
