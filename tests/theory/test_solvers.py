"""What holds for softmax regression with an elastic net, whatever the data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vestige.probes.linear.softmax import Penalty, Truth, duality_gap, evaluate
from vestige.probes.linear.solver import log_frequencies, solve
from vestige.probes.problem import Features, Fit, standard, unit_scale

seeds = st.integers(0, 10_000)


def problem(
    seed: int, rows: int = 200, width: int = 6, classes: int = 3, noise: float = 1.0
) -> tuple[np.ndarray, torch.Tensor]:
    """Rows and labels (1, rows); every class occurs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)).astype(np.float32)
    logits = x @ rng.normal(size=(width, classes)) + noise * rng.gumbel(size=(rows, classes))
    y = logits.argmax(1)
    y[:classes] = np.arange(classes)
    return x, torch.from_numpy(y)[None]


def fit(x: np.ndarray, y: torch.Tensor, l1: float = 0.0, l2: float = 0.0, **options) -> Fit:
    return solve(Features(x), y, int(y.max()) + 1, [l1], [l2], **options)


def inner(found: Fit) -> torch.Tensor:
    """The weights without the biases, (width, classes)."""
    return found.weights[0, :-1]


def radius(found: Fit, l2: float) -> float:
    """How far, by strong convexity, the weights can be from the optimum: l2 |W - W*|^2 <= gap."""
    return float((found.gap / l2).sqrt())


def entropy(y: torch.Tensor) -> float:
    shares = torch.bincount(y[0]).double() / y.shape[1]
    return float(-(shares * shares.clamp(min=1e-300).log()).sum())


def smallest_l1_without_weights(x: np.ndarray, y: torch.Tensor) -> float:
    """Above this l1 the optimum is W = 0: the largest slope at the biases that predict the shares."""
    one_hot = np.eye(int(y.max()) + 1)[y[0].numpy()]
    return float(np.abs(x.T.astype(np.float64) @ (one_hot.mean(0) - one_hot)).max() / len(x))


