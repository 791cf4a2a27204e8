"""Codes of labelled spans against predictors that are worked out by counting, and by loops over words."""

from dataclasses import replace
from math import log, log2

import numpy as np
import pytest
import torch

from vestige.probes.codes.edges import RECIPE, EdgeCoder, Labels
from vestige.probes.codes.online import online_code
from vestige.probes.codes.variational import VariationalRecipe, kl_gaussian, kl_scale
from vestige.probes.codes.variational_edges import train_variational_edges
from vestige.probes.edges.model import EdgeProbe, Edges, Source
from vestige.probes.problem import Features

SMALL = replace(RECIPE, projected=5, hidden=6, rate=1e-2, max_validations=3)
SINGLE = np.eye(3)[[0, 0, 1, 0, 2, 1, 0, 0, 2, 2, 1, 0, 0, 0]]
SETS = np.array([[1, 0], [1, 1], [0, 0], [1, 0], [1, 1], [1, 0], [0, 1], [0, 0], [1, 0], [1, 0], [1, 1], [0, 0]])


def edges(labels, sizes):
    """Two spans a target, of one to three words."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 4)).astype(np.float32)
    starts = rng.integers(0, 37, size=(len(labels), 2))
    spans = np.stack([starts, starts + rng.integers(1, 4, size=starts.shape)], axis=-1)
    return Edges([Features(rows)], spans, labels.astype(np.uint8), np.concatenate([[0], np.cumsum(sizes)]))


class Counting(EdgeCoder):
    """Says of every target what was most often sent: (count + 1) / (known + classes)."""

    def train_on(self, known: int) -> None:
        counts = self.train.labels[:known].sum(0)
        odds = (counts + 1) / (known - counts + 1) if self.labels.sets else counts + 1
        probe = EdgeProbe(Source((0,)), [4], 2, self.labels.classes, SMALL, 0)
        with torch.no_grad():
            probe.output.weight.zero_()
            probe.output.bias.copy_(torch.tensor(np.log(odds)))
        self.probes, self.sharpness = [probe], torch.ones(1)


@pytest.mark.parametrize("mix", [True, False])
@pytest.mark.parametrize(("labels", "sizes"), [(SINGLE, [2, 3, 2, 4, 3]), (SETS, [4, 1, 2, 3, 2])], ids=["one", "sets"])
def test_predictors_that_count_pay_what_is_summed_by_hand(labels, sizes, mix):
    data = edges(labels, sizes)
    kind = Labels.of(data)
    blocks = kind.blocks(data, (0.4, 0.8, 1.0))
    coder = Counting(data, data, kind, [Source((0,))], mix=mix)
    found = online_code(coder, replace(blocks, ends=(5, 10, len(labels))), kind.uniform)

    bits = [5 * (2 if kind.sets else log2(3))]
    for known, end in ((5, 10), (10, len(labels))):
        total = 0.0
        for at in range(known, end):
            if kind.sets:
                for column in range(2):
                    yes = (labels[:known, column].sum() + 1) / (known + 2)
                    yes = (known * yes + 1 / 2) / (known + 1) if mix else yes
                    total -= log2(yes if labels[at, column] else 1 - yes)
            else:
                mine = labels[at].argmax()
                p = (labels[:known, mine].sum() + 1) / (known + 3)
                total -= log2((known * p + 1 / 3) / (known + 1) if mix else p)
        bits.append(total)
    np.testing.assert_allclose(found.block_bits()[0], bits, rtol=1e-6)
    np.testing.assert_allclose(found.bits("voita2020"), bits[0] + log(2) * sum(bits[1:]), rtol=1e-6)


def by_loops(data, dense):
    """Logits of every target, word for word; `dense(name, vector)` is a linear map of the probe."""
    rows = data.layers[0].array.astype(float)
    for target in data.spans:
        pooled = []
        for role, (start, end) in enumerate(target):
            projected = [dense(f"project.{role}", rows[word]) for word in range(start, end)]
            raised = [np.exp(dense(f"attend.{role}", vector))[0] for vector in projected]
            pooled.append(sum(r * v for r, v in zip(raised, projected, strict=True)) / sum(raised))
        hidden = np.tanh(dense("hidden", np.concatenate(pooled)))
        yield dense("output", (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5))


def price(logits, labels, known=np.inf):
    """Of a target, mixed with one uniform guess in known + 1."""
    share = 1 / (known + 1)
    if len(labels) == 2:
        p = [1 / (1 + np.exp(-logit if yes else logit)) for logit, yes in zip(logits, labels, strict=True)]
        return -sum(log((1 - share) * each + share / 2) for each in p)
    p = np.exp(logits)[labels.argmax()] / np.exp(logits).sum()
    return -log((1 - share) * p + share / 3)


@pytest.mark.parametrize("labels", [SINGLE, SETS], ids=["one", "sets"])
def test_a_trained_probe_pays_what_loops_over_its_words_give(labels):
    data = edges(labels, [len(labels)])
    coder = EdgeCoder(data, data, Labels.of(data), [Source((0,))], recipe=SMALL)
    found = coder(8, len(labels))[0]
    weights = {name: value.double().numpy() for name, value in coder.probes[0].state_dict().items()}

    def dense(name, x):
        x = weights["norm.weight"] * x + weights["norm.bias"] if name == "output" else x
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    logits = [coder.sharpness.item() * each for each in by_loops(data, dense)]
    assert found == pytest.approx([price(logits[at], labels[at], 8) for at in range(8, len(labels))], rel=1e-5)


@pytest.mark.parametrize("labels", [SINGLE, SETS], ids=["one", "sets"])
def test_a_variational_code_is_its_posterior_means_by_loops_and_its_weights_one_by_one(labels):
    data = edges(labels, [2, len(labels) - 2])
    recipe = VariationalRecipe(hidden=(5,), rate=1e-2, epochs=20, least_steps=0)
    [found] = train_variational_edges(data, [Source((0,))], Labels.of(data), recipe)
    probe = found.probe
    maps = {f"{kind}.{role}": getattr(probe, kind)[role] for kind in ("project", "attend") for role in range(2)}
    maps |= {"hidden": probe.hidden, "output": probe.output}

    def dense(name, x):
        z, mean, bias = (getattr(maps[name], part)[0].detach().double().numpy() for part in ("z_mean", "mean", "bias"))
        return (z[0] * x) @ mean + bias[0]

    assert found.data == pytest.approx(sum(map(price, by_loops(data, dense), labels)), rel=1e-5)
    total, count = 0.0, 0
    for one in maps.values():
        pairs = ((one.mean, one.log_variance), (one.bias, one.bias_log_variance))
        parts = [kl_gaussian(mean, variance).flatten() for mean, variance in pairs]
        parts.append(kl_scale(one.z_log_variance - (one.z_mean**2).log()).flatten())
        total += sum(value for part in parts for value in part.tolist())
        count += sum(len(part) for part in parts)
    assert found.kl == pytest.approx(total, rel=1e-4)
    width, classes = 5, labels.shape[1]
    weights = 2 * (4 * width + width) + 2 * (width + 1) + 2 * width * width + width + width * classes + classes
    assert count == weights + 2 * (4 + width) + 2 * width + width, "every weight, bias and input unit once"


def test_scores_of_a_mix_are_paid_too():
    data = edges(SINGLE, [len(SINGLE)])
    both = replace(data, layers=[data.layers[0], data.layers[0]])
    recipe = VariationalRecipe(hidden=(5,), epochs=1, least_steps=0)
    alone, mixed = train_variational_edges(both, [Source((0,)), Source((0, 1), mixed=True)], Labels.of(data), recipe)
    probe = mixed.probe
    paid = kl_gaussian(probe.scores, probe.scores_log_variance).sum().item()
    assert paid > 5
    without = sum(part.kl().item() for part in probe.maps)
    assert mixed.kl == pytest.approx(without + paid, rel=1e-6)
    assert without == pytest.approx(alone.kl, rel=1e-2)
