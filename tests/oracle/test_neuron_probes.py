"""Elastic-net probes over all neurons against scikit-learn, cyanure and NeuroX, run to convergence."""

import contextlib
import io
import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import train_subsets
from vestige.probes.elastic_net.path import solve_path
from vestige.probes.elastic_net.polish import polish

FINE = {"rounds": 10, "passes": 4, "tolerance": 1e-4}


def data(rows=600, width=16, classes=4, scale=1.0, shift=0.0):
    """Classes around centres, `shift` being how far from zero the columns are, in deviations."""
    rng = np.random.default_rng(rows + width)
    labels = rng.integers(0, classes, rows)
    x = 0.5 * rng.standard_normal((classes, width))[labels] + rng.standard_normal((rows, width))
    return (scale * (x + shift * rng.standard_normal(width))).astype(np.float32), labels


def objective(x, y, weights, bias, l1, l2, power=2) -> float:
    """Of any probe, in float64, written down once more."""
    weights, bias = (torch.as_tensor(part).double() for part in (weights, bias))
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(x).double() @ weights + bias, torch.from_numpy(y))
    return float(loss + l1 * weights.abs().sum() + l2 * weights.norm() ** power)


def layers(x: np.ndarray) -> Neurons:
    return Neurons((x[:, :5], x[:, 5:]))


def scikit_learn(x, y, l1, l2):
    """It minimises C * (sum of losses) + |W|^2 / 2 and l1_ratio's share of |W|_1."""
    strength = l1 + 2 * l2
    how = {"C": 1 / (len(x) * strength), "l1_ratio": l1 / strength} if strength else {"C": np.inf}
    solver = {"solver": "saga", "max_iter": 3000, "tol": 1e-5} if l1 else {"max_iter": 3000, "tol": 1e-8}
    found = LogisticRegression(**solver, **how).fit(x.astype(np.float64), y)
    return found.coef_.T, found.intercept_


def cyanure(x, y, l1, l2):
    """It minimises the mean loss, lambda_1 |W|_1 and lambda_2 / 2 |W|^2."""
    estimators = pytest.importorskip("cyanure.estimators", reason="cyanure is missing: pip install cyanure")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = estimators.Classifier(
            loss="multiclass-logistic", penalty="elasticnet", lambda_1=l1, lambda_2=2 * l2, solver="qning-ista",
            tol=1e-6, max_iter=1500, fit_intercept=True, verbose=False, n_threads=1,
        ).fit(np.asfortranarray(x, dtype=np.float64), y)  # fmt: skip
    return found.coef_, found.intercept_.ravel()


class TestPolish:
    @pytest.mark.parametrize(("l1", "l2"), [(0.0, 1e-2), (1e-3, 1e-3), (1e-2, 1e-3)])
    def test_objective_and_zeros_are_those_of_scikit_learn_and_cyanure(self, l1, l2):
        x, y = data()
        mine = polish(layers(x), torch.from_numpy(y), 4, l1, l2, **FINE)
        assert mine.objective == pytest.approx(objective(x, y, mine.weights, mine.biases, l1, l2), abs=1e-5)
        for reference in (scikit_learn, cyanure):
            theirs, bias = reference(x, y, l1, l2)
            best = objective(x, y, theirs, bias, l1, l2)
            assert best - 1e-4 <= mine.objective <= best + 2e-3
            assert mine.objective - best <= mine.gap <= 1e-2
            if l1 >= 1e-2:  # under weaker l1 weights near zero are still on their way there
                agree = ((mine.weights == 0) == torch.as_tensor(np.abs(theirs) < 1e-5)).double().mean()
                assert agree > 0.9, "the same weights are zero"
                assert 0.1 < mine.zeros < 0.9

    @pytest.mark.parametrize(("rows", "width", "classes"), [(300, 8, 3), (1500, 50, 8)])
    def test_other_sizes(self, rows, width, classes):
        x, y = data(rows, width, classes)
        l1, l2 = 3e-3, 1e-3
        best = objective(x, y, *cyanure(x, y, l1, l2), l1, l2)
        mine = polish(layers(x), torch.from_numpy(y), classes, l1, l2, **FINE)
        assert best - 1e-4 <= mine.objective <= best + 2e-3
        assert mine.objective - best <= mine.gap <= 1e-2

    @pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (30.0, 0.0), (0.03, 0.0), (1.0, 2.0)])
    def test_the_gap_is_never_less_than_what_is_missing_and_never_absurd(self, scale, shift):
        x, y = data(scale=scale, shift=shift)
        for l1, l2 in ((1e-3, 1e-3), (3e-3, 1e-6), (3e-3, 0.0)):
            l1, l2 = l1 * scale, l2 * scale**2
            best = objective(x, y, *cyanure(x, y, l1, l2), l1, l2)
            mine = polish(layers(x), torch.from_numpy(y), 4, l1, l2, rounds=2)
            assert best - 1e-3 < mine.objective <= best + mine.gap
            assert l2 > 1e-5 * scale**2 or mine.gap < mine.objective, "a loss is never below zero"

    def test_without_any_penalty_it_is_scikit_learns_and_no_bound_is_known(self):
        x, y = data()
        best = objective(x, y, *scikit_learn(x, y, 0.0, 0.0), 0.0, 0.0)
        mine = polish(layers(x), torch.from_numpy(y), 4, 0.0, 0.0, **FINE)
        assert best - 1e-4 <= mine.objective <= best + 3e-3
        assert mine.gap == np.inf


