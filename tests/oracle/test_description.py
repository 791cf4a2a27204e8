"""Code lengths against a toy written out by hand, scikit-learn, and integrals of densities."""

from itertools import pairwise
from math import log, log2

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.linear_model import LogisticRegression

from vestige.probes.codes.coders import Labelled, LinearCoder
from vestige.probes.codes.online import Blocks, online_code
from vestige.probes.codes.variational import VariationalRecipe, kl_gaussian, kl_scale, train_variational
from vestige.probes.problem import Features


def test_a_coder_that_counts_pays_what_is_worked_out_by_hand():
    """Labels 0 0 1 | 0 1 | 1 0 0 with probabilities (count + 1) / (n + 2)."""
    labels = np.array([0, 0, 1, 0, 1, 1, 0, 0])

    def counting(known, end):
        ones = labels[:known].sum()
        p = np.array([known - ones + 1, ones + 1]) / (known + 2)
        return -np.log(p[labels[known:end]])[None]

    found = online_code(counting, Blocks((3, 5, 8), 0), uniform=1.0)
    by_hand = [3.0, -log2(3 / 5) - log2(2 / 5), -log2(3 / 7) - 2 * log2(4 / 7)]
    np.testing.assert_allclose(found.block_bits()[0], by_hand)
    np.testing.assert_allclose(found.label_bits()[0, [2, 3, 4, 7]], [1, -log2(3 / 5), -log2(2 / 5), -log2(4 / 7)])
    np.testing.assert_allclose(found.bits("voita2020"), 3 + log(2) * sum(by_hand[1:]))


def test_linear_blocks_cost_about_what_they_cost_scikit_learn():
    """Which minimises the same objective to the end."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, size=1600)
    rows = (np.eye(10)[labels] + 0.5 * rng.normal(size=(1600, 10))).astype(np.float32)
    rows /= np.sqrt((rows**2).mean())
    gold = torch.tensor(labels).view(1, -1)
    coder = LinearCoder(
        Labelled(Features(rows[:1200]), gold[:, :1200]), Labelled(Features(rows[1200:]), gold[:, 1200:]), 4, mix=False
    )
    for known, end in ((100, 200), (200, 600), (600, 1200)):
        mine = coder(known, end).sum()
        theirs = LogisticRegression(C=1 / (2 * coder.used[0]), tol=1e-8, max_iter=5000)
        log_p = theirs.fit(rows[:known], labels[:known]).predict_log_proba(rows[known:end])
        np.testing.assert_allclose(mine, -log_p[np.arange(end - known), labels[known:end]].sum(), rtol=0.1)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (0.7, 0.01), (-2.0, 3.0), (1.0, 1.2e-4)])
def test_price_of_a_gaussian_weight_is_the_integral(mean, variance):
    q, p = stats.norm(mean, variance**0.5), stats.norm(0, 1)
    ends = mean - 10 * variance**0.5, mean + 10 * variance**0.5
    exact = integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - p.logpdf(w)), *ends, limit=200)[0]
    found = kl_gaussian(torch.tensor(mean, dtype=torch.double), torch.tensor(variance, dtype=torch.double).log())
    np.testing.assert_allclose(found.item(), exact, rtol=1e-6, atol=1e-9)


def test_price_of_a_scale_is_the_integral_but_for_its_constant():
    """KL(N(1, a) || 1/|z|) = const - log(a)/2 + E log|z|, which vanishes as a grows once the constant is set."""

    def exact(alpha):
        q = stats.norm(1, alpha**0.5)
        low, high = 1 - 12 * alpha**0.5, 1 + 12 * alpha**0.5
        cuts = sorted({low, min(max(0.0, low), high), high})
        parts = [integrate.quad(lambda z: q.pdf(z) * np.log(abs(z)), a, b, limit=400)[0] for a, b in pairwise(cuts)]
        return sum(parts) - 0.5 * log(alpha)

    end = exact(1e8)
    for log_alpha in (-9.0, -4.0, -2.0, -1.0, 0.0, 1.0, 3.0):
        found = kl_scale(torch.tensor(log_alpha, dtype=torch.double)).item()
        np.testing.assert_allclose(found, exact(np.exp(log_alpha)) - end, atol=0.015)
    assert abs(kl_scale(torch.tensor(30.0)).item()) < 1e-6


def test_the_variational_code_prices_planted_labels_between_their_entropy_and_the_uniform_code():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, size=1500)
    clear = 4 * np.eye(8)[labels] + 0.5 * rng.normal(size=(1500, 8))
    noise = rng.normal(size=(1500, 8))
    layers = [Features(rows.astype(np.float32)) for rows in (clear, noise)]
    fit = train_variational(
        layers,
        torch.tensor(labels),
        4,
        VariationalRecipe(hidden=(8,), rate=0.03, variance_rate=0.03, epochs=60, least_steps=0),
    )
    bits = (fit.kl + fit.data) / log(2)
    uniform = 1500 * 2
    assert bits[0] < 0.2 * uniform
    assert 0.98 * uniform < bits[1] < 1.15 * uniform
    assert (fit.kl > 0).all() and fit.kl[1] < fit.kl[0]
    accuracy = (fit.log_probabilities(layers).argmax(-1) == torch.tensor(labels)).float().mean(1)
    assert accuracy[0] > 0.99 and accuracy[1] < 0.35
