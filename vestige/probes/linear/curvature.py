"""How the loss of a softmax regression bends, class by class: the preconditioner for many rows.

The Hessian's block of class k is the second moment of the rows weighted by p_k (1 - p_k). The rows that are in doubt
about a rare class lie in a corner of the space, so their moments have little to do with those of all rows. Each block
is therefore made of rows that are drawn for it, the doubtful ones likelier; a share of the average is added, as a
sample shows some directions not at all. Classes bend together, too: a row in doubt between two of them holds both back.
The blocks L_k L_k' are joined by one matrix C for all directions, the mean of diag(p) - p p' at unit diagonal, to

    L (C kron I) L',    L the Cholesky factors of all blocks.

It is exact where all classes have the same block. Solving with it costs far less than a pass over the rows; making it
costs `cost` passes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vestige.products import times_transposed

PER_UNIT = 3
"""Rows that a block is made of, for every unit of the rows."""
AVERAGE = 0.2
"""Share of the averaged block that is added to each."""
APART = 0.3
"""Share of C's diagonal that is added to C: how classes bend together differs from direction to direction."""
CERTAIN = 0.2
"""Share of a drawing that ignores the predictions."""
DAMPED = (1e-6, 1e-4, 1e-2)
"""Shares of its mean diagonal that are added to a block until it is positive."""
MOST_BYTES = 1 << 29
"""More classes than fit their blocks here share the averaged one."""


@dataclass(frozen=True)
class Curvature:
    """An approximate Hessian of P probes, factored."""

    factors: Tensor
    """(P, classes, width + 1, width + 1): lower triangles."""
    together: Tensor
    """(P, classes, classes): the inverse of C."""

    def solve(self, slope: Tensor) -> Tensor:
        """The inverse applied to (P, width + 1, classes)."""
        inner = torch.linalg.solve_triangular(self.factors, slope.transpose(1, 2).unsqueeze(-1), upper=False)
        joined = (self.together @ inner.squeeze(-1)).unsqueeze(-1)
        outer = torch.linalg.solve_triangular(self.factors.mT, joined, upper=True)
        return outer.squeeze(-1).transpose(1, 2).contiguous()


def cost(rows: int, width: int) -> float:
    """Passes over the rows that making it is worth in time."""
    return PER_UNIT * width**2 / (2 * rows)


def fits(probes: int, width: int, classes: int) -> bool:
    """Whether the blocks may be held in memory."""
    return 4 * probes * classes * (width + 1) ** 2 <= MOST_BYTES


def curvature(rows: Tensor, weights: Tensor, l2: Tensor, average: Tensor) -> Curvature:
    """At these weights (P, width + 1, classes), seen by these rows; l2 (P,).

    average: the second moments (width + 1, width + 1) of the rows with a 1 appended.
    """
    probes, extended, classes = weights.shape
    factors = torch.empty(probes, classes, extended, extended)
    together, rng = torch.empty(probes, classes, classes), np.random.default_rng([len(rows), 3])
    for probe, mine in enumerate(weights):
        p = torch.cat([(times_transposed(part, mine[:-1].T) + mine[-1]).softmax(1) for part in rows.split(1024)])
        together[probe] = _together(p)
        for label, doubt in enumerate((p - p * p).T.contiguous()):
            which, shares = draw(doubt, PER_UNIT * extended, rng)
            drawn = torch.nn.functional.pad(rows[torch.from_numpy(which)], (0, 1), value=1.0)
            drawn = (drawn * (shares * doubt[torch.from_numpy(which)]).sqrt_().unsqueeze(1)).T.contiguous()
            block = times_transposed(drawn, drawn).add_(average, alpha=AVERAGE * float(doubt.mean()))
            factors[probe, label] = _factor(block, 2 * float(l2[probe]))
    return Curvature(factors, together)


def _factor(block: Tensor, ridge: float) -> Tensor:
    """The Cholesky factor, with as much on the diagonal as float32 needs."""
    size = float(block.diagonal().mean())
    for share in DAMPED:
        found, failed = torch.linalg.cholesky_ex(block + (ridge + share * size + 1e-12) * torch.eye(len(block)))
        if not failed:
            return found
    return torch.diag((block.diagonal().clamp(min=0.0) + ridge + 1e-12).sqrt())


def _together(p: Tensor) -> Tensor:
    """The inverse of C, from predictions (rows, classes)."""
    shares = p.T.contiguous()
    bent = torch.diag(p.double().sum(0)) - times_transposed(shares, shares).double()
    unit = bent.diagonal().clamp(min=1e-12).rsqrt()
    joined = (1 - APART) * unit.unsqueeze(1) * bent * unit
    return torch.linalg.inv(joined + APART * torch.eye(len(bent), dtype=torch.float64)).float()


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
