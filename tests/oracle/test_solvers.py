"""The solvers against scikit-learn, cyanure, torch.optim and autograd."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from vestige.errors import RepresentationError
from vestige.probes.linear.adam import AdamRecipe, solve_by_adam
from vestige.probes.linear.isotropic import IsotropicProbes
from vestige.probes.linear.mlp import MlpRecipe, _forward, _gradients, solve_mlp
from vestige.probes.linear.softmax import Penalty, Truth, duality_gap, evaluate
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features
from vestige.probes.visit import Visit

CLASSES = 4


def problem(seed: int = 0, rows: int = 500, width: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Noisy labels (not separable) of rows whose columns differ in scale by a factor of ten."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(rows, width)) * np.linspace(0.2, 2, width)).astype(np.float32)
    logits = 0.5 * x @ rng.normal(size=(width, CLASSES)) + rng.normal(size=CLASSES)
    return x, (logits + rng.gumbel(size=logits.shape)).argmax(1)


def objective(x: np.ndarray, y: np.ndarray, weights: np.ndarray, bias: np.ndarray, l1: float, l2: float) -> float:
    """F of vestige.probes.linear.softmax in float64."""
    logits = x.astype(np.float64) @ weights + bias
    logits -= logits.max(1, keepdims=True)
    loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]
    return float(loss.mean() + l1 * np.abs(weights).sum() + l2 * np.square(weights).sum())


def ours(x: np.ndarray, y: np.ndarray, l1: float, l2: float, **options):
    fit = solve(Features(x), torch.from_numpy(y)[None], CLASSES, [l1], [l2], **options)
    weights = fit.weights[0].double().numpy()
    return fit, weights[:-1], weights[-1]


def logistic_regression(x: np.ndarray, y: np.ndarray, l2: float) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn minimises C * (sum of losses) + |w|^2 / 2."""
    strength = np.inf if l2 == 0 else 1 / (2 * l2 * len(y))
    fitted = LogisticRegression(C=strength, tol=1e-8, max_iter=5000).fit(x.astype(np.float64), y)
    return fitted.coef_.T, fitted.intercept_


class TestRidge:
    @pytest.mark.parametrize("l2", [1e-1, 1e-2, 1e-3])
    def test_objective_and_weights_are_those_of_scikit_learn(self, l2):
        x, y = problem()
        fit, weights, bias = ours(x, y, 0.0, l2, tolerance=1e-5)
        expected, expected_bias = logistic_regression(x, y, l2)
        assert objective(x, y, weights, bias, 0, l2) == pytest.approx(
            objective(x, y, expected, expected_bias, 0, l2), abs=1e-4
        )
        assert fit.objective.item() == pytest.approx(objective(x, y, weights, bias, 0, l2), abs=1e-6)
        np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-2 * np.abs(expected).max())

    def test_the_default_tolerance_already_gives_the_objective_to_1e_4(self):
        x, y = problem(seed=1)
        for l2 in (1e-2, 1e-4, 1e-6):
            fit, weights, bias = ours(x, y, 0.0, l2)
            best = objective(x, y, *logistic_regression(x, y, l2), 0, l2)
            assert fit.gap.item() <= 1e-4
            assert objective(x, y, weights, bias, 0, l2) <= best + 1e-4

    def test_without_any_penalty_the_objective_is_that_of_scikit_learn(self):
        x, y = problem()
        fit, weights, bias = ours(x, y, 0.0, 0.0)
        best = objective(x, y, *logistic_regression(x, y, 0.0), 0, 0)
        assert objective(x, y, weights, bias, 0, 0) == pytest.approx(best, abs=1e-4)
        assert np.isinf(fit.gap.item()), "no dual bound is known without penalty"


