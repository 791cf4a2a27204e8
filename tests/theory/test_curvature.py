"""Probes of many rows: what fewer rows show changes how fast the optimum is reached, not which one it is."""

import numpy as np
import pytest
import torch

from vestige.probes.linear import solver
from vestige.probes.linear.curvature import Curvature, curvature, draw
from vestige.probes.linear.quasi_newton import principal_axes
from vestige.probes.linear.softmax import Penalty, Truth, duality_gap, evaluate
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features


def problem(rows: int = 6000, width: int = 12, classes: int = 5) -> tuple[Features, torch.Tensor]:
    """Labels of two probes that mostly follow the rows, with rare classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, width)).astype(np.float32) * np.linspace(0.2, 3, width, dtype=np.float32)
    bias = np.array([3.0, 2.0, 0.0, -1.0, -3.0])[:classes]
    labels = [
        (x @ rng.normal(size=(width, classes)) + bias + rng.gumbel(size=(rows, classes))).argmax(1) for _ in range(2)
    ]
    return Features(x), torch.from_numpy(np.stack(labels))


@pytest.mark.parametrize("l2", [1e-2, 1e-4, 1e-5])
def test_the_optimum_is_that_of_all_rows(monkeypatch, l2):
    features, labels = problem()
    bent = []
    monkeypatch.setattr(solver, "MANY", 1000)
    monkeypatch.setattr(solver, "curvature", lambda *given: bent.append(len(given[0])) or curvature(*given))
    by_fewer = solve(features, labels, 5, [0.0, 0.0], [l2, l2], tolerance=1e-3)
    assert len(set(bent)) > 1, "no start from fewer rows"
    monkeypatch.setattr(solver, "DEAREST", 0.0)
    whole = solve(features, labels, 5, [0.0, 0.0], [l2, l2], tolerance=1e-3)
    assert (by_fewer.gap <= 1e-3).all()
    assert (whole.gap <= 1e-3).all()
    torch.testing.assert_close(by_fewer.objective, whole.objective, rtol=0, atol=1e-3)


def test_an_anisotropic_problem_takes_fewer_passes(monkeypatch):
    """Each class is in doubt in a corner of its own, as rare labels are."""
    rng = np.random.default_rng(2)
    centres, width = rng.normal(size=(12, 40)) * 3, 40
    own = rng.normal(size=(12, width)) ** 4 + 0.05
    y = rng.choice(12, 8000, p=np.arange(1, 13) / 78)
    x = (centres[y] * 0.2 + rng.normal(size=(8000, width)) * own[y]).astype(np.float32)
    given = Features(x / x.std()), torch.from_numpy(y)[None], 12, [0.0], [1e-5]
    monkeypatch.setattr(solver, "MANY", 1000)
    bent = solve(*given, tolerance=1e-3)
    monkeypatch.setattr(solver, "DEAREST", 0.0)
    averaged = solve(*given, tolerance=1e-3)
    assert max(bent.gap.item(), averaged.gap.item()) <= 1e-3
    assert bent.passes < averaged.passes


def test_the_same_call_gives_the_same_weights(monkeypatch):
    monkeypatch.setattr(solver, "MANY", 1000)
    features, labels = problem()
    one, two = (solve(features, labels, 5, [0.0, 0.0], [1e-4, 1e-3], tolerance=1e-2) for _ in range(2))
    assert torch.equal(one.weights, two.weights)


def test_a_probe_that_is_done_stays_where_it_is(monkeypatch):
    monkeypatch.setattr(solver, "MANY", 1000)
    features, labels = problem()
    done = solve(features, labels[:1], 5, [0.0], [1e-2], tolerance=1e-3)
    start = torch.cat([done.weights, torch.zeros_like(done.weights)])
    both = solve(features, labels, 5, [0.0, 0.0], [1e-2, 1e-2], tolerance=1e-3, start=start)
    assert torch.equal(both.weights[0], done.weights[0])


def test_blocks_that_are_too_many_for_memory_are_averaged(monkeypatch):
    monkeypatch.setattr(solver, "MANY", 1000)
    monkeypatch.setattr("vestige.probes.linear.curvature.MOST_BYTES", 1000)
    monkeypatch.setattr(solver, "curvature", lambda *given: pytest.fail("made all the same"))
    features, labels = problem()
    assert (solve(features, labels, 5, [0.0, 0.0], [1e-4, 1e-4], tolerance=1e-3).gap <= 1e-3).all()


class TestCurvature:
    def test_it_is_the_hessian_where_all_rows_are_predicted_alike(self, monkeypatch):
        """Then every block is v_k times the moments of all rows, and classes bend together the same in every
        direction: nothing is approximated but the shares of the averages and of C's diagonal."""
        monkeypatch.setattr("vestige.probes.linear.curvature.PER_UNIT", 500)
        rng = np.random.default_rng(0)
        rows = torch.from_numpy(rng.normal(size=(4000, 5))).float()
        weights = torch.zeros(1, 6, 3)
        weights[0, -1] = torch.tensor([0.5, 0.0, -1.0])
        l2, p = torch.tensor([0.0]), weights[0, -1].softmax(0)
        axes = principal_axes(Features(rows.numpy()))
        made = curvature(rows, weights, l2, axes.moments)
        extended = torch.cat([rows, torch.ones(4000, 1)], 1)
        moments = extended.T @ extended / 4000
        bent = torch.diag(p) - p[:, None] * p
        found = torch.stack([made.solve(unit.view(1, 6, 3)).flatten() for unit in torch.eye(18)])
        unit = bent.diagonal().rsqrt()
        joined = 0.7 * unit[:, None] * bent * unit + 0.3 * torch.eye(3)
        expected = torch.kron(1.2 * moments, joined / unit[:, None] / unit)
        torch.testing.assert_close(found @ expected, torch.eye(18), rtol=0, atol=0.15)

    def test_it_is_symmetric_and_positive(self):
        features, _ = problem(rows=500)
        weights = torch.randn(2, 13, 5, generator=torch.Generator().manual_seed(0))
        made = curvature(torch.from_numpy(features.array), weights, torch.tensor([1e-3, 1e-2]),
                         principal_axes(features).moments)  # fmt: skip
        assert isinstance(made, Curvature)
        matrix = torch.stack([made.solve(torch.stack([unit.view(13, 5)] * 2))[1].flatten() for unit in torch.eye(65)])
        torch.testing.assert_close(matrix, matrix.T, rtol=1e-3, atol=1e-3)
        assert torch.linalg.eigvalsh((matrix + matrix.T).double() / 2).min() > 0


