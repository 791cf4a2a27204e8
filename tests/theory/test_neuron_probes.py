"""Probes over all neurons: what holds whatever the data, and what was planted and must be found."""

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.neurons.matrix import Neurons
from vestige.neurons.minimal import minimal_sets, train_subsets
from vestige.neurons.ranking import rank
from vestige.neurons.search import search_penalties
from vestige.probes.elastic_net.path import solve_path, steps_for
from vestige.probes.elastic_net.polish import polish
from vestige.probes.elastic_net.proximal import Probes, train
from vestige.probes.visit import STRETCH, Visit


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

    def test_rows_ten_times_as_large_need_a_ridge_a_hundred_times_as_strong(self):
        x, y = clusters()
        grown = polish(two_layers(10 * x), y, 4, 0.0, 1.0, rounds=3)
        plain = polish(two_layers(x), y, 4, 0.0, 1e-2, rounds=3)
        assert grown.objective == pytest.approx(plain.objective, rel=1e-3)


class TestElasticNet:
    def test_under_l2_a_neuron_and_its_copy_share_the_weight(self):
        x, y = clusters(width=10)
        doubled = Neurons((np.concatenate([x, x[:, :1]], axis=1),))
        found = polish(doubled, y, 4, 0.0, 1e-2, rounds=5).weights
        torch.testing.assert_close(found[0], found[10], rtol=1e-4, atol=1e-5)
        alone = polish(Neurons((x,)), y, 4, 0.0, 1e-2, rounds=5).weights[0]
        assert (found[0].abs() < alone.abs())[alone.abs() > 0.05].all()

    def test_strong_l1_leaves_the_majority(self):
        x, y = clusters()
        probe = polish(two_layers(x), y, 4, 1.0, 0.0, rounds=2)
        assert probe.zeros == 1.0
        predicted = (torch.from_numpy(x) @ probe.weights + probe.biases).argmax(1)
        assert set(predicted.tolist()) == {int(torch.bincount(y).argmax())}

    def test_the_labels_of_another_control_task_are_as_easy(self):
        """Random labels of word types: a probe is as right on one draw as on the other, selectivity is about zero."""
        rng = np.random.default_rng(0)
        types = rng.integers(0, 30, 1500)
        vectors = rng.standard_normal((30, 40)).astype(np.float32)
        x = vectors[types] + 0.3 * rng.standard_normal((1500, 40)).astype(np.float32)
        right = []
        for seed in (1, 2):
            y = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, 30)[types])
            (probe,) = train_subsets(two_layers(x[:1000]), y[:1000], 4, np.arange(40), [40])
            right.append(probe.accuracy(two_layers(x[1000:]), y[1000:].numpy()))
        assert min(right) > 0.9 and abs(right[0] - right[1]) < 0.05