class TestElasticNet:
    @pytest.mark.parametrize(("l1", "l2"), [(1e-2, 1e-2), (2e-3, 1e-2), (5e-3, 1e-7)])
    def test_objective_is_cyanures_and_where_l2_counts_the_weights_too(self, l1, l2):
        x, y = problem()
        _, weights, bias = ours(x, y, l1, l2, tolerance=1e-5)
        reference = (
            pytest.importorskip("cyanure.estimators")
            .Classifier(
                loss="multiclass-logistic",
                penalty="elasticnet",
                lambda_1=l1,
                lambda_2=2 * l2,
                solver="qning-ista",
                tol=1e-7,
                max_iter=5000,
                fit_intercept=True,
                verbose=False,
                n_threads=1,
            )
            .fit(np.asfortranarray(x, dtype=np.float64), y)
        )
        expected, expected_bias = reference.coef_, reference.intercept_.ravel()
        assert expected.shape == weights.shape
        assert objective(x, y, weights, bias, l1, l2) == pytest.approx(
            objective(x, y, expected, expected_bias, l1, l2), abs=1e-4
        )
        if l2 >= 1e-2:
            np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-2 * np.abs(expected).max())

    @pytest.mark.parametrize(("l1", "l2"), [(1e-2, 1e-2), (2e-3, 1e-2)])
    def test_zeros_are_those_of_a_converged_saga(self, l1, l2):
        x, y = problem()
        _, weights, _ = ours(x, y, l1, l2, tolerance=1e-5)
        total = l1 + 2 * l2
        saga = LogisticRegression(
            solver="saga", C=1 / (len(y) * total), l1_ratio=l1 / total, tol=1e-8, max_iter=5000, random_state=0
        ).fit(x.astype(np.float64), y)
        assert 0 < (weights == 0).sum() < weights.size
        np.testing.assert_array_equal(weights == 0, saga.coef_.T == 0)


class TestManyProbesInOneCall:
    PENALTIES = ((0.0, 1e-2), (1e-2, 1e-3), (0.0, 1e-4), (3e-2, 0.1))

    def test_equal_the_same_problems_solved_alone(self):
        x, y = problem()
        other = np.random.default_rng(9).permutation(y)
        labels = [y, y, other, other]
        l1, l2 = (list(values) for values in zip(*self.PENALTIES, strict=True))
        together = solve(Features(x), torch.from_numpy(np.stack(labels)), CLASSES, l1, l2, tolerance=1e-5)
        for probe, (target, (one, two)) in enumerate(zip(labels, self.PENALTIES, strict=True)):
            alone, weights, bias = ours(x, target, one, two, tolerance=1e-5)
            joint = together.weights[probe].double().numpy()
            assert objective(x, target, joint[:-1], joint[-1], one, two) == pytest.approx(
                objective(x, target, weights, bias, one, two), abs=2e-5
            )
            radius = sum((gap.item() / two) ** 0.5 for gap in (together.gap[probe], alone.gap))  # l2 |W - W*|^2 <= gap
            assert np.linalg.norm(joint[:-1] - weights) <= radius

    def test_a_probe_that_is_done_is_left_alone_while_the_others_go_on(self):
        x, y = problem()
        done, _, _ = ours(x, y, 0.0, 1e-2)
        start = torch.cat([done.weights, torch.zeros_like(done.weights)])
        labels = torch.from_numpy(np.stack([y, y]))
        together = solve(Features(x), labels, CLASSES, [0.0, 0.0], [1e-2, 1e-3], start=start)
        assert torch.equal(together.weights[0], done.weights[0])
        assert together.gap.max() <= 1e-4