class TestLasso:
    @settings(max_examples=15)
    @given(seeds, st.floats(1.02, 50))
    def test_a_large_l1_gives_no_weight_at_all_and_the_majority(self, seed, factor):
        x, y = problem(seed)
        found = fit(x, y, l1=factor * smallest_l1_without_weights(x, y), l2=1e-3)
        assert (inner(found) == 0).all()
        assert int(found.weights[0, -1].argmax()) == int(torch.bincount(y[0]).argmax())
        assert (found.logits(torch.from_numpy(x))[0].argmax(-1) == torch.bincount(y[0]).argmax()).all()
        assert found.objective.item() == pytest.approx(entropy(y), abs=1e-4)

    @settings(max_examples=10)
    @given(seeds)
    def test_just_below_that_l1_there_are_weights(self, seed):
        x, y = problem(seed)
        found = fit(x, y, l1=0.8 * smallest_l1_without_weights(x, y), l2=1e-3, tolerance=1e-5)
        assert (inner(found) != 0).any()
        assert (inner(found) == 0).any()

    def test_the_sum_of_weights_never_grows_with_l1(self):
        """Between exact optima by theorem; between solutions with gaps g up to (g1 + g2) / (difference of l1)."""
        x, y = problem(4, rows=400, width=10, classes=4)
        grid = [0.0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
        together = solve(Features(x), y.expand(len(grid), -1), 4, grid, [1e-3] * len(grid), tolerance=1e-5)
        sizes = together.weights[:, :-1].abs().double().sum((1, 2))
        for k in range(len(grid) - 1):
            slack = float(together.gap[k] + together.gap[k + 1]) / (grid[k + 1] - grid[k])
            assert sizes[k + 1] <= sizes[k] + slack
        assert sizes[0] > 2 * sizes[-1]

    def test_informative_neurons_have_the_largest_weights_and_most_others_none(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(800, 40)).astype(np.float32)
        informative = [3, 17, 31]
        y = torch.from_numpy((2 * x[:, informative] + 0.3 * rng.gumbel(size=(800, 3))).argmax(1))[None]
        weights = inner(fit(x, y, l1=3e-2, l2=1e-4))
        largest = weights.abs().amax(1)
        assert sorted(largest.topk(3).indices.tolist()) == informative
        others = np.setdiff1d(np.arange(40), informative)
        assert (largest[others] == 0).float().mean() > 0.8


class TestRidge:
    @settings(max_examples=10)
    @given(seeds)
    def test_a_duplicated_neuron_shares_its_weight(self, seed):
        x, y = problem(seed)
        doubled = np.concatenate([x, x[:, :1]], axis=1)
        weights = inner(fit(doubled, y, l2=1e-2))
        torch.testing.assert_close(weights[0], weights[-1], rtol=0, atol=1e-4)
        assert weights[0].abs().max() > 1e-3

    @settings(max_examples=10)
    @given(seeds)
    def test_the_weights_of_a_neuron_sum_to_zero_over_classes(self, seed):
        """Adding a constant to all classes changes no prediction and costs penalty."""
        x, y = problem(seed)
        found = fit(x, y, l2=1e-2, tolerance=1e-5)
        assert inner(found).sum(1).norm() <= 3**0.5 * radius(found, 1e-2)

    @settings(max_examples=10)
    @given(seeds)
    def test_permuted_neurons_have_permuted_weights(self, seed):
        x, y = problem(seed)
        order = np.random.default_rng(seed).permutation(x.shape[1])
        straight, permuted = (fit(np.ascontiguousarray(rows), y, l2=1e-2, tolerance=1e-5) for rows in (x, x[:, order]))
        distance = (inner(permuted) - inner(straight)[order]).norm()
        assert distance <= radius(straight, 1e-2) + radius(permuted, 1e-2)
        assert distance < 0.05 * inner(straight).norm()

    @settings(max_examples=10)
    @given(seeds, st.floats(1e-3, 1e3))
    def test_a_layer_blown_up_or_shrunk_tells_the_same(self, seed, factor):
        x, y = problem(seed)
        objectives = []
        for rows in (x, (factor * x).astype(np.float32)):
            objectives.append(solve(standard(rows, "layer"), y, 3, [0.0], [1e-2]).objective.item())
        assert objectives[0] == pytest.approx(objectives[1], abs=1e-5)

    @settings(max_examples=10)
    @given(seeds, st.floats(-100, 100))
    def test_a_layer_moved_as_a_whole_tells_the_same(self, seed, far):
        x, y = problem(seed)
        shift = far * np.random.default_rng(seed).normal(size=x.shape[1])
        objectives = [
            solve(standard(rows, "layer"), y, 3, [0.0], [1e-2]).objective.item()
            for rows in (x, (x + shift).astype(np.float32))
        ]
        assert objectives[0] == pytest.approx(objectives[1], abs=1e-4)


class TestCertificate:
    @settings(max_examples=25)
    @given(
        seeds,
        st.sampled_from([(0.0, 1e-1), (0.0, 1e-3), (1e-2, 1e-2), (1e-3, 1e-4), (1e-2, 0.0), (5e-2, 0.0)]),
        st.sampled_from([0.0, 1.0, 3.0]),
    )
    def test_the_gap_is_never_below_the_distance_to_the_best_known_point(self, seed, penalties, shift):
        """On rows of unit size, some of them far from the origin, as an analysis gives them to a solver."""
        l1, l2 = penalties
        x, y = problem(seed, rows=80, width=4)
        x[:, :2] += np.float32(shift)
        x *= np.float32(unit_scale(Features(x), "layer"))
        penalty = Penalty(torch.full((1, 1, 1), l1), torch.full((1, 1, 1), l2))
        along = [fit(x, y, l1, l2, tolerance=0.0, max_passes=k) for k in (1, 2, 3, 5, 8, 13, 60)]
        true = []
        for found in along:
            at = evaluate(Features(x), y, found.weights)
            true.append(float(at.loss + penalty.value(found.weights[:, :-1])))
            assert float(
                duality_gap(at, found.weights, penalty, Truth.of(Features(x), y, int(y.max()) + 1))
            ) == pytest.approx(found.gap.item(), rel=1e-4, abs=1e-6)
        best = min(true)
        for value, found in zip(true, along, strict=True):
            assert value - best <= found.gap.item() + 1e-6

    @settings(max_examples=15)
    @given(seeds, st.sampled_from([(0.0, 1e-1), (0.0, 1e-3), (0.0, 1e-5), (1e-2, 1e-2), (1e-2, 1e-3)]))
    def test_the_gap_goes_to_zero_and_training_stops_there(self, seed, penalties):
        x, y = problem(seed)
        start, stopped = fit(x, y, *penalties, max_passes=1), fit(x, y, *penalties)
        assert stopped.gap.item() <= 1e-4 < start.gap.item()
        assert stopped.passes < 500
        again = fit(x, y, *penalties, start=stopped.weights)
        assert again.passes == 1, "a point that is good enough is not left"

    def test_a_stricter_tolerance_costs_passes_and_gives_a_smaller_gap(self):
        x, y = problem(0)
        loose, strict = (fit(x, y, l2=1e-3, tolerance=tolerance) for tolerance in (1e-1, 1e-4))
        assert strict.gap < loose.gap
        assert strict.objective < loose.objective
        assert strict.passes > loose.passes

    def test_without_penalty_the_slope_decides_and_the_gap_is_infinite(self):
        x, y = problem(0, noise=3.0)
        found = fit(x, y)
        at = evaluate(Features(x), y, found.weights)
        assert torch.isinf(found.gap).all()
        assert at.gradient.abs().max() <= 1e-4


class TestAnyData:
    @settings(max_examples=15)
    @given(seeds, st.sampled_from([0.0, 1e-2]), st.sampled_from([1e-4, 1e-1]))
    def test_labels_are_never_coded_worse_than_by_their_shares(self, seed, l1, l2):
        """W = 0 with the right biases is always allowed, and costs the entropy of the labels."""
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(150, 5)).astype(np.float32)
        y = torch.from_numpy(rng.integers(0, 3, size=150))[None]
        y[0, :3] = torch.arange(3)
        found = fit(x, y, l1, l2)
        assert found.objective.item() <= entropy(y) + 1e-4

    def test_random_labels_are_not_predicted_on_new_rows(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2000, 5)).astype(np.float32)
        y = torch.from_numpy(rng.integers(0, 4, size=2000))
        found = fit(x[:1000], y[None, :1000], l2=1e-2)
        right = (found.logits(torch.from_numpy(x[1000:]))[0].argmax(-1) == y[1000:]).double().mean().item()
        assert right == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 1000) ** 0.5)

    def test_a_class_that_never_occurs_is_never_predicted(self):
        x, y = problem(0)
        found = solve(Features(x), y, 5, [0.0], [1e-3])
        assert torch.isfinite(found.weights).all()
        assert found.logits(torch.from_numpy(x))[0].log_softmax(-1)[:, 3:].exp().max() < 1e-2

    def test_separable_labels_are_learnt(self):
        x = np.eye(3, dtype=np.float32).repeat(5, axis=0)
        y = torch.arange(3).repeat_interleave(5)[None]
        found = fit(x, y, l2=1e-5)
        assert (found.logits(torch.from_numpy(x))[0].argmax(-1) == y[0]).all()
        assert found.objective.item() < 0.01

    def test_the_start_predicts_the_shares_of_the_labels(self):
        y = torch.tensor([[0] * 60 + [1] * 30 + [2] * 10])
        start = log_frequencies(y, 4, 3)
        assert not start[:, :-1].any()
        torch.testing.assert_close(start[0, -1].softmax(-1), torch.tensor([0.6, 0.3, 0.1]), rtol=0.05, atol=0)
