"""Compiled loops against the same operations in torch, NumPy and float64; products against MKL's."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from vestige import products
from vestige.neurons import ranking
from vestige.neurons.ablation import ablate
from vestige.neurons.matrix import Neurons
from vestige.probes import steps
from vestige.probes.elastic_net.proximal import Probes
from vestige.probes.steps import Moments, Penalties, adam, compiled, gather, largest, softmax_residual, softmax_sums
from vestige.products import times_transposed

P, CLASSES, WIDTH, ROWS = 3, 5, 37, 70


@pytest.fixture
def plain(monkeypatch):
    """Call something as if numba were missing."""

    def run(work):
        with monkeypatch.context() as patch:
            patch.setattr(steps, "compiled", lambda: None)
            patch.setattr(ranking, "compiled", lambda: None)
            return work()

    return run


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class TestResidual:
    @pytest.mark.parametrize("labels", [1, P])
    @pytest.mark.parametrize("size", [1.0, 30.0])
    def test_it_is_that_of_float64(self, plain, labels, size):
        logits, biases = size * numbers(P * CLASSES, ROWS), numbers(P * CLASSES)
        gold = torch.randint(CLASSES, (labels, ROWS), generator=torch.Generator().manual_seed(1))
        p = (logits + biases.unsqueeze(1)).double().view(P, CLASSES, ROWS).softmax(1)
        expected = (p - torch.nn.functional.one_hot(gold, CLASSES).transpose(1, 2)).view(P * CLASSES, ROWS) / ROWS
        for found in (
            softmax_residual(logits.clone(), biases, gold, CLASSES),
            plain(lambda: softmax_residual(logits.clone(), biases, gold, CLASSES)),
        ):
            # an error of half a unit in the last place of a logit is one of that size in a probability
            assert (found - expected).abs().max() * ROWS < 2e-7 * (1 + 4 * size)

    def test_what_is_no_number_stays_none(self):
        logits, gold = numbers(CLASSES, ROWS), torch.zeros(1, ROWS, dtype=torch.long)
        logits[2, 7], logits[1, 9] = np.nan, np.inf
        found = softmax_residual(logits, torch.zeros(CLASSES), gold, CLASSES)
        assert found[:, 7].isnan().all() and found[:, 9].isnan().any()
        assert found[:, [0, 8]].isfinite().all()


class TestSums:
    @pytest.mark.parametrize("size", [1.0, 40.0])
    def test_loss_entropy_and_sums_are_those_of_float64(self, plain, size):
        logits, biases = size * numbers(P * CLASSES, ROWS), numbers(P * CLASSES)
        gold = torch.randint(CLASSES, (P, ROWS), generator=torch.Generator().manual_seed(1))
        log_p = (logits + biases.unsqueeze(1)).double().view(P, CLASSES, ROWS).log_softmax(1)
        p, one = log_p.exp(), torch.nn.functional.one_hot(gold, CLASSES).transpose(1, 2)

        def run() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            sums, of_classes = torch.ones(2, P, dtype=torch.float64), torch.ones(2, P * CLASSES, dtype=torch.float64)
            found = softmax_sums(logits.clone(), biases, gold, CLASSES, sums, of_classes)
            return found, sums - 1, of_classes - 1

        for found, sums, of_classes in (run(), plain(run)):
            assert (found - (p - one).view(P * CLASSES, ROWS)).abs().max() < 2e-7 * (1 + 4 * size)
            torch.testing.assert_close(sums[0], -(log_p * one).sum((1, 2)), rtol=1e-6, atol=1e-5 * size)
            torch.testing.assert_close(sums[1], -(p * log_p).sum((1, 2)), rtol=1e-5, atol=5e-5 * size)
            torch.testing.assert_close(of_classes[0], (p - p * p).sum(2).view(-1), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(of_classes[1], (p - one).sum(2).view(-1), rtol=1e-4, atol=1e-3)


class TestUpdate:
    @pytest.mark.parametrize("widths", [None, torch.tensor([WIDTH, 4, 20])])
    def test_fifty_steps_are_those_of_torch(self, plain, widths):
        def train() -> torch.Tensor:
            weights = torch.zeros(P * CLASSES, WIDTH)
            table = torch.tensor([[0.0, 1e-2, 0.0], [0.0, 0.0, 1e-2], [0.3, 0.0, 3e-3], [1e-2, 0.0, 1e-3]])
            moments = Moments.of(weights, 0.9, 0.99)
            for step in range(50):
                gradient = numbers(P * CLASSES, WIDTH, seed=step)
                adam(weights, gradient, moments, 1e-2, CLASSES, Penalties(table), widths)
            return weights

        found, expected = train(), plain(train)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        lasso = found[:CLASSES]
        assert (lasso == 0).any() and (lasso != 0).any(), "a proximal step gives zeros"
        if widths is not None:
            assert not found[CLASSES : 2 * CLASSES, 4:].any() and found[CLASSES : 2 * CLASSES, :4].all()

    def test_without_penalties_it_is_torchs_adam(self):
        weights = numbers(CLASSES, WIDTH)
        theirs = weights.clone().requires_grad_()
        optimiser, moments = torch.optim.Adam([theirs], lr=1e-2), Moments.of(weights, 0.9, 0.999)
        for step in range(20):
            theirs.grad = numbers(CLASSES, WIDTH, seed=step)
            optimiser.step()
            adam(weights, theirs.grad.clone(), moments, 1e-2, CLASSES, Penalties.none(1))
        torch.testing.assert_close(weights, theirs.detach(), rtol=0, atol=1e-6)

    @pytest.mark.parametrize("form", ["squared", "norm"])
    def test_training_is_the_same_with_and_without_the_compiler(self, plain, form):
        rows, labels = numbers(256, WIDTH), torch.arange(256).remainder(CLASSES).unsqueeze(0)

        def train() -> torch.Tensor:
            probes = Probes.at_zero(labels, WIDTH, CLASSES, [1e-2, 0.0], [0.0, 1e-2], form)
            for _ in range(30):
                probes.step(rows, labels, 1e-2)
            return torch.cat([probes.weights, probes.biases.unsqueeze(1)], dim=1)

        torch.testing.assert_close(train(), plain(train), rtol=1e-4, atol=1e-5)


class TestRanking:
    def test_keys_and_orders_are_the_same_to_the_bit(self, plain):
        weights = numbers(300, 7).numpy()
        weights[np.random.default_rng(0).random(weights.shape) < 0.4] = 0
        weights[:, 3] = 0
        weights[20:40] = weights[40:60]
        found, expected = ranking.rank(weights), plain(lambda: ranking.rank(weights))
        assert np.array_equal(found.order, expected.order) and np.array_equal(found.key, expected.key)

    def test_ablation_is_right_on_the_same_rows(self, plain):
        neurons, weights, biases = Neurons((numbers(200, 30).numpy(),)), numbers(30, CLASSES), numbers(CLASSES)
        keeps = {str(n): np.random.default_rng(n).permutation(30)[:10] for n in range(3)}
        labels = np.arange(200) % CLASSES
        found, expected = (
            run(lambda: ablate(neurons, labels, weights, biases, keeps)) for run in (lambda work: work(), plain)
        )
        for name in keeps:
            assert np.array_equal(found.correct[name], expected.correct[name])

    def test_columns_go_where_they_belong(self, plain):
        source, columns = numbers(9, 20).numpy(), np.array([19, 0, 7, 7])
        for run in (lambda work: work(), plain):
            for given in (source, source.astype(np.float16), source[:, ::-1]):
                out = np.full((9, 6), -1.0, dtype=np.float32)
                run(lambda given=given, out=out: gather(given, columns, out, 1))
                assert np.array_equal(out[:, 1:5], given[:, columns].astype(np.float32))
                assert (out[:, [0, 5]] == -1).all()

    def test_columns_that_do_not_fit_are_refused(self):
        with pytest.raises(ValueError, match="do not fit"):
            gather(np.zeros((3, 5), np.float32), np.arange(4), np.zeros((3, 4), np.float32), 1)
        with pytest.raises(ValueError, match="do not fit"):
            gather(np.zeros((3, 5), np.float32), np.arange(4), np.zeros((2, 4), np.float32), 0)

    def test_of_equal_logits_the_first_is_the_largest(self, plain):
        logits, biases = torch.zeros(2, 4, 6), torch.tensor([0.0, 1.0, 1.0, 0.0])
        logits[1, 3, 2] = 9.0
        for run in (lambda work: work(), plain):
            found = run(lambda: largest(logits.clone(), biases))
            assert found[0].tolist() == [1] * 6 and found[1].tolist() == [1, 1, 3, 1, 1, 1]


class TestProducts:
    @pytest.mark.parametrize("shape", [(1, 1, 1), (3, 17, 5), (48, 300, 64), (240, 134, 256)])
    def test_they_are_those_of_float64(self, shape):
        m, k, n = shape
        left, right = numbers(m, k), numbers(n, k, seed=1)
        exact = left.double() @ right.double().T
        for a in (left, left.T.contiguous().T):
            for b in (right, right.T.contiguous().T):
                torch.testing.assert_close(times_transposed(a, b).double(), exact, rtol=0, atol=1e-6 * k**0.5 * 4)

    def test_what_onednn_is_not_asked_for_is_multiplied_all_the_same(self):
        assert times_transposed(torch.zeros(0, 3), torch.zeros(4, 3)).shape == (0, 4)
        double = numbers(2, 3).double()
        assert torch.equal(times_transposed(double, double), double @ double.T)
        traced = numbers(2, 3).requires_grad_()
        times_transposed(traced, numbers(4, 3)).sum().backward()
        assert traced.grad is not None
        with pytest.raises(RuntimeError):
            times_transposed(numbers(2, 3), numbers(2, 4))

    def test_they_are_right_where_the_system_gives_fewer_threads_than_torch_asks_for(self):
        """oneDNN would leave a part of the product unwritten, and say nothing."""
        code = (
            "import torch; from vestige.products import faster_linear, times_transposed; torch.set_num_threads(2)\n"
            "x, w = torch.randn(600, 90), torch.randn(80, 90)\n"
            "with torch.inference_mode(), faster_linear():\n"
            "    for found in (times_transposed(x, w), torch.nn.functional.linear(x, w)):\n"
            "        torch.testing.assert_close(found, (x.double() @ w.double().T).float())"
        )
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "OMP_THREAD_LIMIT": "1"})

    def test_without_onednn_they_are_torchs(self, monkeypatch):
        monkeypatch.setattr(products, "onednn", lambda: False)
        left, right = numbers(30, 40), numbers(20, 40, seed=1)
        assert torch.equal(times_transposed(left, right), left @ right.T)


def test_coordinate_descent_ends_where_no_weight_gains():
    """The optimum of a quadratic with an elastic net, by its optimality conditions in float64."""
    loops, rng = compiled(), np.random.default_rng(0)
    assert loops is not None
    factor = rng.standard_normal((60, 20))
    gram, start = (factor.T @ factor / 60).astype(np.float32), rng.standard_normal(20)
    slope, lasso, ridge = rng.standard_normal(20), np.full(20, 0.3), np.full(20, 0.05)
    lasso[-1] = ridge[-1] = 0.0
    weights = start.copy()
    loops.descend(gram, slope.copy(), weights, lasso, ridge, 500, 1e-16)
    gradient = slope + gram.astype(np.float64) @ (weights - start) + 2 * ridge * weights
    moving = weights != 0
    assert 0 < (~moving).sum() < 19
    np.testing.assert_allclose(gradient[moving], -(lasso * np.sign(weights))[moving], atol=1e-6)
    assert (np.abs(gradient[~moving]) <= lasso[~moving] + 1e-6).all()


def test_code_is_compiled_where_nothing_can_be_kept(monkeypatch):
    """numba refuses to keep code where neither the package's folder nor a cache of the user's can be written to."""
    from vestige.probes import compiled as loops

    njit, asked = loops.njit, []

    def without_folder(cache: bool = False, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(loops, "njit", without_folder)
    double = loops._kept(lambda x: 2 * x)
    assert double(3) == 6 and asked == [True, False]
