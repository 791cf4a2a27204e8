"""What must hold of codes of labelled spans."""

from dataclasses import replace
from itertools import product
from math import log

import numpy as np
import pytest

from vestige.probes.codes.edges import RECIPE, EdgeCoder, Labels
from vestige.probes.codes.online import online_code
from vestige.probes.codes.variational import VariationalRecipe
from vestige.probes.codes.variational_edges import train_variational_edges
from vestige.probes.edges.model import Edges, Source
from vestige.probes.problem import Features

FRACTIONS = (0.05, 0.2, 1.0)
BOTH = (Source((0,)), Source((1,)))
QUICK = replace(RECIPE, projected=16, hidden=16, rate=5e-3, dev_sentences=40)
SENTENCES, TARGETS, WORDS = 200, 4, 12
"""Targets of a sentence, each of up to three words of its own."""


def made(label_of, roles=1, seed=0):
    """Layer 0: noise. Layer 1: noise, but a span's first word shows its sign in two of eight units.

    `label_of(signs (targets, roles), rng)` gives labels (targets, labels).
    """
    rng = np.random.default_rng([seed, roles])
    count = SENTENCES * TARGETS
    layers = [rng.normal(size=(SENTENCES * WORDS * roles, 8)).astype(np.float32) for _ in range(2)]
    starts = np.arange(count * roles).reshape(count, roles) * 3
    signs = rng.choice([-1, 1], size=(count, roles))
    layers[1][starts, 0], layers[1][starts, 1] = 3.0, 3 * signs
    spans = np.stack([starts, starts + rng.integers(1, 4, size=starts.shape)], axis=-1)
    labels = np.asarray(label_of(signs, rng), dtype=np.uint8)
    return Edges([Features(layer) for layer in layers], spans, labels, np.arange(0, count + 1, TARGETS))