class TestDraw:
    def test_a_drawn_mean_is_the_mean_of_all_rows(self):
        rng = np.random.default_rng(1)
        doubt, values = torch.from_numpy(rng.exponential(size=2000) ** 3).float(), rng.normal(3, 1, size=2000)
        means = []
        for seed in range(400):
            which, shares = draw(doubt, 300, np.random.default_rng(seed))
            means.append(float((shares.numpy() * values[which]).sum()))
        assert np.mean(means) == pytest.approx(values.mean(), abs=4 * np.std(means) / 20)

    def test_sizes_and_order(self):
        doubt = torch.rand(5000, generator=torch.Generator().manual_seed(0)) ** 4
        which, _ = draw(doubt, 500, np.random.default_rng(0))
        assert abs(len(which) - 500) <= 2
        assert (np.diff(which) > 0).all()

    def test_rows_in_doubt_are_drawn_for_certain(self):
        doubt = torch.zeros(1000)
        doubt[:20] = 1.0
        which, shares = draw(doubt, 200, np.random.default_rng(0))
        assert set(range(20)) <= set(which.tolist())
        torch.testing.assert_close(shares[:20], torch.full((20,), 1e-3))

    def test_rows_without_any_doubt_are_drawn_alike(self):
        which, shares = draw(torch.zeros(1000), 100, np.random.default_rng(0))
        assert abs(len(which) - 100) <= 1
        assert shares.unique().numel() == 1


def test_the_gap_is_a_bound_at_any_point_of_200_problems():
    """Against the optimum in float64; the biases of the points are anywhere."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows, width, classes = int(rng.integers(20, 60)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
        x = rng.normal(rng.normal(), 1, size=(rows, width))
        y = rng.integers(0, classes, size=rows)
        l2 = float(10 ** rng.uniform(-4, 0))
        best = _optimum(x, y, classes, l2)
        features, labels = Features(x.astype(np.float32)), torch.from_numpy(y)[None]
        penalty = Penalty(torch.zeros(1, 1, 1), torch.full((1, 1, 1), l2))
        weights = torch.from_numpy(rng.normal(0, rng.uniform(0, 2), size=(1, width + 1, classes))).float()
        at = evaluate(features, labels, weights)
        value = float(at.loss + penalty.value(weights[:, :-1]))
        gap = float(duality_gap(at, weights, penalty, Truth.of(features, labels, classes)))
        assert value - best <= gap + 1e-5, seed


def _optimum(x: np.ndarray, y: np.ndarray, classes: int, l2: float) -> float:
    """By Newton's method in float64, the last class' bias at 0."""
    rows, width = x.shape
    extended = np.hstack([x, np.ones((rows, 1))])
    ridge = np.kron(np.diag([1.0] * width + [0.0]), np.eye(classes)) * 2 * l2
    gold, flat = np.eye(classes)[y], np.zeros((width + 1) * classes)

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        logits = extended @ flat.reshape(width + 1, classes)
        log_p = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
        log_p -= logits.max(1, keepdims=True)
        return float(-(gold * log_p).sum() / rows + flat @ ridge @ flat / 2), np.exp(log_p)

    for _ in range(100):
        now, p = value(flat)
        slope = (extended.T @ (p - gold)).ravel() / rows + ridge @ flat
        bent = np.einsum("ia,ik,kl,ib->akbl", extended, p, np.eye(classes), extended) - np.einsum(
            "ia,ik,il,ib->akbl", extended, p, p, extended
        )
        hessian = bent.reshape(len(flat), len(flat)) / rows + ridge
        step = np.linalg.lstsq(hessian, -slope, rcond=1e-12)[0]
        size = 1.0
        while size > 1e-6 and value(flat + size * step)[0] > now + 1e-4 * size * slope @ step:
            size /= 2
        flat = flat + size * step
        if abs(slope @ step) < 1e-12:
            break
    return value(flat)[0]
