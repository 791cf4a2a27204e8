"""Softmax regression on many rows: most of the work is done on a sample of them that is drawn for it.

Most rows are predicted with near certainty; they hardly bend the loss, though they enter its gradient. A step of the
method therefore passes over all rows once, for the gradient g and the certificate, draws a sample in which a row is the
likelier the less certain its prediction is, and minimises

    F_S(W) + <g - g_S, W>,

the objective of the sample (its rows weighted by one over the probability of being drawn), tilted so that its slope at
the present point is that of all rows. That is the surrogate of DANE (Shamir, Srebro & Zhang 2014) with one machine that
holds a drawn sample. Its minimum is the next point; the objective of all rows decides how far to go there. Where a
step does not halve the gap, the next sample has twice as many rows. Under a weak ridge even large samples tell too
little of how all rows bend the loss: what samples of up to a third of the rows leave to do is done by L-BFGS on all of
them (vestige.probes.linear.quasi_newton), which also has the last word on the certificate.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.probes.linear.quasi_newton import Search
from vestige.probes.linear.softmax import Evaluation, Truth, duality_gap, evaluate
from vestige.probes.problem import Features

DRAWN = 24_576
"""Rows of the first sample."""
CERTAIN = 0.2
"""Share of a sample that is drawn whatever the predictions are."""
INNER = 40
"""Passes over a sample before its objective is left."""
DEEP = 1e-2
"""A sample's objective is left when its steepness fell to this share."""
CUT = 0.5
"""What a step must cut the gap to, or the next sample is larger."""
LARGEST = 1 / 3
"""Share of the rows that a sample may hold."""
HALVINGS = 6
"""How often a step that leads up is halved."""


@dataclass(frozen=True)
class Point:
    """Where the P probes are."""

    weights: Tensor
    at: Evaluation
    objective: Tensor
    gap: Tensor


def approach(search: Search, truth: Truth, weights: Tensor, tolerance: float) -> tuple[Tensor, Evaluation]:
    """From these weights towards the optimum, as far as samples help."""
    rng, size = np.random.default_rng([len(search.features), 2]), DRAWN
    now = _measured(search, truth, weights)
    while size <= LARGEST * len(search.features) and bool((now.gap > tolerance).any()):
        before, now = now, _step(search, truth, now, tolerance, size, rng)
        if bool(((now.gap > tolerance) & (now.gap > CUT * before.gap)).any()):
            size *= 2
    return now.weights, now.at


def _measured(search: Search, truth: Truth, weights: Tensor) -> Point:
    at = search.evaluate(weights)
    return Point(weights, at, search.objective(at, weights), duality_gap(at, weights, search.penalty, truth))


def _step(search: Search, truth: Truth, now: Point, tolerance: float, size: int, rng: np.random.Generator) -> Point:
    """To the minimum of a sample's tilted objective, or as far on the way there as the objective of all rows falls."""
    which, shares = draw(now.at.doubt, size, rng)
    rows = Features(search.features.rows(which).numpy())
    labels = search.labels[:, torch.from_numpy(which)].contiguous()
    tilt = now.at.gradient - evaluate(rows, labels, now.weights, shares).gradient
    sample = Search(rows, labels, search.penalty, search.axes, shares, tilt)
    finished, first = now.gap <= tolerance, []

    def done(at: Evaluation, weights: Tensor) -> Tensor:
        first.append(sample.steepness(at, weights))
        return finished | (first[-1] <= DEEP * first[0])

    aim, _ = sample.run(now.weights, done, INNER)
    search.passes += (sample.passes + 1) * len(which) / len(search.features)
    step = torch.ones(len(aim), 1, 1)
    for _ in range(HALVINGS):
        there = _measured(search, truth, now.weights + step * (aim - now.weights))
        worse = there.objective > now.objective + 1e-9 * now.objective.abs()
        if not bool(worse.any()):
            return there
        step[worse] *= 0.5
    return now


def draw(doubt: Tensor, size: int, rng: np.random.Generator) -> tuple[np.ndarray, Tensor]:
    """About `size` rows, in order, the doubtful ones likelier, and their weights in a mean over all rows."""
    count = len(doubt)
    wanted = (CERTAIN + (1 - CERTAIN) * doubt.double() / doubt.double().mean().clamp(min=1e-30)).numpy()
    chance = np.minimum(wanted * (size / wanted.sum()), 1.0)
    for _ in range(4):  # what rows that are sure to be drawn have too much of goes to the others
        rest = chance < 1.0
        left = size - (count - int(rest.sum()))
        if left <= 0 or not rest.any():
            break
        chance[rest] = np.minimum(wanted[rest] * (left / wanted[rest].sum()), 1.0)
    passed = np.floor(np.cumsum(chance) + rng.random())
    which = np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
    return which, torch.from_numpy(1.0 / (count * chance[which])).float()