def code(data, sources=BOTH, fractions=FRACTIONS, **settings):
    """Of layers; the last fifth of the sentences is dev."""
    cut = data.firsts[SENTENCES * 4 // 5]
    sent, dev, labels = data.part(0, cut), data.part(cut, len(data.labels)), Labels.of(data)
    coder = EdgeCoder(sent, dev, labels, sources, recipe=QUICK, **settings)
    return online_code(coder, labels.blocks(sent, fractions), labels.uniform, probes=len(sources))


def classes(count):
    return lambda signs, rng: np.eye(count)[rng.integers(0, count, size=len(signs))]


def sign(signs, rng):
    """Two classes: the sign of the only span, or whether those of two are the same."""
    return np.eye(2)[(signs.prod(1) > 0).astype(int)]


def test_labels_that_have_nothing_to_do_with_the_spans_cost_the_uniform_code():
    found = code(made(classes(4)))
    assert found.uniform_bits == 640 * 2
    assert (found.bits() > 0.98 * 1280).all() and (found.bits() < 1.06 * 1280).all()


@pytest.mark.parametrize("settings", [{"inner_holdout": True}, {"mix": False}], ids=["inner", "unmixed"])
def test_a_planted_property_is_cheap_where_it_is_and_only_there(settings):
    noise, layer, mix = code(made(sign), (*BOTH, Source((0, 1), mixed=True)), **settings).compression()
    assert layer > 5 and mix > 2 and noise < 1.03


def test_a_planted_relation_is_learnt_from_both_spans():
    noise, layer = code(made(sign, roles=2)).compression()
    assert layer > 3 and noise < 1.03


def test_fair_coins_cost_a_bit_each_and_planted_ones_less():
    found = code(made(lambda signs, rng: rng.integers(0, 2, size=(len(signs), 5))))
    assert found.uniform_bits == 640 * 5
    assert (found.bits() > 0.98 * 3200).all() and (found.bits() < 1.05 * 3200).all()
    planted = made(lambda signs, rng: np.concatenate([signs > 0, signs < 0, rng.integers(0, 2, (len(signs), 1))], 1))
    noise, layer = code(planted).bits()
    assert noise > 0.98 * 1920 and 0.98 * 640 < layer < 1.5 * 640, "one of three is a coin"


def test_blocks_add_up_to_the_code_and_end_with_sentences():
    data = made(classes(3))
    found = code(data)
    np.testing.assert_allclose(found.block_bits().sum(1), found.bits())
    assert found.blocks.ends == (32, 128, 640)
    np.testing.assert_allclose(found.block_bits()[:, 0], 32 * np.log2(3))
    np.testing.assert_allclose(code(data, fractions=(1.0,)).bits(), 640 * np.log2(3))


@pytest.mark.parametrize("known", [None, 40])
def test_prices_are_those_of_a_code_that_can_be_decoded(known):
    """Over all that could be sent of a target, 2 ** -bits add up to 1."""
    single, sets = made(classes(3)), made(lambda signs, rng: rng.integers(0, 2, size=(len(signs), 3)))
    for data, possible in ((single, np.eye(3)), (sets, list(product((0, 1), repeat=3)))):
        coder = EdgeCoder(data, data, Labels.of(data), BOTH, recipe=QUICK)
        coder.train_on(40)
        target = data.part(100, 101)
        prices = [
            coder.nats(Edges(data.layers, target.spans, np.array([labels], np.uint8), target.firsts), known)
            for labels in possible
        ]
        np.testing.assert_allclose(np.exp(-np.array(prices)).sum(0), 1, rtol=1e-6)


def test_a_layer_costs_the_same_whatever_is_read_beside_it():
    data = made(sign)
    together, alone = (code(data, sources, fractions=(0.1, 1.0)).bits() for sources in (BOTH, BOTH[1:]))
    np.testing.assert_allclose(alone, together[1:], rtol=1e-6)


VARIATIONAL = VariationalRecipe(hidden=(8,), rate=0.03, variance_rate=0.03, epochs=60, least_steps=0)


def variational(data, sources=BOTH):
    """Bits of the probe and of the labels, by source."""
    found = train_variational_edges(data, sources, Labels.of(data), VARIATIONAL)
    return np.array([[code.kl, code.data] for code in found]) / log(2)


def test_a_variational_code_of_random_labels_is_the_uniform_code_and_its_probe_is_given_up():
    found = variational(made(classes(4)))
    assert (found[:, 0] > 0).all() and (found[:, 0] < 40).all()
    assert (found.sum(1) > 0.98 * 1600).all() and (found.sum(1) < 1.03 * 1600).all()


@pytest.mark.parametrize("roles", [1, 2])
def test_a_variational_code_pays_for_the_probe_of_a_planted_property(roles):
    noise, layer, mix = variational(made(sign, roles), (*BOTH, Source((0, 1), mixed=True)))
    assert noise.sum() > 0.98 * 800
    for found in (layer, mix):
        assert found.sum() < 0.4 * 800 and found[1] < 0.05 * 800 < found[0], "labels are free once the probe is paid"


def test_a_variational_code_is_the_same_whatever_is_read_beside_it():
    data = made(sign)
    np.testing.assert_allclose(variational(data, BOTH[1:]), variational(data)[1:], rtol=1e-5)


def test_copies_of_a_word_cost_what_the_word_does():
    """A probe reads a span with one set of weights: what it says must not be averaged over draws of them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 240)
    gold = np.eye(3, dtype=np.uint8)[labels]
    words = (rng.normal(size=(240, 6)) + 2 * np.eye(6)[labels]).astype(np.float32)

    def spans(copies):
        starts = np.arange(0, 240 * copies, copies)
        layers = [Features(np.repeat(words, copies, axis=0))]
        return Edges(layers, np.stack([starts, starts + copies], 1)[:, None], gold, np.arange(0, 241, 4))

    np.testing.assert_allclose(variational(spans(8), BOTH[:1]), variational(spans(1), BOTH[:1]), rtol=1e-4)


def test_a_code_that_was_trained_too_briefly_says_so():
    data = made(classes(4))
    recipe = replace(VARIATIONAL, rate=1e-3, variance_rate=1e-3, epochs=10)
    [brief], [whole] = (train_variational_edges(data, BOTH[:1], Labels.of(data), one) for one in (recipe, VARIATIONAL))
    assert brief.falling > 0.01 > abs(whole.falling)
    assert brief.kl > 5 * whole.kl
    assert VariationalRecipe().epochs_of(7) == 1429 and VariationalRecipe().epochs_of(100) == 200
