"""What must hold of code lengths, whatever the probe."""

from math import log, log2

import numpy as np
import pytest
import torch

from vestige.probes.codes.coders import Labelled, LinearCoder, MlpCoder
from vestige.probes.codes.online import cut_blocks, online_code
from vestige.probes.linear.mlp import MlpRecipe
from vestige.probes.problem import Features, standard

FRACTIONS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)


def code(rows, labels, classes, kind="linear", fractions=FRACTIONS, held=400, **settings):
    """Online code of all but the last `held` rows, which are dev."""
    count = len(rows) - held
    rows, labels = rows.astype(np.float32), torch.as_tensor(labels).view(1, -1)
    train = Labelled(Features(rows[:count]), labels[:, :count])
    dev = Labelled(Features(rows[count:]), labels[:, count:])
    if kind == "linear":
        coder = LinearCoder(train, dev, classes, **settings)
    else:
        coder = MlpCoder([train], [dev], classes, MlpRecipe(hidden=16, max_epochs=10), **settings)
    return online_code(coder, cut_blocks([1] * count, classes, fractions), log2(classes))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_uniform_probe_compresses_nothing():
    blocks = cut_blocks([2] * 700, 8)
    found = online_code(lambda known, end: np.full((1, end - known), log(8)), blocks, log2(8))
    np.testing.assert_allclose(found.bits(), 1400 * 3.0)
    np.testing.assert_allclose(found.compression(), 1.0)


def test_one_block_is_the_uniform_code(rng):
    found = code(rng.normal(size=(900, 4)), rng.integers(0, 4, 900), 4, fractions=(1.0,))
    assert found.bits().tolist() == [500 * 2.0]


def test_blocks_and_first_block_are_all_labels():
    sizes = np.random.default_rng(1).integers(1, 30, size=777)
    blocks = cut_blocks(sizes, 5)
    assert blocks.ends[0] + np.diff(blocks.ends).sum() == sizes.sum()


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_labels_that_the_vectors_do_not_tell_cost_their_entropy(rng, kind):
    shares = np.array([0.6, 0.2, 0.1, 0.1])
    entropy = -(shares * np.log2(shares)).sum()
    labels = rng.choice(4, size=4400, p=shares)
    found = code(rng.normal(size=(4400, 8)), labels, 4, kind)
    assert found.bits()[0] >= 4000 * entropy - 3 * np.sqrt(4000)
    assert found.compression()[0] <= 2 / entropy * 1.03
    assert found.bits()[0] < 4000 * entropy * 1.1, "and little more than that"


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_separable_labels_cost_the_first_block_and_little_else(rng, kind):
    labels = rng.integers(0, 4, size=4400)
    found = code(8 * np.eye(6)[labels] + 0.1 * rng.normal(size=(4400, 6)), labels, 4, kind)
    first = found.blocks.ends[0] * 2
    assert first < found.bits()[0] < first + 0.02 * found.uniform_bits


@pytest.mark.parametrize("settings", [{}, {"inner_holdout": True}])
def test_a_code_is_no_shorter_than_the_entropy_of_planted_probabilities(rng, settings):
    rows = rng.normal(size=(6400, 5))
    log_p = torch.tensor(rows @ rng.normal(size=(5, 3))).log_softmax(-1)
    labels = np.array([rng.choice(3, p=p / p.sum()) for p in log_p.exp().numpy()])
    conditional = float(-(log_p[:6000].exp() * log_p[:6000]).sum() / log(2))
    found = code(rows, labels, 3, **settings)
    assert conditional - 3 * np.sqrt(6000) <= found.bits()[0] <= 1.12 * conditional


def test_the_axes_of_a_layer_play_no_role(rng):
    """A layer with a few huge units, as models have them, and the same turned: what is told is the same."""
    labels = rng.integers(0, 6, size=3000)
    rows = 1.2 * rng.normal(size=(6, 192))[labels] / 192**0.5 + rng.normal(size=(3000, 192)) / 4
    rows *= np.where(np.arange(192) % 64 == 0, 20.0, 1.0)
    turn = np.linalg.qr(rng.normal(size=(192, 192)))[0]
    found = []
    for mine in (rows, rows @ turn):
        features = standard(mine[:2500].astype(np.float32), "layer")
        gold = torch.tensor(labels)[None]
        train = Labelled(features, gold[:, :2500])
        coder = LinearCoder(train, Labelled(features.like(mine[2500:].astype(np.float32)), gold[:, 2500:]), 6)
        found.append(online_code(coder, cut_blocks([1] * 2500, 6, FRACTIONS), log2(6)).label_bits()[0])
    assert found[0].sum() == pytest.approx(found[1].sum(), rel=1e-5)
    np.testing.assert_allclose(found[0], found[1], atol=0.01)


def test_names_of_labels_play_no_role(rng):
    labels = rng.integers(0, 4, size=1400)
    rows = np.eye(6)[labels] + 0.5 * rng.normal(size=(1400, 6))
    one, two = (code(rows, names, 4) for names in (labels, np.array([2, 0, 3, 1])[labels]))
    np.testing.assert_allclose(one.bits(), two.bits(), rtol=1e-4)


def test_the_published_figures_are_short_by_ln_2(rng):
    labels = rng.integers(0, 4, size=1400)
    found = code(np.eye(6)[labels] + 0.5 * rng.normal(size=(1400, 6)), labels, 4)
    first = found.blocks.ends[0] * 2
    assert found.block_bits()[0, 0] == found.block_bits("voita2020")[0, 0] == first
    np.testing.assert_allclose(found.bits("voita2020") - first, (found.bits() - first) * log(2))
    assert found.compression("voita2020") > found.compression()


def test_many_labellings_together_cost_what_each_costs_alone(rng):
    labels = rng.integers(0, 3, size=(2, 1400))
    rows = np.eye(6)[labels[0]] + 0.5 * rng.normal(size=(1400, 6))
    count = 1000
    features = Features(rows[:count].astype(np.float32)), Features(rows[count:].astype(np.float32))
    gold = torch.tensor(labels)
    blocks = cut_blocks([1] * count, 3, FRACTIONS)
    found = []
    for which in ([0, 1], [0], [1]):
        train, dev = Labelled(features[0], gold[which, :count]), Labelled(features[1], gold[which, count:])
        found.append(online_code(LinearCoder(train, dev, 3), blocks, log2(3), len(which)).bits())
    np.testing.assert_allclose(found[0], np.concatenate(found[1:]), rtol=1e-2)