class TestFromDisk:
    """Layers that are memory-mapped and larger than what may be held in memory."""

    @pytest.fixture(scope="class")
    def made(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("layers")
        x, y = clusters(rows=6000)
        for number, half in enumerate(np.split(x, 2, axis=1)):
            np.save(folder / f"{number}.npy", half)
        return two_layers(x), Neurons(tuple(np.load(folder / f"{n}.npy", mmap_mode="r") for n in range(2))), y

    @pytest.fixture
    def small_budget(self, monkeypatch):
        monkeypatch.setattr("vestige.probes.visit.RESIDENT_BYTES", 100_000)

    def objective(self, source, y, weights, biases, l1=1e-3, l2=1e-3) -> float:
        logits = source.rows(slice(None)) @ weights + biases
        loss = torch.nn.functional.cross_entropy(logits, y)
        return float(loss + l1 * weights.abs().sum() + l2 * weights.square().sum())

    def test_a_path_is_as_good_and_a_matter_of_the_seed(self, made, small_budget, monkeypatch):
        here, away, y = made
        reads = []
        rows = Neurons.rows
        monkeypatch.setattr(Neurons, "rows", lambda self, which: reads.append(which) or rows(self, which))
        one, again, other = (solve_path(away, y, 4, (1e-2, 1e-3), (1e-3,), seed=s).at(1e-3, 1e-3) for s in (1, 1, 2))
        sizes = {which.stop - which.start for which in reads if isinstance(which, slice)}
        assert max(sizes) <= STRETCH, "training reads a stretch at a time"
        assert torch.equal(one.weights, again.weights) and not torch.equal(one.weights, other.weights)
        monkeypatch.undo()
        memory = solve_path(here, y, 4, (1e-2, 1e-3), (1e-3,), seed=1).at(1e-3, 1e-3)
        found, expected = (self.objective(here, y, s.weights, s.biases) for s in (one, memory))
        assert found == pytest.approx(expected, rel=1e-2)
        assert not torch.equal(one.weights, memory.weights), "the budget did decide"

    def test_the_rounds_of_a_polished_probe_are_as_good_and_its_gap_is_true(self, made, small_budget, monkeypatch):
        """Cycles over the classes need all rows in memory: without them the gap is wider, and still an upper bound."""
        here, away, y = made
        found, again = (polish(away, y, 4, 1e-3, 1e-3, tolerance=1e-3) for _ in range(2))
        assert torch.equal(found.weights, again.weights)
        monkeypatch.undo()
        best = polish(here, y, 4, 1e-3, 1e-3, tolerance=1e-3)
        assert best.gap <= 1e-3 < found.gap
        assert 0 < found.objective - best.objective <= found.gap
        monkeypatch.setattr("vestige.probes.elastic_net.polish.can_finish", lambda source: False)
        rounds = polish(here, y, 4, 1e-3, 1e-3, tolerance=1e-3)
        assert found.objective == pytest.approx(rounds.objective, rel=5e-3)

    def test_subsets_are_as_good(self, made, small_budget, monkeypatch):
        here, away, y = made
        order = np.arange(40)[::-1].copy()
        found, again = (train_subsets(away, y, 4, order, [10, 30], l1=1e-3, l2=1e-3, seed=4) for _ in range(2))
        monkeypatch.undo()
        memory = train_subsets(here, y, 4, order, [10, 30], l1=1e-3, l2=1e-3, seed=4)
        for one, two, expected in zip(found, again, memory, strict=True):
            assert torch.equal(one.weights, two.weights)
            columns = Neurons((here.columns(one.neurons),))
            values = [self.objective(columns, y, probe.weights, probe.biases) for probe in (one, expected)]
            assert values[0] == pytest.approx(values[1], rel=1e-2)

    def test_stored_half_precision_is_read_as_its_float32(self):
        x, y = clusters()
        half = two_layers(x.astype(np.float16))
        same = two_layers(half.rows(slice(None)).numpy())
        order = np.arange(40)
        for solver in (
            lambda source: polish(source, y, 4, 1e-3, 1e-3, rounds=1),
            lambda source: solve_path(source, y, 4, (1e-2,), (0.0,)).solutions[0],
            lambda source: train_subsets(source, y, 4, order, [7])[0],
            lambda source: search_penalties(source, y, source, y.numpy(), 4, l1=(1e-3,), l2=(0.0,)).best.solution,
        ):
            assert torch.equal(solver(half).weights, solver(same).weights)


class TestPlanted:
    @pytest.mark.parametrize("noise", [0.1, 0.5, 1.0])
    def test_neurons_are_ranked_in_the_order_of_their_planted_strength(self, noise):
        rng = np.random.default_rng(1)
        x = rng.standard_normal((5000, 60)).astype(np.float32)
        planted, strengths = rng.permutation(60)[:6], np.array([4.0, 3.2, 2.5, 1.9, 1.4, 1.0])
        y = torch.from_numpy((x[:, planted] @ strengths + noise * rng.standard_normal(5000) > 0).astype(np.int64))
        probe = polish(two_layers(x), y, 2, 1e-3, 1e-4, rounds=4)
        assert rank(probe.weights).order[:6].tolist() == planted.tolist()

    def test_permuted_neurons_have_a_permuted_ranking(self):
        x, y = clusters(width=30)
        order = np.random.default_rng(0).permutation(30)
        one = polish(Neurons((x,)), y, 4, 1e-3, 1e-3, rounds=3)
        two = polish(Neurons((x[:, order].copy(),)), y, 4, 1e-3, 1e-3, rounds=3)
        torch.testing.assert_close(two.weights, one.weights[order], rtol=1e-3, atol=1e-4)
        assert (order[rank(two.weights).order][:8] == rank(one.weights).order[:8]).all()

    @pytest.mark.parametrize("planted", [(13, 4), (3, 11, 17), (19, 0, 7, 12)])
    def test_a_minimal_set_has_the_planted_neurons_and_no_more(self, planted):
        """Every planted neuron says one bit of the label: without it half of the rows are guessed."""
        rng = np.random.default_rng(2)
        signs = rng.integers(0, 2, (3000, len(planted))) * 2 - 1
        x = rng.standard_normal((3000, 20)).astype(np.float32)
        x[:, planted] = signs * (2 + 0.2 * rng.random(signs.shape))
        classes = 2 ** len(planted)
        labels = torch.from_numpy((signs > 0) @ (2 ** np.arange(len(planted))))
        train_rows, dev = two_layers(x[:2000]), two_layers(x[2000:])
        probe = polish(train_rows, labels[:2000], classes, 1e-3, 0.0, rounds=3)
        order = rank(probe.weights).order
        assert set(order[: len(planted)]) == set(planted)
        reached, tried = minimal_sets(
            train_rows, labels[:2000], dev, labels[2000:].numpy(), classes, order, 1.0, (0.0,), step=1, l1=1e-4
        )
        assert set(reached[0.0].probe.neurons) == set(planted)
        for step in tried[: len(planted) - 1]:
            assert step.accuracy <= 0.5 ** (len(planted) - step.size) + 0.1

    def test_the_loop_ends_with_all_neurons_where_nothing_is_enough(self):
        x, y = clusters(width=12)
        both = two_layers(x)
        reached, tried = minimal_sets(both, y, both, y.numpy(), 4, np.arange(12), 2.0, (0.0,), step=5)
        assert reached[0.0].size == 12 and [step.size for step in tried] == [5, 10, 12]

    def test_with_all_columns_a_subset_is_as_right_as_the_probe_of_all(self):
        x, y = clusters()
        both = two_layers(x)
        probe = polish(both, y, 4, 1e-3, 1e-3)
        (everything,) = train_subsets(both, y, 4, np.arange(40), [40], l1=1e-3, l2=1e-3)
        oracle = float(((torch.from_numpy(x) @ probe.weights + probe.biases).argmax(1) == y).double().mean())
        assert everything.accuracy(both, y.numpy()) == pytest.approx(oracle, abs=0.02)


def test_nested_sets_trained_together_are_those_trained_alone():
    """The best neuron comes last: a smaller set that could lean on it would be another probe."""
    x, y = clusters()
    order = np.random.default_rng(3).permutation(40)
    x[:, order[19]] = 2 * (y.numpy() - 1.5)
    both = two_layers(x)
    together = train_subsets(both, y, 4, order, [5, 12, 20], l1=1e-3)
    for size, subset in zip([5, 12, 20], together, strict=True):
        assert subset.neurons.tolist() == order[:size].tolist() and subset.weights.shape == (size, 4)
        (alone,) = train_subsets(both, y, 4, order, [size], l1=1e-3)
        exact = size == 20  # the step size is that of all columns together
        torch.testing.assert_close(
            subset.weights, alone.weights, rtol=1e-3 if exact else 0.1, atol=1e-4 if exact else 2e-2
        )


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
