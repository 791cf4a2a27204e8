"""Many elastic-net softmax probes in one pass over the rows, with true zeros.

    F(W, b) = mean_i -log softmax(W'x_i + b)[y_i] + l1 * |W|_1 + l2 * |W|^2        (form "squared")
                                                  + l1 * |W|_1 + l2 * |W|          (form "norm", NeuroX's)

P probes (other penalties, other labels, other sets of columns) are the rows of one weight matrix
(P * classes, width): a step is two products and one update. The update is Adam's for the smooth
part; the penalties follow as a proximal step in Adam's metric, so that weights that the data does
not hold up become exactly zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vestige.errors import AnalysisError
from vestige.probes.problem import log_shares
from vestige.probes.steps import Moments, Penalties, adam, softmax_residual
from vestige.probes.visit import Frame, refuse_diverged
from vestige.products import times_transposed

Form = Literal["squared", "norm"]

BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8


@dataclass
class Probes:
    """P probes in training: weights, biases and what Adam remembers of their gradients."""

    weights: Tensor
    """(P * classes, width)."""
    biases: Tensor
    """(P * classes,)."""
    classes: int
    l1: Tensor
    """(P,)."""
    l2: Tensor
    form: Form = "squared"
    frame: Frame | None = None
    """What the rows were freed of; its size divides the rate at which weights move. None: neither."""
    widths: Tensor | None = None
    """(P,): how many of the first columns a probe may use; None: all of them."""

    def __post_init__(self) -> None:
        for name, strengths in (("l1", self.l1), ("l2", self.l2)):
            if not bool((strengths >= 0).all() & strengths.isfinite().all()):
                raise AnalysisError(
                    f"{name} is a number from 0 on, not {strengths.tolist()}", fix="0 is no penalty at all"
                )
        self.moments, self.bias_moments = (
            Moments.of(part, BETA1, BETA2, EPSILON) for part in (self.weights, self.biases.unsqueeze(1))
        )
        self.penalties, self.free = (Penalties.none(self.count, self.weights.device) for _ in range(2))

    @property
    def count(self) -> int:
        return len(self.l1)

    @classmethod
    def at_zero(
        cls,
        labels: Tensor,
        width: int,
        classes: int,
        l1: list[float],
        l2: list[float],
        form: Form = "squared",
        frame: Frame | None = None,
    ) -> "Probes":
        """No weights, and biases that predict every label's share; labels (P or 1, rows)."""
        biases = log_shares(labels, classes).expand(len(l1), -1).reshape(-1).clone()
        weights = biases.new_zeros(len(l1) * classes, width)
        return cls(weights, biases, classes, biases.new_tensor(l1), biases.new_tensor(l2), form, frame)

    def residual(self, rows: Tensor, labels: Tensor) -> Tensor:
        """(P * classes, rows): predictions minus labels (P or 1, rows), divided by the number of rows."""
        return softmax_residual(times_transposed(self.weights, rows), self.biases, labels, self.classes)

    def step(self, rows: Tensor, labels: Tensor, rate: float) -> None:
        """One mini-batch."""
        residual = self.residual(rows, labels)
        gradient = times_transposed(residual, rows.T)
        drift = residual.sum(1, keepdim=True)
        adam(self.biases.unsqueeze(1), drift, self.bias_moments, rate, self.classes, self.free)
        rate /= 1.0 if self.frame is None else self.frame.size
        self._weigh_penalties()
        adam(self.weights, gradient, self.moments, rate, self.classes, self.penalties, self.widths)

    def _weigh_penalties(self) -> None:
        """The L2 term is a gradient (form "norm") or part of the proximal step (form "squared")."""
        self.penalties.lasso.copy_(self.l1)
        if self.form == "squared":
            torch.mul(self.l2, 2, out=self.penalties.ridge)
        else:
            size = torch.linalg.vector_norm(self.weights.view(self.count, -1), dim=1)
            torch.div(self.l2, size.clamp_(min=1e-6), out=self.penalties.pull)

    def state(self) -> dict[str, Tensor | int]:
        """Where training stands, to be taken up by `restore`."""
        parts = {name: getattr(self, name) for name in ("weights", "biases", "l1")}
        for name, moments in (("", self.moments), ("_bias", self.bias_moments)):
            parts |= {f"first{name}": moments.first, f"second{name}": moments.second}
        return {**parts, "steps": self.moments.steps}

    def restore(self, state: Mapping[str, Tensor | int]) -> None:
        """Go on from where `state` was taken."""
        for name in ("weights", "biases", "l1"):
            setattr(self, name, state[name])
        for name, moments in (("", self.moments), ("_bias", self.bias_moments)):
            moments.first, moments.second = state[f"first{name}"], state[f"second{name}"]
            moments.steps = state["steps"]

    def solution(self, probe: int) -> tuple[Tensor, Tensor]:
        """Copies of a probe's weights (width, classes) and biases (classes,), for rows as they are."""
        part = slice(probe * self.classes, (probe + 1) * self.classes)
        weights, biases = self.weights[part].T.contiguous(), self.biases[part].clone()
        return weights, biases - self._at_centre(weights)

    def start_from(self, probe: int, weights: Tensor, biases: Tensor) -> None:
        """Go on from a solution."""
        part = slice(probe * self.classes, (probe + 1) * self.classes)
        self.weights[part] = weights.T
        if self.widths is not None:
            self.weights[part, self.widths[probe] :] = 0.0
        self.biases[part] = biases + self._at_centre(weights)

    def _at_centre(self, weights: Tensor) -> Tensor:
        """(classes,): what the weights make of the centre."""
        if self.frame is None:
            return weights.new_zeros(self.classes)
        return (self.frame.centre.double() @ weights.double()).float()


def train(
    probes: Probes,
    batches: Iterator[tuple[Tensor, np.ndarray]],
    labels: Tensor,
    steps: int,
    rate: float,
    last: float = 0.05,
) -> None:
    """So many steps, the rate falling in a line to `last` of its beginning; labels (P or 1, rows)."""
    for step in range(steps):
        rows, which = next(batches)
        mine = labels.index_select(1, torch.from_numpy(which).to(labels.device))
        probes.step(rows, mine, rate * (1 - (1 - last) * step / steps))
        refuse_diverged(probes.biases, rows, which)
