"""Elastic-net probes over all neurons against scikit-learn, run to convergence."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from vestige.neurons.matrix import Neurons
from vestige.solvers.polish import polish

PAIRS = [(0.0, 1e-2), (1e-3, 1e-3), (1e-2, 1e-3), (3e-3, 0.0)]


def data(rows=1200, width=24, classes=4):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, rows)
    x = 0.5 * rng.standard_normal((classes, width))[labels] + rng.standard_normal((rows, width))
    return x.astype(np.float32), labels


def objective(x, y, weights, bias, l1, l2) -> float:
    logits = torch.from_numpy(x).double() @ weights.double() + bias.double()
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y))
    return float(loss + l1 * weights.double().abs().sum() + l2 * weights.double().square().sum())


@pytest.mark.parametrize(("l1", "l2"), PAIRS)
def test_the_objective_is_scikit_learns(l1, l2):
    x, y = data()
    strength = l1 + 2 * l2
    theirs = LogisticRegression(
        solver="saga", C=1 / (len(x) * strength), l1_ratio=l1 / strength, max_iter=20000, tol=1e-7
    ).fit(x.astype(np.float64), y)
    best = objective(x, y, torch.from_numpy(theirs.coef_.T), torch.from_numpy(theirs.intercept_), l1, l2)
    mine = polish(Neurons((x[:, :10], x[:, 10:])), torch.from_numpy(y), 4, l1, l2, rounds=14, passes=8, tolerance=1e-4)
    found = objective(x, y, mine.weights, mine.biases, l1, l2)
    assert found == pytest.approx(mine.objective, abs=1e-5)
    assert best - 1e-4 <= found <= best * (1 + 2e-3)
    if l1 >= 3e-3:  # under weaker l1 weights near zero are still on their way there
        agree = ((mine.weights == 0) == torch.from_numpy(np.abs(theirs.coef_.T) < 1e-6)).double().mean()
        assert agree > 0.9, "the same weights are zero"
