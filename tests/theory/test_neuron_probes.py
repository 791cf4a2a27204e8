"""Probes over all neurons: what holds whatever the data, and what was planted and must be found."""

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import minimal_sets, train_subsets
from vestige.neurons.ranking import rank
from vestige.neurons.search import search_penalties
from vestige.solvers.path import solve_path, steps_for
from vestige.solvers.polish import polish
from vestige.solvers.proximal import Probes, train
from vestige.solvers.visit import STRETCH, Visit


def clusters(rows=1500, width=40, classes=4, seed=0, noise=1.0):
    """Classes around random centres."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, rows, p=np.arange(classes, 0, -1) / sum(range(classes + 1)))
    x = rng.standard_normal((classes, width))[labels] + noise * 2 * rng.standard_normal((rows, width))
    return x.astype(np.float32), torch.from_numpy(labels)


def two_layers(x: np.ndarray) -> Neurons:
    half = x.shape[1] // 2
    return Neurons((x[:, :half], x[:, half:]))


class TestVisit:
    @pytest.mark.parametrize("resident", [1 << 30, 0])
    def test_every_row_comes_once_before_any_comes_again(self, resident):
        x = np.arange(STRETCH * 40, dtype=np.float32).reshape(-1, 1)
        batches = iter(Visit(Neurons((x,)), 64, 0, resident))
        rows, numbers = zip(*(next(batches) for _ in range(len(x) // 64)), strict=True)
        assert sorted(np.concatenate(numbers)) == list(range(len(x)))
        np.testing.assert_array_equal(torch.cat(rows).numpy()[:, 0], np.concatenate(numbers))

    def test_a_batch_from_disk_comes_from_everywhere(self):
        x = np.zeros((STRETCH * 64, 1), dtype=np.float32)
        _, numbers = next(iter(Visit(Neurons((x,)), 256, 0, 0)))
        assert len(np.unique(numbers // STRETCH)) > 16


class TestProximal:
    def test_probes_trained_together_are_those_trained_alone(self):
        x, y = clusters()
        pairs = [(0.0, 0.0), (1e-2, 0.0), (1e-3, 1e-2)]

        def trained(chosen):
            probes = Probes.at_zero(y[None], 40, 4, [a for a, _ in chosen], [b for _, b in chosen])
            train(probes, iter(Visit(two_layers(x), 128, 3)), y[None], 60, 1e-2)
            return [probes.solution(index)[0] for index in range(len(chosen))]

        for whole, pair in zip(trained(pairs), pairs, strict=True):
            torch.testing.assert_close(whole, trained([pair])[0], rtol=1e-4, atol=1e-5)

    def test_strong_l1_leaves_nothing_and_weaker_l1_leaves_more(self):
        x, y = clusters()
        found = solve_path(two_layers(x), y, 4, [1.0, 1e-1, 1e-2, 1e-3, 0.0], [0.0])
        at = [found.at(l1, 0.0) for l1 in (1.0, 1e-1, 1e-2, 1e-3, 0.0)]
        assert not at[0].weights.any()
        norms = [solution.l1_norm for solution in at]
        assert norms == sorted(norms)
        assert (at[2].weights == 0).any() and (at[2].weights != 0).any()

    def test_every_pair_takes_the_best_solution_under_its_own_penalties(self):
        x, y = clusters()
        grid = (0.0, 1e-1, 1e-2, 1e-3, 1e-5)
        found = solve_path(two_layers(x), y, 4, grid, grid)
        for l1 in grid:
            for l2 in grid:
                best = found.at(l1, l2).objective(l1, l2, "squared")
                assert best == min(s.objective(l1, l2, "squared") for s in found.solutions)

    def test_penalties_too_weak_to_matter_are_not_trained(self):
        x, y = clusters()
        found = solve_path(two_layers(x), y, 4, (0.0, 1e-2, 1e-9), (0.0, 1e-9))
        assert [solution.trained_for for solution in found.solutions] == [(1e-2, 0.0), (1e-9, 0.0)]

    def test_the_same_seed_gives_the_same_bytes(self):
        x, y = clusters()
        one, two = (solve_path(two_layers(x), y, 4, (0.0, 1e-3), (0.0, 1e-2), seed=5) for _ in range(2))
        for a, b in zip(one.solutions, two.solutions, strict=True):
            assert torch.equal(a.weights, b.weights) and torch.equal(a.biases, b.biases)

    def test_rows_that_stay_on_disk_do_as_well(self, monkeypatch):
        x, y = clusters(rows=6000)
        here = polish(two_layers(x), y, 4, 1e-3, 1e-3, rounds=8)
        monkeypatch.setattr("vestige.solvers.visit.Visit.__init__.__defaults__", (0,))
        away = polish(two_layers(x), y, 4, 1e-3, 1e-3, rounds=8)
        assert away.objective == pytest.approx(here.objective, rel=5e-3)

    def test_the_certificate_bounds_what_is_missing(self):
        x, y = clusters()
        rough = polish(two_layers(x), y, 4, 1e-3, 1e-2, rounds=1)
        fine = polish(two_layers(x), y, 4, 1e-3, 1e-2, rounds=14, tolerance=1e-4)
        assert fine.objective <= rough.objective <= fine.objective + rough.gap
        assert fine.gap < 0.05

    def test_rows_ten_times_as_large_need_a_ridge_a_hundred_times_as_strong(self):
        x, y = clusters()
        grown = polish(two_layers(10 * x), y, 4, 0.0, 1.0, rounds=8)
        plain = polish(two_layers(x), y, 4, 0.0, 1e-2, rounds=8)
        assert grown.objective == pytest.approx(plain.objective, rel=2e-2)


class TestPlanted:
    @pytest.mark.parametrize("noise", [0.1, 0.5, 1.0])
    def test_neurons_are_ranked_in_the_order_of_their_planted_strength(self, noise):
        rng = np.random.default_rng(1)
        x = rng.standard_normal((8000, 60)).astype(np.float32)
        planted, strengths = rng.permutation(60)[:6], np.array([4.0, 3.2, 2.5, 1.9, 1.4, 1.0])
        y = torch.from_numpy((x[:, planted] @ strengths + noise * rng.standard_normal(8000) > 0).astype(np.int64))
        probe = polish(two_layers(x), y, 2, 1e-3, 1e-4, rounds=8)
        assert rank(probe.weights).order[:6].tolist() == planted.tolist()

    def test_permuted_neurons_have_a_permuted_ranking(self):
        x, y = clusters(width=30)
        order = np.random.default_rng(0).permutation(30)
        one = rank(polish(Neurons((x,)), y, 4, 1e-3, 1e-3, rounds=10).weights).order
        two = rank(polish(Neurons((x[:, order].copy(),)), y, 4, 1e-3, 1e-3, rounds=10).weights).order
        assert (order[two][:8] == one[:8]).all()

    def test_a_minimal_set_has_the_planted_neurons_and_no_more(self):
        rng = np.random.default_rng(2)
        signs = rng.integers(0, 2, (4000, 3)) * 2 - 1
        x = rng.standard_normal((4000, 20)).astype(np.float32)
        x[:, [3, 11, 17]] = signs * (2 + 0.2 * rng.random((4000, 3)))
        labels = torch.from_numpy(((signs > 0) @ [1, 2, 4]).astype(np.int64))
        train_rows, dev = two_layers(x[:3000]), two_layers(x[3000:])
        probe = polish(train_rows, labels[:3000], 8, 1e-3, 0.0, rounds=6)
        order = rank(probe.weights).order
        reached, tried = minimal_sets(
            train_rows, labels[:3000], dev, labels[3000:].numpy(), 8, order, 1.0, (0.0,), step=1, l1=1e-4
        )
        assert sorted(reached[0.0].probe.neurons) == [3, 11, 17]
        assert [step.size for step in tried if step.accuracy < 1][:2] == [1, 2]

    def test_the_loop_ends_with_all_neurons_where_nothing_is_enough(self):
        x, y = clusters(width=12)
        both = two_layers(x)
        reached, _ = minimal_sets(both, y, both, y.numpy(), 4, np.arange(12), 2.0, (0.0,), step=5)
        assert reached[0.0].size == 12


def test_nested_sets_trained_together_are_those_trained_alone():
    x, y = clusters()
    both, order = two_layers(x), np.random.default_rng(3).permutation(40)
    together = train_subsets(both, y, 4, order, [5, 12, 20], l1=1e-3)
    for size, subset in zip([5, 12, 20], together, strict=True):
        assert subset.neurons.tolist() == order[:size].tolist() and subset.weights.shape == (size, 4)
    (alone,) = train_subsets(both, y, 4, order, [20], l1=1e-3)
    torch.testing.assert_close(together[2].weights, alone.weights, rtol=1e-3, atol=1e-4)


class TestSearch:
    def test_the_best_pair_separates_top_from_bottom(self):
        rng = np.random.default_rng(0)
        x, y = clusters(rows=3000, width=20)
        noise = rng.standard_normal((3000, 80)).astype(np.float32)
        both = Neurons((np.concatenate([x, noise], axis=1),))
        train_rows, dev = (Neurons((both.layers[0][part],)) for part in (slice(0, 2000), slice(2000, None)))
        found = search_penalties(train_rows, y[:2000], dev, y[2000:].numpy(), 4)
        assert len(found.pairs) == 64
        assert len(set(found.best.ranking.order[:20]) & set(range(20))) >= 18
        for pair in found.pairs:
            free = next(p for p in found.pairs if p.l1 == p.l2 == 0.0).accuracy
            assert pair.score == pytest.approx(0.5 * (pair.top - pair.bottom) - 0.5 * (free - pair.accuracy))

    def test_only_zero_weights_are_an_error_that_says_what_to_do(self):
        x, y = clusters()
        found = search_penalties(two_layers(x), y, two_layers(x), y.numpy(), 4, l1=(10.0,), l2=(0.0,))
        assert found.pairs[0].ranking is None
        with pytest.raises(AnalysisError, match="every weight is zero"):
            _ = found.best


def test_effort_grows_with_rows_but_not_in_proportion():
    assert steps_for(1, 500) == steps_for(1, 20_000) == 78
    assert steps_for(1, 2_000_000) == 781
