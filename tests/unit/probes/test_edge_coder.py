"""The parts of codes of spans: which targets a block has, what labels are to a code, prices, and inner hold-outs."""

import numpy as np
import pytest
import torch

from vestige.probes.codes.edges import SHARPNESS, EdgeCoder, Labels, best_sharpness
from vestige.probes.codes.online import bernoulli_nats
from vestige.probes.edges.model import EdgeProbe, EdgeRecipe, Edges, Source, read_batch
from vestige.probes.edges.training import DevScore, _Learner, dev_scores
from vestige.probes.problem import Features

SMALL = EdgeRecipe(projected=4, hidden=4, rate=1e-2, max_validations=3, best="loss")


def edges(labels, sizes, seed=0):
    """One word a target, whose vector starts with the target's number."""
    rows = np.random.default_rng(seed).normal(size=(len(labels), 3)).astype(np.float32)
    rows[:, 0] = np.arange(len(labels))
    spans = np.stack([np.arange(len(labels)), np.arange(1, len(labels) + 1)], axis=-1)[:, None]
    return Edges([Features(rows)], spans, np.asarray(labels, np.uint8), np.concatenate([[0], np.cumsum(sizes)]))


def numbers(data):
    return data.spans[:, 0, 0].tolist()


def test_sentences_in_another_order_take_their_targets_along():
    data = edges(np.eye(2)[[0, 1, 0, 1, 1, 0]], [1, 3, 2])
    again = data.in_order(np.array([2, 0, 1]))
    assert numbers(again) == [4, 5, 0, 1, 2, 3] and again.firsts.tolist() == [0, 2, 3, 6]
    assert again.labels[:, 1].tolist() == [1, 0, 0, 1, 0, 1]


def test_parts_and_starts():
    data = edges(np.eye(2)[[0, 1, 0, 1, 1, 0]], [1, 3, 2])
    part = data.part(2, 5)
    assert numbers(part) == [2, 3, 4] and part.firsts.tolist() == [0, 2, 3]
    assert data.part(1, 4).firsts.tolist() == [0, 3] and data.part(0, 6).firsts.tolist() == [0, 1, 4, 6]
    assert numbers(data.start(2)) == [0, 1, 2, 3] and data.start(3) is data


def test_one_label_each_or_sets_of_them():
    single, several = edges(np.eye(4)[[0, 1, 2, 3]], [4]), edges([[1, 0, 1], [1, 0, 0]], [2])
    assert Labels.of(single) == Labels(4, sets=False) and Labels.of(several) == Labels(3, sets=True)
    assert Labels.of(edges([[1, 0], [0, 0]], [2])).sets, "a target may have no label"
    assert (Labels(4, False).uniform, Labels(4, False).of_target) == (2.0, 1)
    assert (Labels(3, True).uniform, Labels(3, True).of_target) == (3.0, 3)


def test_blocks_of_sets_need_not_have_a_target_for_every_label():
    data = edges(np.eye(30)[np.arange(100) % 30], [5] * 20)
    assert Labels(30, sets=False).blocks(data, (0.1, 0.2, 0.5, 1.0)).ends == (50, 100)
    assert Labels(30, sets=True).blocks(data, (0.1, 0.2, 0.5, 1.0)).ends == (10, 20, 50, 100)


def test_mixing_bounds_the_price_of_every_yes_and_no():
    logits, gold = torch.tensor([[80.0, -80.0]]), torch.tensor([[0, 1]])
    assert bernoulli_nats(logits, gold).item() == pytest.approx(160)
    assert bernoulli_nats(logits, gold, known=9).item() == pytest.approx(2 * np.log(10 * 2))
    assert bernoulli_nats(logits, 1 - gold, known=9).item() == pytest.approx(-2 * np.log(0.95))