def test_loss_gradient_and_gap_ingredients_are_those_of_autograd_in_float64():
    x, y = problem(rows=60)
    labels = torch.from_numpy(np.stack([y, y[::-1].copy()]))
    weights = torch.randn(2, 13, CLASSES, generator=torch.Generator().manual_seed(0))
    at = evaluate(Features(x), labels, weights)
    exact = weights.double().requires_grad_()
    log_p = (torch.from_numpy(x).double() @ exact[:, :-1] + exact[:, -1:]).log_softmax(-1)
    loss = -log_p.gather(-1, labels[..., None]).mean((1, 2))
    (gradient,) = torch.autograd.grad(loss.sum(), exact)
    p = log_p.exp().detach()
    torch.testing.assert_close(at.loss, loss.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(at.gradient.double(), gradient, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(at.entropy, -(p * p.log()).sum(-1).mean(1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(at.spread.double(), (p * (1 - p)).mean(1), rtol=1e-4, atol=1e-6)


def test_the_ridge_gap_is_primal_minus_a_dual_written_out_in_float64():
    """At a point whose biases are optimal the bound needs no guess about them and is plain Fenchel duality."""
    x, y = problem(rows=80)
    l2 = 1e-2
    _, weights, bias = ours(x, y, 0.0, l2, tolerance=1e-6)
    halfway = 0.7 * weights
    for _ in range(500):  # the biases that are optimal for these weights
        p = np.exp(x @ halfway + bias)
        p /= p.sum(1, keepdims=True)
        bias = bias - 2 * (p.mean(0) - np.bincount(y, minlength=CLASSES) / len(y))
    p = np.exp(x.astype(np.float64) @ halfway + bias)
    p /= p.sum(1, keepdims=True)
    slope = x.T.astype(np.float64) @ (p - np.eye(CLASSES)[y]) / len(y)
    dual = -(p * np.log(p)).sum(1).mean() - np.square(slope).sum() / (4 * l2)
    expected = objective(x, y, halfway, bias, 0, l2) - dual
    at_weights = torch.from_numpy(np.vstack([halfway, bias])).float()[None]
    penalty = Penalty(torch.zeros(1, 1, 1), torch.full((1, 1, 1), l2))
    at = evaluate(Features(x), torch.from_numpy(y)[None], at_weights)
    assert duality_gap(
        at, at_weights, penalty, Truth.of(Features(x), torch.from_numpy(y)[None], CLASSES)
    ).item() == pytest.approx(expected, abs=1e-4)
    assert expected > 1e-2


class TestAdam:
    @pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (1e-3, 1e-2)])
    def test_weights_are_those_of_a_plain_torch_loop_over_the_same_batches(self, l1, l2):
        x, y = problem(rows=150)
        layers = [Features(x), Features(np.ascontiguousarray(x[:, ::-1]), 0.5)]
        recipe = AdamRecipe(rate=1e-2, batch=64, epochs=3, l1=l1, l2=l2)
        labels = torch.from_numpy(np.stack([y]))
        start = solve_by_adam(layers, labels, CLASSES, AdamRecipe(epochs=0), [7])
        found = solve_by_adam(layers, labels, CLASSES, recipe, [7])
        for features, before, after in zip(layers, start, found, strict=True):
            linear = torch.nn.Linear(12, CLASSES)
            with torch.no_grad():
                linear.weight.copy_(before.weights[0, :-1].T)
                linear.bias.copy_(before.weights[0, -1])
            self.train(linear, features.rows(slice(None)), labels[0], recipe, seed=7)
            torch.testing.assert_close(after.weights[0, :-1].T, linear.weight.detach(), rtol=0, atol=1e-4)
            torch.testing.assert_close(after.weights[0, -1], linear.bias.detach(), rtol=0, atol=1e-4)
            assert not torch.allclose(before.weights, after.weights, atol=1e-2)

    @staticmethod
    def train(linear: torch.nn.Linear, x: torch.Tensor, y: torch.Tensor, recipe: AdamRecipe, seed: int) -> None:
        optimiser = torch.optim.Adam(linear.parameters(), lr=recipe.rate)
        order = np.random.default_rng([seed, len(y)])
        for _ in range(recipe.epochs):
            shuffled = order.permutation(len(y))
            for start in range(0, len(y), recipe.batch):
                which = torch.from_numpy(shuffled[start : start + recipe.batch])
                loss = torch.nn.functional.cross_entropy(linear(x[which]), y[which])
                loss = loss + recipe.l1 * linear.weight.abs().sum() + recipe.l2 * linear.weight.square().sum()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    def test_probes_trained_together_are_those_trained_alone(self):
        x, y = problem(rows=150)
        labels = torch.from_numpy(np.stack([y, np.random.default_rng(1).permutation(y)]))
        recipe = AdamRecipe(rate=1e-2, batch=64, epochs=2)
        (together,) = solve_by_adam([Features(x)], labels, CLASSES, recipe, [3, 3])
        for probe in range(2):
            (alone,) = solve_by_adam([Features(x)], labels[probe : probe + 1], CLASSES, recipe, [3])
            torch.testing.assert_close(together.weights[probe], alone.weights[0], rtol=0, atol=1e-5)

    def test_it_starts_like_torch_linear_and_seeds_differ(self):
        x, y = problem(rows=20)
        (start,) = solve_by_adam(
            [Features(x)], torch.from_numpy(np.stack([y, y])), CLASSES, AdamRecipe(epochs=0), [0, 1]
        )
        bound = 12**-0.5
        assert start.weights.abs().max() <= bound
        assert start.weights.std() == pytest.approx(bound / 3**0.5, rel=0.2)
        assert not torch.allclose(start.weights[0], start.weights[1])

    def test_the_objective_it_reports_is_over_all_rows_with_penalties(self):
        x, y = problem(rows=150)
        recipe = AdamRecipe(epochs=2, l1=1e-3, l2=1e-2)
        (fit,) = solve_by_adam([Features(x)], torch.from_numpy(y)[None], CLASSES, recipe, [0])
        weights = fit.weights[0].double().numpy()
        assert fit.objective.item() == pytest.approx(objective(x, y, weights[:-1], weights[-1], 1e-3, 1e-2), abs=1e-5)
        assert np.isnan(fit.gap.item())


class TestHiddenLayerProbe:
    def test_gradients_are_those_of_autograd(self):
        generator = torch.Generator().manual_seed(0)
        layers, seeds, rows, width, hidden = 2, 3, 17, 5, 6
        shapes = ((width, hidden), (1, hidden), (hidden, CLASSES), (1, CLASSES))
        parameters = [torch.randn(layers * seeds, *shape, generator=generator) for shape in shapes]
        x = torch.randn(layers, rows, width, generator=generator).repeat_interleave(seeds, 0)
        labels = torch.randint(CLASSES, (seeds, rows), generator=generator)
        traced = [p.clone().requires_grad_() for p in parameters]
        logits = torch.relu(x @ traced[0] + traced[1]) @ traced[2] + traced[3]
        torch.testing.assert_close(_forward(parameters, x)[1], logits.detach())
        gold = labels.repeat(layers, 1)  # probe (layer, seed) has the labels of its seed
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), gold.flatten(), reduction="sum") / rows
        for found, expected in zip(_gradients(parameters, x, labels), torch.autograd.grad(loss, traced), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    def test_it_learns_what_no_linear_probe_can(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(600, 2)).astype(np.float32)
        y = torch.from_numpy(((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(np.int64))
        train, dev = Features(x[:400]), Features(x[400:])
        recipe = MlpRecipe(hidden=16, rate=1e-2, batch=64, max_epochs=40, patience=40)
        labels = torch.stack([y, y])
        fit = solve_mlp([train], labels[:, :400], [dev], labels[:, 400:], 2, recipe, [0, 1])
        accuracy = (fit.log_probabilities([dev]).argmax(-1) == y[400:]).float().mean(-1)
        assert (accuracy > 0.9).all()
        linear = solve(train, y[None, :400], 2, [0.0], [1e-4])
        assert (linear.logits(dev.rows(slice(None)))[0].argmax(-1) == y[400:]).float().mean() < 0.7


class TestIsotropic:
    """Probes that are trained whatever the axes of their rows."""

    @staticmethod
    def trained(x: np.ndarray, labels: np.ndarray, l2: list[float], steps: int = 3000) -> torch.Tensor:
        probes = IsotropicProbes(torch.from_numpy(labels), x.shape[1], CLASSES, torch.tensor(l2))
        probes.train(iter(Visit(Features(x), 64, seed=0)), steps, 0.03, last=0.001)
        return probes.solution().double()

    def test_objectives_end_at_those_of_scikit_learn(self):
        x, y = problem()
        strengths = [1e-1, 1e-2, 1e-3]
        for l2, mine in zip(strengths, self.trained(x, np.stack([y] * 3), strengths).numpy(), strict=True):
            best = objective(x, y, *logistic_regression(x, y, l2), 0, l2)
            assert best - 1e-6 <= objective(x, y, mine[:-1], mine[-1], 0, l2) <= best + 1e-3

    def test_turned_rows_give_turned_weights(self):
        x, y = problem(seed=2)
        turn = np.linalg.qr(np.random.default_rng(2).normal(size=(12, 12)))[0]
        plain, turned = (
            self.trained(rows.astype(np.float32), y[None], [1e-2], steps=40)[0].numpy() for rows in (x, x @ turn)
        )
        np.testing.assert_allclose(turn @ turned[:-1], plain[:-1], atol=1e-4)
        np.testing.assert_allclose(turned[-1], plain[-1], atol=1e-4)
        assert np.abs(turned - plain).max() > 0.01, "the turn was no turn"

    def test_probes_trained_together_are_those_trained_alone(self):
        x, y = problem(seed=3)
        labels, strengths = np.stack([y, (y + 1) % CLASSES]), [1e-2, 1e-3]
        alone = [self.trained(x, labels[[at]], [strengths[at]], steps=50)[0] for at in (0, 1)]
        torch.testing.assert_close(self.trained(x, labels, strengths, steps=50), torch.stack(alone), atol=1e-5, rtol=0)

    def test_a_row_that_is_no_number_is_named(self):
        x, y = problem(seed=4)
        x[7, 3] = np.nan
        with pytest.raises(RepresentationError, match="row 7, column 3"):
            self.trained(x, y[None], [1e-2], steps=50)
