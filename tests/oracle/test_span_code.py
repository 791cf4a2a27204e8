"""Codes of labelled spans against predictors that are worked out by counting, and by loops over words."""

from dataclasses import replace
from math import log, log2

import numpy as np
import pytest
import torch

from vestige.solvers.description import online_code
from vestige.solvers.edge_coder import RECIPE, EdgeCoder, Labels
from vestige.solvers.edge_model import EdgeProbe, Edges, Source
from vestige.solvers.problem import Features

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


@pytest.mark.parametrize("labels", [SINGLE, SETS], ids=["one", "sets"])
def test_a_trained_probe_pays_what_loops_over_its_words_give(labels):
    data = edges(labels, [len(labels)])
    coder = EdgeCoder(data, data, Labels.of(data), [Source((0,))], recipe=SMALL)
    found = coder(8, len(labels))[0]
    weights = {name: value.double().numpy() for name, value in coder.probes[0].state_dict().items()}
    rows = data.layers[0].array.astype(float)

    def dense(name, x):
        return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]

    prices = []
    for target in range(8, len(labels)):
        pooled = []
        for role, (start, end) in enumerate(data.spans[target]):
            projected = [dense(f"project.{role}", rows[word]) for word in range(start, end)]
            raised = [np.exp(dense(f"attend.{role}", vector))[0] for vector in projected]
            pooled.append(sum(r * v for r, v in zip(raised, projected, strict=True)) / sum(raised))
        hidden = np.tanh(dense("hidden", np.concatenate(pooled)))
        normed = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
        logits = coder.sharpness.item() * dense("output", weights["norm.weight"] * normed + weights["norm.bias"])
        if labels is SETS:
            p = [1 / (1 + np.exp(-logit if yes else logit)) for logit, yes in zip(logits, labels[target], strict=True)]
            prices.append(-sum(log(8 / 9 * each + 1 / 9 / 2) for each in p))
        else:
            p = np.exp(logits)[labels[target].argmax()] / np.exp(logits).sum()
            prices.append(-log(8 / 9 * p + 1 / 9 / 3))
    assert found == pytest.approx(prices, rel=1e-5)