class TestOtherEntries:
    def test_every_pair_of_a_grid_is_near_its_optimum(self):
        x, y = data()
        grid = (0.0, 1e-1, 1e-2, 1e-3)
        found = solve_path(layers(x), torch.from_numpy(y), 4, grid, grid)
        for l1 in grid:
            for l2 in grid:
                at = found.at(l1, l2)
                mine = objective(x, y, at.weights, at.biases, l1, l2)
                assert mine == pytest.approx(at.objective(l1, l2, "squared"), abs=1e-4), "all rows are the sample"
                best = objective(x, y, *(cyanure if l1 else scikit_learn)(x, y, l1, l2), l1, l2)
                assert best - 1e-3 <= mine <= best + 0.05, (l1, l2)

    def test_subsets_are_probes_on_their_columns_alone(self):
        x, y = data()
        order = np.random.default_rng(0).permutation(16)
        l1, l2 = 1e-3, 1e-3
        for subset in train_subsets(layers(x), torch.from_numpy(y), 4, order, [4, 10, 16], l1=l1, l2=l2):
            columns = x[:, subset.neurons]
            best = objective(columns, y, *cyanure(columns, y, l1, l2), l1, l2)
            mine = objective(columns, y, subset.weights, subset.biases, l1, l2)
            assert best - 1e-4 <= mine <= best + 0.12, len(subset.neurons)


def test_in_neuroxs_form_no_probe_that_neurox_trains_is_better():
    """Its L2 term is the norm itself, not its square."""
    if not hasattr(np, "int"):
        np.int = int  # NeuroX is older than numpy 1.24
    theirs = pytest.importorskip("neurox.interpretation.linear_probe", reason="NeuroX is missing")
    x, y = data()
    l1, l2 = 1e-2, 1e-2
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        probe = theirs.train_logistic_regression_probe(x, y, lambda_l1=l1, lambda_l2=l2, num_epochs=40)
    weights, bias = probe.linear.weight.detach().T, probe.linear.bias.detach()
    neurox = objective(x, y, weights, bias, l1, l2, power=1)
    assert neurox == pytest.approx(
        objective(x, y, weights, bias, l1, 0.0) + l2 * float(theirs.l2_penalty(weights)), abs=1e-6
    )
    mine = polish(layers(x), torch.from_numpy(y), 4, l1, l2, form="norm", **FINE)
    assert mine.objective == pytest.approx(objective(x, y, mine.weights, mine.biases, l1, l2, power=1), abs=1e-5)
    assert neurox - 0.1 <= mine.objective <= neurox
    for scale in (0.97, 1.03):
        assert objective(x, y, scale * mine.weights, mine.biases, l1, l2, power=1) > mine.objective
    assert np.isnan(mine.gap)
    assert (mine.weights == 0).any() and not (weights == 0).any(), "only a proximal step gives zeros"
