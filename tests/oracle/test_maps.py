"""Maps between hidden states against SciPy's Procrustes and scikit-learn's ridge regression."""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes
from sklearn.linear_model import Ridge

from vestige.errors import AnalysisError
from vestige.measures.affine import AffineFitter


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8)) @ rng.normal(size=(8, 8)) + 5
    return x, x @ rng.normal(size=(8, 8)) + rng.normal(size=(300, 8)) - 2


def test_the_rotation_is_scipys_and_the_scale_is_that_of_least_squares(rows):
    x, y = rows
    found = AffineFitter(8, 8).update_all(x, y).orthogonal()
    centred = [one - one.mean(0) for one in rows]
    rotation, size = orthogonal_procrustes(*centred)
    expected = rotation * size / np.square(centred[0]).sum()
    np.testing.assert_allclose(found.weights.numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(found.bias.numpy(), y.mean(0) - x.mean(0) @ expected, atol=1e-6)
    disparity = procrustes(y, x)[2]
    left = np.square(found(torch.from_numpy(x)).numpy() - y).sum() / np.square(centred[1]).sum()
    assert left == pytest.approx(disparity, abs=1e-7)


def test_few_rows_leave_open_directions_alone():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 12))
    same = AffineFitter(12, 12).update_all(x, x).orthogonal()
    np.testing.assert_allclose(same.weights.numpy(), np.eye(12), atol=1e-6)
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    turned = AffineFitter(12, 12).update_all(x, x @ turn).orthogonal()
    np.testing.assert_allclose(turned(torch.from_numpy(x)).numpy(), x @ turn, atol=1e-6)
    np.testing.assert_allclose((turned.weights.T @ turned.weights).numpy(), np.eye(12), atol=1e-6)


@pytest.mark.parametrize("penalty", [10.0, 0.1, 1e-6])
@pytest.mark.parametrize("width", [8, 5])
def test_the_affine_map_is_scikit_learns_ridge_regression(rows, penalty, width):
    x, y = rows[0], rows[1][:, :width]
    fitter = AffineFitter(8, width).update_all(x, y)
    strength = penalty * x.var(0).mean() * len(x)
    theirs = Ridge(alpha=strength, solver="cholesky").fit(x, y)
    (mine,) = fitter.fits([penalty])
    np.testing.assert_allclose(mine.weights.numpy(), theirs.coef_.T, atol=1e-8)
    np.testing.assert_allclose(mine.bias.numpy(), theirs.intercept_, atol=1e-7)
    np.testing.assert_allclose(fitter.fit(penalty).weights.numpy(), theirs.coef_.T, atol=1e-8)
    if width == 8:
        start = fitter.orthogonal()
        (around,) = fitter.fits([penalty], start)
        rest = Ridge(alpha=strength, solver="cholesky").fit(x, y - x @ start.weights.numpy())
        np.testing.assert_allclose(around.weights.numpy(), start.weights.numpy() + rest.coef_.T, atol=1e-8)


def test_an_array_is_mapped_block_by_block_and_other_widths_cannot_be_rotated(rows):
    x, y = (np.tile(one, (20, 1)).astype(np.float32) for one in rows)
    found = AffineFitter(8, 8).update_all(x, y).fit(0.0)
    np.testing.assert_allclose(found.of_array(x), x @ found.weights.numpy() + found.bias.numpy(), rtol=1e-5, atol=1e-4)
    assert found.of_array(x).dtype == np.float32
    with pytest.raises(AnalysisError, match="8 wide cannot be rotated"):
        AffineFitter(8, 5).update_all(x, y[:, :5]).orthogonal()
