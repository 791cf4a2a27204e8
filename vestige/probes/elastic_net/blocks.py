"""The last stretch to the optimum of an elastic-net probe: one class after the other, by Newton steps on few weights.

Mini-batches with a falling rate come near the optimum and stay there. What is left is done by block coordinate descent
(as in Friedman, Hastie & Tibshirani 2010, section 4): with the logits of all other classes fixed, a class' weights are
a binary logistic regression. Only weights that are not zero, or whose slope exceeds l1, can move. For these a
quadratic model is minimised by coordinate descent on its Gram matrix, where only rows that are not yet certain count,
and a line search on the loss of all rows decides how far to go. Every cycle over the classes begins with a
pass over all rows, which gives the slopes and the certificate (`vestige.probes.linear.softmax`).

It holds all rows in memory, a column after the other, and it needs the compiled loops of numba.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from vestige.probes import visit
from vestige.probes.linear.softmax import Evaluation, Penalty, Truth, duality_gap
from vestige.probes.steps import compiled
from vestige.probes.visit import BLOCK_BYTES, Frame, Rows
from vestige.products import times_transposed

TOGETHER = 1024
"""Weights of one quadratic model."""
CERTAIN = 1e-5
"""Rows whose prediction is as near as this to 0 or 1, and right, are left out of a quadratic model."""
SWEEPS = 20
STILL = 1e-8
"""Sweeps over a quadratic model end when no weight gains more than this, in nats a row."""
ARMIJO = 1e-2
HALVINGS = 10


def can_finish(source: Rows) -> bool:
    """Whether the rows fit into memory and the loops are compiled."""
    return 4 * len(source) * (source.width + 1) <= visit.RESIDENT_BYTES and compiled() is not None


@dataclass
class Blocks:
    """One probe on its way, in the form "squared"."""

    columns: np.ndarray
    """(width + 1, rows): the rows around their centre, a neuron after the other, and a row of ones."""
    labels: Tensor
    """(rows,)."""
    weights: np.ndarray
    """(classes, width + 1), the last being the biases."""
    l1: float
    l2: float
    logits: Tensor = field(init=False, repr=False)
    """(classes, rows)."""

    def __post_init__(self) -> None:
        self.logits = torch.empty(len(self.weights), len(self.labels))
        gold = torch.zeros_like(self.logits).scatter_(0, self.labels.unsqueeze(0), 1.0)
        means = times_transposed(gold, torch.from_numpy(self.columns[:-1])).T.double() / len(self.labels)
        self.truth = Truth(gold.double().mean(1).unsqueeze(0), means.unsqueeze(0))

    @classmethod
    def of(cls, source: Rows, labels: Tensor, frame: Frame, weights: Tensor, l1: float, l2: float) -> "Blocks":
        """Read the rows; weights (classes, width + 1) belong to rows around the centre of the frame."""
        columns = np.ones((source.width + 1, len(source)), dtype=np.float32)
        for span, rows in source.blocks(max(1, BLOCK_BYTES // (4 * source.width))):
            columns[:-1, span] = (rows - frame.centre).T.numpy()
        return cls(columns, labels, weights.contiguous().numpy(), l1, l2)

    def run(self, tolerance: float, cycles: int) -> int:
        """So many cycles, or until the gap is within `tolerance`; how many it took."""
        for cycle in range(cycles):
            gradient, gap = self.measure()
            if gap <= tolerance:
                return cycle
            for which in range(len(self.weights)):
                self._improve(which, gradient[which])
        return cycles

    def measure(self) -> tuple[np.ndarray, float]:
        """The gradient of the loss (classes, width + 1), and the certified gap."""
        columns, count = torch.from_numpy(self.columns), len(self.labels)
        self.logits = times_transposed(torch.from_numpy(self.weights), columns.T)
        normaliser = self.logits.logsumexp(0)
        p = (self.logits - normaliser).exp_()
        gold = self.labels.unsqueeze(0)
        loss = (normaliser - self.logits.gather(0, gold)[0]).double().mean()
        entropy = (normaliser - (p * self.logits).sum(0)).double().mean()
        p.scatter_add_(0, gold, p.new_full((1, 1), -1.0).expand(gold.shape))
        gradient = times_transposed(p, columns).div_(count)
        at = Evaluation(loss.view(1), gradient.T.unsqueeze(0), entropy.view(1), torch.empty(0))
        penalty = Penalty(torch.tensor(self.l1).view(1, 1, 1), torch.tensor(self.l2).view(1, 1, 1))
        gap = duality_gap(at, torch.from_numpy(self.weights).T.unsqueeze(0), penalty, self.truth)
        return gradient.numpy(), float(gap)

    def _improve(self, which: int, slope: np.ndarray) -> None:
        """One class: all weights that can move, some at a time, and the bias with each of them."""
        loops = compiled()
        assert loops is not None
        inner = self.weights[which, :-1]
        moving = np.flatnonzero((inner != 0) | (np.abs(slope[:-1]) > self.l1))
        np.random.default_rng(which).shuffle(moving)
        margins = np.empty(len(self.labels), dtype=np.float32)
        loops.against_others(self.logits.numpy(), which, margins)
        gold = self.labels == which
        for start in range(0, max(1, len(moving)), TOGETHER):
            ids = np.append(np.sort(moving[start : start + TOGETHER]), len(inner))
            self._newton(which, ids, torch.from_numpy(margins), gold)

    def _newton(self, which: int, ids: np.ndarray, margins: Tensor, gold: Tensor) -> None:
        """Move the weights `ids` of a class, and its logits and margins (rows,) with them."""
        loops, count = compiled(), len(margins)
        assert loops is not None
        penalised = ids < len(self.columns) - 1
        lasso, ridge = self.l1 * penalised, self.l2 * penalised
        slope, gram = self._model(ids, margins, gold)
        before = self.weights[which, ids].astype(np.float64)
        after = before.copy()
        loops.descend(gram, slope.copy(), after, lasso, ridge, SWEEPS, STILL)
        step = after - before
        changed = np.flatnonzero(step)
        if not len(changed):
            return
        towards = np.empty(count, dtype=np.float32)
        loops.combine(self.columns, ids[changed], step[changed].astype(np.float32), towards)
        move = torch.from_numpy(towards)

        def penalty(weights: np.ndarray) -> float:
            return float((lasso * np.abs(weights) + ridge * weights**2).sum())

        loss, linear = softplus(margins.double()).sum(), move[gold].double().sum()
        promised = float(slope @ step) + penalty(after) - penalty(before)
        for size in 0.5 ** np.arange(HALVINGS):
            trial = margins + size * move
            gained = float(softplus(trial.double()).sum() - loss - size * linear) / count
            if gained + penalty(before + size * step) - penalty(before) <= ARMIJO * size * promised:
                self.weights[which, ids] = before + size * step
                self.logits[which].add_(move, alpha=float(size))
                margins.copy_(trial)
                return

    def _model(self, ids: np.ndarray, margins: Tensor, gold: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Slope and Gram matrix of the loss in the weights `ids` of one class."""
        loops, count = compiled(), len(margins)
        assert loops is not None
        p = margins.sigmoid()
        residual, curvature = p - gold.float(), p * (1 - p)
        rows = ((curvature > CERTAIN) | (residual.abs() > CERTAIN)).nonzero()[:, 0]
        picked = np.empty((len(ids), len(rows)), dtype=np.float32)
        loops.pick(self.columns, ids, rows.numpy().astype(np.uint32), picked)
        part = torch.from_numpy(picked)
        slope = (part @ residual[rows]).double().numpy() / count
        return slope, times_transposed(part * (curvature[rows] / count), part).numpy()
