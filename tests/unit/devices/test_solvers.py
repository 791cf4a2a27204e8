"""Solvers compute where their rows and labels are: the same probes on the pretend device, and few waits for it."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from pretend_gpu import DEVICE, pretend_gpu

from vestige.probes.elastic_net import path as path_module
from vestige.probes.elastic_net import polish as polish_module
from vestige.probes.elastic_net.path import solve_path
from vestige.probes.elastic_net.polish import polish
from vestige.probes.linear import solver as solver_module
from vestige.probes.linear.isotropic import IsotropicProbes
from vestige.probes.linear.mlp import MlpRecipe, solve_mlp
from vestige.probes.linear.quasi_newton import Search, principal_axes
from vestige.probes.linear.softmax import Penalty, Truth, duality_gap, evaluate
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, log_probabilities
from vestige.probes.steps import Moments, Penalties, adam, largest, softmax_residual, softmax_sums
from vestige.probes.visit import Visit

ROWS, WIDTH, CLASSES = 600, 12, 4


@dataclass(frozen=True)
class Placed:
    """Rows that are read on a device."""

    features: Features
    device: str

    def __len__(self):
        return len(self.features)

    @property
    def width(self):
        return self.features.width

    def rows(self, which):
        return self.features.rows(which).to(self.device)

    def blocks(self, size=2048):
        return ((span, rows.to(self.device)) for span, rows in self.features.blocks(size))


def problem(device: str):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ROWS, WIDTH)).astype(np.float32) @ np.diag(np.geomspace(1, 0.05, WIDTH))
    logits = rows @ rng.standard_normal((WIDTH, CLASSES)) * 3 + rng.gumbel(size=(ROWS, CLASSES))
    labels = torch.from_numpy(np.stack([logits.argmax(1), rng.integers(0, CLASSES, ROWS)]))
    return Placed(Features(rows.astype(np.float32)), device), labels.to(device)


def ridge(device):
    source, labels = problem(device)
    fit = solve(source, labels, CLASSES, [0.0, 0.0], [1e-3, 1e-2], tolerance=1e-4)
    return fit.objective, log_probabilities(fit, source)


def lasso(device):
    source, labels = problem(device)
    fit = solve(source, labels, CLASSES, [1e-2, 0.0], [1e-3, 1e-2], tolerance=1e-4)
    return fit.objective, log_probabilities(fit, source)


def one_evaluation(device):
    source, labels = problem(device)
    weights = torch.linspace(-1, 1, 2 * (WIDTH + 1) * CLASSES).view(2, WIDTH + 1, CLASSES).to(device)
    at = evaluate(source, labels, weights)
    penalty = Penalty(torch.full((2, 1, 1), 1e-3, device=device), torch.full((2, 1, 1), 1e-3, device=device))
    gap = duality_gap(at, weights, penalty, Truth.of(source, labels, CLASSES))
    return at.loss, at.gradient, at.entropy, at.spread, gap


def a_path(device):
    source, labels = problem(device)
    found = solve_path(source, labels[0], CLASSES, [1e-2, 1e-3], [1e-3, 1e-4])
    return [part for one in found.solutions for part in (one.weights, one.biases)]


def polished(device, form="squared", tolerance=10.0):
    source, labels = problem(device)
    found = polish(source, labels[0], CLASSES, 1e-2, 1e-3, tolerance=tolerance, rounds=3, form=form)
    return found.weights, found.biases, torch.tensor(found.objective), torch.tensor(found.gap)


def isotropic(device):
    source, labels = problem(device)
    probes = IsotropicProbes(labels, WIDTH, CLASSES, torch.tensor([1e-3, 1e-2], device=device))
    probes.train(Visit(source, 64, 0).batches(), 20, 1e-2)
    return (probes.solution(),)


def mlp(device):
    source, labels = problem(device)
    recipe = MlpRecipe(hidden=8, batch=64, max_epochs=2)
    fit = solve_mlp([source, source], labels, [source, source], labels, CLASSES, recipe, [0, 1])
    return (fit.log_probabilities([source, source]),)


def steps(device):
    source, labels = problem(device)
    rows = source.rows(slice(0, 64))
    weights = torch.linspace(-1, 1, 2 * CLASSES * WIDTH).view(-1, WIDTH).to(device)
    biases = torch.linspace(-1, 1, 2 * CLASSES).to(device)
    sums, of_classes = (torch.zeros(2, size, dtype=torch.float64, device=device) for size in (2, 2 * CLASSES))
    softmax_sums(weights @ rows.T, biases, labels[:, :64], CLASSES, sums, of_classes)
    gradient = softmax_residual(weights @ rows.T, biases, labels[:, :64], CLASSES) @ rows
    penalties = Penalties(torch.full((4, 2), 1e-2).to(device))
    for widths in (None, torch.tensor([5, WIDTH])):
        if widths is not None:
            weights[:CLASSES, 5:] = 0.0
        adam(weights, gradient.clone(), Moments.of(weights, 0.9, 0.99), 1e-2, CLASSES, penalties, widths)
    best = largest((weights @ rows.T).view(2, CLASSES, 64), biases[:CLASSES])
    return sums, of_classes, gradient, weights, torch.from_numpy(np.asarray(best, dtype=np.int64))


@pytest.fixture
def few_steps(monkeypatch):
    for module in (path_module, polish_module):
        monkeypatch.setattr(module, "steps_for", lambda passes, rows: max(1, round(20 * passes)))


@pytest.mark.parametrize(
    "train", [ridge, lasso, one_evaluation, a_path, polished, isotropic, mlp, steps], ids=lambda train: train.__name__
)
def test_the_numbers_of_the_cpu(train, few_steps):
    here = train("cpu")
    with pretend_gpu():
        there = [part.cpu() for part in train(DEVICE)]
    for mine, theirs in zip(here, there, strict=True):
        assert type(theirs) is torch.Tensor
        torch.testing.assert_close(theirs, mine, rtol=5e-3, atol=2e-4)


def test_the_form_of_neurox(few_steps):
    with pretend_gpu():
        there = [part.cpu() for part in polished(DEVICE, form="norm")]
    torch.testing.assert_close(there, [*polished("cpu", form="norm")], rtol=5e-3, atol=2e-4, equal_nan=True)


def test_without_compiled_cycles_a_probe_is_polished_by_rounds_alone(few_steps):
    *_, least, _ = polished("cpu", tolerance=1e-4)
    with pretend_gpu():
        *_, objective, gap = polished(DEVICE, tolerance=1e-4)
    assert 0 <= objective - least <= gap


def test_a_preconditioner_is_made_on_the_cpu_only(monkeypatch):
    monkeypatch.setattr(solver_module, "MANY", 100)
    with pretend_gpu():
        there = ridge(DEVICE)[0].cpu()
    torch.testing.assert_close(there, ridge("cpu")[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("l1", [0.0, 1e-2])
def test_a_step_of_the_quasi_newton_search_waits_a_few_times(l1):
    with pretend_gpu() as gpu:
        source, labels = problem(DEVICE)
        strengths = torch.full((2, 1, 1), l1, device=DEVICE), torch.full((2, 1, 1), 1e-3, device=DEVICE)
        search = Search(source, labels, Penalty(*strengths), principal_axes(source))
        weights = torch.zeros(2, WIDTH + 1, CLASSES, device=DEVICE)
        never = torch.zeros(2, dtype=torch.bool, device=DEVICE)
        weights, at = search.run(weights, lambda at, now: never, 2)
        before, passes = Counter(gpu.trips), search.passes
        search.run(weights, lambda at, now: never, search.passes + 8, at)
        waited = (gpu.trips - before).total()
    assert waited <= 4 * (search.passes - passes), gpu.trips - before