@pytest.mark.parametrize("softmax", [False, True])
def test_losses_are_those_of_torch_and_labels_past_the_classes_are_not_read(softmax):
    probe = EdgeProbe(Source((0,)), [3], 1, 3, EdgeRecipe(projected=4, hidden=4, softmax=softmax), 0)
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    gold = torch.eye(4)[[0, 2, 1, 1, 3]]
    if softmax:
        prices = torch.nn.functional.cross_entropy(logits[:4], gold[:4].argmax(1), reduction="none")
    else:
        prices = torch.nn.functional.binary_cross_entropy_with_logits(logits, gold[:, :3], reduction="none")
    torch.testing.assert_close(probe.loss(logits, gold, "sum"), prices.sum())
    torch.testing.assert_close(probe.loss(logits, gold), prices.sum() / (5 if softmax else 15))
    data = edges(gold, [5])
    [score] = dev_scores(data, [probe])
    batch = _whole(data)
    assert score.loss == pytest.approx(probe.loss(probe(batch), batch.labels).item(), rel=1e-5)


def _whole(data):
    return read_batch(data, np.arange(len(data.labels)), [0])


def test_the_best_look_may_be_that_of_the_lowest_loss():
    recipe = EdgeRecipe(projected=4, hidden=4, best="loss")
    learner = _Learner(EdgeProbe(Source((0,)), [3], 1, 2, recipe, 0), recipe)
    for step, score in enumerate([DevScore(0.5, 0.6), DevScore(0.4, 0.5), DevScore(0.9, 0.7)], start=1):
        learner.record(score, step)
    assert learner.best == -0.5 and learner.stale == 1


@pytest.mark.parametrize("sure", [1 / 8, 1, 4])
def test_a_probe_that_is_too_sure_is_blunted_and_one_that_is_not_sharpened(sure):
    """Labels drawn from what a probe says; then its logits are multiplied."""
    rng = np.random.default_rng(0)
    probe = EdgeProbe(Source((0,)), [3], 1, 3, EdgeRecipe(projected=4, hidden=4, softmax=True), 0)
    blank = edges(np.eye(3)[np.zeros(4000, dtype=int)], [4000])
    with torch.no_grad():
        probe.output.weight *= 4
        p = probe(_whole(blank)).softmax(-1).double().numpy()
        drawn = np.array([rng.choice(3, p=row / row.sum()) for row in p])
        probe.output.weight *= sure
        probe.output.bias *= sure
    found = best_sharpness(edges(np.eye(3)[drawn], [4000]), [probe]).item()
    step = SHARPNESS[1] / SHARPNESS[0]
    assert min(1 / sure, SHARPNESS[-1]) / step**1.5 < found < min(1 / sure, SHARPNESS[-1]) * step**1.5


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("known", [15, 30])
def test_probes_know_nothing_but_what_was_sent_and_dev_where_it_is_not_held_out(known, inner):
    data, strange = (edges(np.eye(2)[np.arange(40) % 2], [4] * 10, seed) for seed in range(2))
    mixed = np.concatenate([data.layers[0].array[:known], strange.layers[0].array[known:]])
    later = Edges([Features(mixed)], data.spans, data.labels, data.firsts)

    def price(train, dev):
        coder = EdgeCoder(train, dev, Labels.of(data), [Source((0,))], inner_holdout=inner, recipe=SMALL)
        coder.train_on(known)
        return coder.nats(data, None).tolist()

    assert price(data, data) == price(later, data)
    assert (price(data, data) == price(data, strange)) == inner


def test_of_two_targets_one_is_held_out():
    data = edges(np.eye(2), [2])
    coder = EdgeCoder(data, data, Labels.of(data), [Source((0,))], inner_holdout=True, recipe=SMALL)
    with np.errstate(all="raise"):  # the mean loss of no target
        coder.train_on(2)
    assert np.isfinite(coder.nats(data, None)).all()


def test_right_is_exactly_the_labels_and_those_that_train_lacks_are_missed():
    for sets, rows in ((False, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]), (True, [[1, 0, 0], [0, 0, 0], [1, 0, 1]])):
        data = edges(np.asarray(rows)[:, :2], [3])
        coder = EdgeCoder(data, data, Labels(2, sets), [Source((0,))])
        coder.probes = [EdgeProbe(Source((0,)), [3], 1, 2, SMALL, 0)]
        with torch.no_grad():
            coder.probes[0].output.weight.zero_()
            coder.probes[0].output.bias.copy_(torch.tensor([2.0, -1.0]))
        assert coder.labels.right(edges(rows, [3]), coder.probes).tolist() == [[True, False, False]]
