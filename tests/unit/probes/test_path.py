"""The path of penalties: an interrupted one goes on where it was, to the same bit."""

import numpy as np
import pytest
import torch

from vestige.neurons.matrix import Neurons
from vestige.probes.elastic_net import path as module
from vestige.probes.elastic_net.path import solve_path

L1, L2 = [1e-2, 1e-3, 1e-4, 0.0], [1e-2, 0.0]


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12)).astype(np.float32)
    labels = (x[:, :3] + 0.5 * rng.normal(size=(300, 3))).argmax(1)
    return Neurons((x[:, :8], x[:, 8:])), torch.from_numpy(labels)


def same(one, two):
    assert len(one.solutions) == len(two.solutions)
    for left, right in zip(one.solutions, two.solutions, strict=True):
        assert left.trained_for == right.trained_for
        assert left.loss == right.loss
        assert torch.equal(left.weights, right.weights)
        assert torch.equal(left.biases, right.biases)


class Killed(Exception):
    pass


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_interrupted_path_resumes_to_the_same_bit(problem, tmp_path, after):
    whole = solve_path(*problem, 3, L1, L2)
    done = []

    def tick(l1):
        done.append(l1)
        if len(done) == after:
            raise Killed

    with pytest.raises(Killed):
        solve_path(*problem, 3, L1, L2, tick=tick, unfinished=tmp_path)
    assert len(list(tmp_path.glob("stage-*.pt"))) == after
    same(whole, solve_path(*problem, 3, L1, L2, unfinished=tmp_path))


def test_what_was_kept_is_not_trained_again(problem, tmp_path, monkeypatch):
    whole = solve_path(*problem, 3, L1, L2, unfinished=tmp_path)
    monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("trained again"))
    same(whole, solve_path(*problem, 3, L1, L2, unfinished=tmp_path))


def test_stages_visit_the_rows_in_orders_of_their_own(problem):
    visit = module.Visit(problem[0], 64, 0)
    first, second, again = (next(visit.batches(stage))[1] for stage in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
