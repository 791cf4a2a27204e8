"""What LEACE promises: nothing linear is left, the least is changed, and once is enough."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from vestige.errors import AnalysisError
from vestige.measures.erasure import leace, random_eraser

SHAPES = [(400, 12, 2, 0), (600, 20, 5, 1), (500, 8, 9, 2), (30, 40, 3, 3)]
"""Rows, width, classes, seed; more classes than the width can hold, and fewer rows than the width."""


def made(rows: int, width: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Skewed states, far from the origin, that tell classes of unequal frequency."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.geometric(0.4, rows) - 1, classes - 1)
    labels[:classes] = range(classes)
    centres = 2 * rng.normal(size=(classes, width))
    states = (rng.normal(size=(rows, width)) + centres[labels]) @ rng.normal(size=(width, width)) + 5
    return states.astype(np.float32), labels


def crossed(states: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Covariance of states and labels."""
    hot = np.eye(labels.max() + 1)[labels]
    return (states.astype(float) - states.mean(0, dtype=float)).T @ (hot - hot.mean(0)) / len(states)


def matrix(eraser) -> np.ndarray:
    return np.eye(len(eraser.mean)) - (eraser.left @ eraser.right).numpy()


def moved(change: np.ndarray, states: np.ndarray) -> float:
    """Mean squared change by an affine map that keeps the mean."""
    centred = states.astype(float) - states.mean(0, dtype=float)
    return float(np.square(centred @ (change - np.eye(len(change))).T).sum(1).mean())


@pytest.mark.parametrize("shape", SHAPES)
def test_no_linear_probe_beats_the_majority(shape):
    states, labels = made(*shape)
    eraser = leace(states, labels, shape[2])
    erased = eraser.rows(states)
    scale = np.abs(crossed(states, labels)).max()
    assert np.abs(crossed(erased, labels)).max() < 1e-6 * scale
    majority = np.bincount(labels).max() / len(labels)

    def probe(rows):
        rows = (rows - rows.mean(0)) / states.std()
        return LogisticRegression(C=1.0, max_iter=3000).fit(rows, labels).score(rows, labels)

    assert probe(states) > majority + 0.2
    assert probe(erased) == majority
    assert eraser.rank == min(shape[2] - 1, shape[1])
    if eraser.rank < shape[1] / 2:
        assert probe(random_eraser(eraser, 0).rows(states)) > majority + 0.1


@pytest.mark.parametrize("shape", SHAPES)
def test_erasing_again_changes_nothing_and_the_mean_stays(shape):
    states, labels = made(*shape)
    eraser = leace(states, labels, shape[2])
    erased = eraser.rows(states)
    size = float(np.abs(states).max())
    assert np.abs(eraser.rows(erased) - erased).max() < 1e-5 * size
    assert np.abs(erased.mean(0, dtype=float) - states.mean(0, dtype=float)).max() < 1e-5 * size
    assert np.allclose(matrix(eraser) @ matrix(eraser), matrix(eraser), atol=1e-7)
    again = leace(erased, labels, shape[2])
    assert again.rank == 0 or again.change(erased) < 1e-9


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_no_other_affine_map_that_erases_changes_less(shape):
    states, labels = made(*shape)
    eraser = leace(states, labels, shape[2])
    least = moved(matrix(eraser), states)
    assert eraser.change(states) == pytest.approx(least / np.square(states - states.mean(0)).sum(1).mean(), rel=1e-4)
    known = crossed(states, labels)
    orthogonal = np.eye(shape[1]) - known @ np.linalg.pinv(known, rcond=1e-8)
    assert moved(orthogonal, states) > 1.01 * least
    rng = np.random.default_rng(9)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            other = matrix(eraser) + size * rng.normal(size=(shape[1], shape[1])) @ orthogonal
            assert np.abs(other @ known).max() < 1e-5 * np.abs(known).max()
            assert moved(other, states) > least


def test_where_there_is_nothing_to_erase_nothing_changes():
    states, _ = made(200, 6, 2, 0)
    alone = leace(states, np.zeros(200, dtype=int), 1)
    assert alone.rank == 0 and np.array_equal(alone.rows(states), states) and alone.change(states) == 0
    balanced = np.repeat(states[:100], 2, axis=0)
    independent = leace(balanced, np.tile([0, 1], 100), 2)
    assert independent.rank == 0 and np.array_equal(independent.rows(balanced), balanced)
    assert np.array_equal(random_eraser(alone, 3).rows(states), states)


def test_random_directions_are_as_many_orthogonal_and_drawn_by_the_seed():
    states, labels = made(300, 10, 4, 0)
    eraser = leace(states, labels, 4)
    one, again, other = (random_eraser(eraser, seed) for seed in (1, 1, 2))
    assert torch.equal(one.left, again.left) and not torch.allclose(one.left, other.left)
    assert torch.allclose(one.left.T @ one.left, torch.eye(3, dtype=torch.float64), atol=1e-12)
    assert np.linalg.matrix_rank(matrix(one)) == 10 - eraser.rank
    round_ = np.random.default_rng(0).normal(size=(2000, 10)) + eraser.mean.numpy()
    assert one.change(round_) == pytest.approx(0.3, rel=0.1)


def test_labels_and_rows_must_match():
    with pytest.raises(AnalysisError, match="3 labels for 2 rows"):
        leace(np.zeros((2, 4)), np.zeros(3, dtype=int), 2)
