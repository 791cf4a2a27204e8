"""Erasure against the authors' package, and erased forward passes against blocks run by hand."""

import numpy as np
import pytest
import tiny_lm
import torch

from vestige.measures.erasure import leace
from vestige.models.surgery.erasing import erasing


@pytest.mark.parametrize("classes", [2, 5])
def test_leace_against_the_authors_own(classes):
    theirs = pytest.importorskip("concept_erasure", reason="pip install --no-deps concept-erasure")
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, 500)
    states = (rng.normal(size=(500, 16)) + rng.normal(size=(classes, 16))[labels]) @ rng.normal(size=(16, 16)) + 3
    hot = torch.eye(classes, dtype=torch.float64)[torch.from_numpy(labels)]
    exact = {"shrinkage": False, "svd_tol": 1e-9, "constrain_cov_trace": False}
    expected = theirs.LeaceEraser.fit(torch.from_numpy(states), hot, **exact)
    mine = leace(states, labels, classes)
    assert torch.allclose(torch.eye(16, dtype=torch.float64) - mine.left @ mine.right, expected.P, atol=1e-9)
    assert torch.allclose(mine(torch.from_numpy(states)), expected(torch.from_numpy(states)), atol=1e-9)


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_an_erased_pass_is_the_blocks_run_by_hand(layer):
    model = tiny_lm.encoder("bert")
    encoded = model.encode(tiny_lm.SENTENCES[:1])[0]
    rng = np.random.default_rng(layer)
    eraser = leace(rng.normal(size=(200, 32)), rng.integers(0, 4, 200), 4)
    with torch.inference_mode():
        state = eraser(model.hidden_states([encoded])[layer])
        for block in model.model.encoder.layer[layer:]:
            state = block(state)
            state = state if isinstance(state, torch.Tensor) else state[0]
        expected = model.head.cls(state)
        with erasing(model, layer, eraser):
            found = model.logits([encoded])
    assert eraser.rank == 3
    assert torch.allclose(found, expected, atol=1e-4)
    assert not torch.allclose(found, model.logits([encoded]), atol=1e-2)
