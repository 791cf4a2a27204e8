"""The edge probe's parts: its size, its spans, its mix and its training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vestige.errors import AnalysisError
from vestige.probes.edges.model import (
    LAST_MIXED,
    EdgeProbe,
    EdgeRecipe,
    Edges,
    Source,
    placed_sources,
    pool_spans,
    read_batch,
    span_weights,
)
from vestige.probes.edges.training import DevScore, _kept, _Learner, dev_scores, predictions, train_edges
from vestige.probes.problem import Features
from vestige.probes.rows import Place

SMALL = EdgeRecipe(projected=8, hidden=8, rate=1e-2, batch=4, validate_every=5, max_validations=3)


def edges(seed=0, sentences=12, roles=2, classes=3, layers=3, width=6, words=7):
    """Random spans of random words, three of each sentence."""
    rng = np.random.default_rng(seed)
    count = 3 * sentences
    rows = [Features(rng.normal(size=(sentences * words, width)).astype(np.float32)) for _ in range(layers)]
    first = rng.integers(0, words - 1, size=(count, roles))
    end = rng.integers(first + 1, words + 1)
    start = np.repeat(np.arange(sentences) * words, 3)[:, None]
    labels = (rng.random((count, classes)) < 0.4).astype(np.uint8)
    return Edges(rows, np.stack([start + first, start + end], axis=-1), labels, np.arange(0, count + 1, 3))


def everything(probe):
    return torch.cat([value.detach().flatten() for value in probe.state_dict().values()])


def logits(data, probe):
    return torch.cat([mine[0] for _, mine in predictions(data, [probe])])


@pytest.mark.parametrize(
    ("roles", "classes", "size"),
    [
        (1, 48, 275_761),
        (1, 30, 271_135),
        (1, 18, 268_051),
        (2, 49, 538_675),
        (2, 66, 543_044),
        (2, 2, 526_596),
        (2, 18, 530_708),
        (2, 19, 530_965),
    ],
)
def test_probes_of_base_sized_models_have_as_many_parameters_as_published(roles, classes, size):
    widths = [768] * 13
    assert EdgeProbe(Source((12,)), widths, roles, classes, EdgeRecipe(), 0).size == size
    mixed = EdgeProbe(Source(tuple(range(13)), mixed=True), widths, roles, classes, EdgeRecipe(), 0)
    assert mixed.size == size + 14


def test_weights_add_up_to_one_in_every_span_and_pool_its_words():
    data = edges()
    batch = read_batch(data, np.arange(len(data.labels)), [1])
    generator = torch.Generator().manual_seed(0)
    for role, members in enumerate(batch.roles):
        projected = torch.randn(len(members.own), 5, generator=generator)
        scores = 30 * torch.randn(len(members.own), generator=generator)
        weights = span_weights(scores, members)
        totals = torch.zeros(len(members.starts)).index_add(0, members.span, weights)
        torch.testing.assert_close(totals, torch.ones(len(members.starts)))
        pooled = pool_spans(projected, scores, members)
        rows = np.unique(np.concatenate([np.arange(*span) for span in data.spans[:, role]]))
        place = {row: at for at, row in enumerate(rows.tolist())}
        for at, (start, end) in enumerate(data.spans[:, role].tolist()):
            mine = [place[row] for row in range(start, end)]
            torch.testing.assert_close(pooled[at], scores[mine].softmax(0) @ projected[mine])


def test_a_span_of_one_word_is_its_projection():
    data = edges()
    starts = data.spans[..., 0]
    data = Edges(data.layers, np.stack([starts, starts + 1], axis=-1), data.labels, data.firsts)
    batch = read_batch(data, np.arange(9), [0])
    for role, members in enumerate(batch.roles):
        assert torch.equal(span_weights(torch.randn(len(members.own)), members), torch.ones(9))
        vectors = batch.rows[0][members.own]
        expected = data.layers[0].rows(starts[:9, role])
        assert torch.equal(pool_spans(vectors, torch.randn(len(vectors)), members), expected)


def test_moving_all_rows_and_spans_changes_nothing():
    data = edges()
    probe = EdgeProbe(Source((0,)), [6] * 3, 2, 3, SMALL, 0)
    moved = [Features(np.concatenate([np.full((1, 6), 9.0, dtype=np.float32), f.array])) for f in data.layers]
    shifted = Edges(moved, data.spans + 1, data.labels, data.firsts)
    assert torch.equal(logits(data, probe), logits(shifted, probe))


def test_words_outside_spans_are_not_read():
    data = edges()
    batch = read_batch(data, np.array([0]), [0])
    used = {row for span in data.spans[0] for row in range(*span)}
    assert len(batch.rows[0]) == len(used)


def test_a_mix_of_one_layer_is_that_layer():
    data, widths = edges(), [6] * 3
    alone = EdgeProbe(Source((2,)), widths, 2, 3, SMALL, 0)
    mixed = EdgeProbe(Source((2,), mixed=True), widths, 2, 3, SMALL, 0)
    assert torch.equal(logits(data, alone), logits(data, mixed))


def test_a_mix_starts_as_the_mean_and_of_equal_layers_is_gamma_times_one():
    data = edges()
    probe = EdgeProbe(Source((0, 1, 2), mixed=True), [6] * 3, 2, 3, SMALL, 0)
    rows = read_batch(data, np.arange(4), [0, 1, 2]).rows
    torch.testing.assert_close(probe.mix_weights(), torch.full((3,), 1 / 3))
    torch.testing.assert_close(probe.vectors(rows), torch.stack(list(rows.values())).mean(0))
    with torch.no_grad():
        probe.gamma.fill_(2.5)
        probe.scores.copy_(torch.tensor([0.3, -1.0, 2.0]))
    torch.testing.assert_close(probe.vectors(dict.fromkeys(range(3), rows[1])), 2.5 * rows[1])


def test_in_a_normed_mix_the_scale_of_a_layer_plays_no_role():
    data = edges()
    rows = read_batch(data, np.arange(4), [0, 1]).rows
    recipe = EdgeRecipe(projected=8, hidden=8, normed_mix=True)
    plain, normed = (EdgeProbe(Source((0, 1), mixed=True), [6] * 3, 2, 3, r, 0) for r in (SMALL, recipe))
    scaled = {0: 100 * rows[0], 1: rows[1]}
    torch.testing.assert_close(normed.vectors(scaled), normed.vectors(rows), atol=1e-3, rtol=1e-3)
    assert not torch.allclose(plain.vectors(scaled), plain.vectors(rows), atol=1.0)


def test_layers_side_by_side():
    data = edges()
    rows = read_batch(data, np.arange(4), [0, 2]).rows
    probe = EdgeProbe(Source((2, 0)), [6] * 3, 2, 3, SMALL, 0)
    assert torch.equal(probe.vectors(rows), torch.cat([rows[2], rows[0]], dim=1))
    assert probe.project[0].in_features == 12


def test_a_probe_does_not_depend_on_its_company_and_training_is_repeatable():
    data, dev = edges(), edges(1)
    sources = [Source((0,)), Source((1,)), Source((0, 1, 2), mixed=True)]
    together = train_edges(data, dev, sources, SMALL, [0, 1])
    for at, seed in ((1, 0), (2, 0)):
        [alone] = train_edges(data, dev, [sources[at]], SMALL, [seed])
        assert torch.equal(everything(alone.probe), everything(together[at].probe))
    assert [(fit.probe.seed, fit.probe.source) for fit in together] == [(s, x) for s in (0, 1) for x in sources]
    assert not torch.equal(everything(together[0].probe), everything(together[3].probe))


def test_the_best_look_at_dev_is_kept():
    data, dev = edges(classes=2), edges(1, classes=2)
    fits = train_edges(data, dev, [Source((0,)), Source((1,))], SMALL, [0])
    for fit, score in zip(fits, dev_scores(dev, [fit.probe for fit in fits]), strict=True):
        assert score.f1 == pytest.approx(fit.dev_f1) and fit.steps == 15


def test_a_probe_that_diverges_is_no_probe():
    with pytest.raises(AnalysisError, match="edge probe of layer 1 diverged"):
        train_edges(edges(), edges(1), [Source((1,))], replace(SMALL, rate=1e30), [0])


def test_a_label_is_given_where_its_logit_is_above_zero():
    data = edges()
    probe = EdgeProbe(Source((0,)), [6] * 3, 2, 3, SMALL, 0)
    with torch.no_grad():
        probe.output.weight.zero_()
        probe.output.bias.copy_(torch.tensor([0.0, 0.1, -0.1]))
    [score] = dev_scores(data, [probe])
    gold = data.labels.sum(0)
    assert score.f1 == pytest.approx(2 * gold[1] / (len(data.labels) + gold.sum()))
    share = gold / len(data.labels)
    z = np.array([0.0, 0.1, -0.1])
    assert score.loss == pytest.approx((np.log1p(np.exp(z)) - share * z).mean(), rel=1e-5)


def test_gradients_are_cut_and_hidden_units_dropped():
    data = edges()
    batch = read_batch(data, np.arange(12), [0])
    moved = []
    for clip, keep in ((5.0, 1.0), (1e-14, 1.0), (5.0, 0.0)):
        recipe = EdgeRecipe(projected=8, hidden=8, rate=0.1, clip=clip)
        learner = _Learner(EdgeProbe(Source((0,)), [6] * 3, 2, 3, recipe, 0), recipe)
        before = learner.probe.output.weight.detach().clone()
        learner.step(batch, torch.full((12, 8), keep))
        moved.append((learner.probe.output.weight.detach() - before).abs().mean().item())
    assert moved[0] == pytest.approx(0.1, rel=1e-2)
    assert moved[1] < 1e-6 and moved[2] == 0


def test_the_rate_is_halved_after_five_looks_and_the_end_comes_after_twenty():
    learner = _Learner(EdgeProbe(Source((0, 1), mixed=True), [6, 6], 1, 2, EdgeRecipe(), 0), EdgeRecipe(mix_rate=0.1))
    learner.record(DevScore(0.5, 1.0), 100)
    rates = []
    for look in range(1, 21):
        assert learner.going
        learner.record(DevScore(0.5 + 0.5e-4, 0.1), 100 + look)
        rates.append(learner.rate)
    assert not learner.going
    assert [rates[at] for at in (3, 4, 9, 14, 19)] == [1e-4, 5e-5, 2.5e-5, 1.25e-5, 6.25e-6]
    assert [group["lr"] for group in learner.adam.param_groups] == [6.25e-6, 0.1 / 16]


def test_as_long_as_no_label_is_given_a_lower_loss_is_progress():
    learner = _Learner(EdgeProbe(Source((0,)), [6], 1, 2, EdgeRecipe(), 0), EdgeRecipe())
    for step in range(30):
        learner.record(DevScore(0.0, 1.0 - 0.01 * step), step)
        assert learner.stale == 0
    learner.record(DevScore(0.01, 5.0), 31)
    assert (learner.stale, learner.best_f1) == (0, 0.01)
    learner.record(DevScore(0.0, 0.1), 32)
    assert (learner.stale, learner.best_f1) == (1, 0.01)


def test_long_training_has_long_intervals():
    assert EdgeRecipe().validations(10_000) == (1000, 250)
    assert EdgeRecipe().validations(9_999) == (100, 100)
    assert EdgeRecipe(validate_every=7, max_validations=3).validations(10_000) == (7, 3)


def test_dropped_units_are_made_up_for():
    kept = _kept(4000, EdgeRecipe(hidden=16), torch.Generator().manual_seed(0))
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert float((kept == 0).float().mean()) == pytest.approx(0.3, abs=0.01)


def test_only_the_first_sentences_of_dev_are_looked_at():
    data = edges()
    cut = data.start(5)
    assert (cut.sentences, len(cut.labels), len(cut.spans)) == (5, 15, 15)
    assert data.start(99) is data


def test_names_of_inputs():
    mixes = [Place(input="mix", axis=LAST_MIXED, x=last) for last in range(3)]
    found = placed_sources(("lexical", "layer 1", "top", "cat", "mix", "mixes"), [6, 6, 6])
    assert found == {
        Place(input="lexical"): Source((0,)),
        Place(layer=1): Source((1,)),
        Place(input="top"): Source((2,)),
        Place(input="cat"): Source((2, 0)),
        Place(input="mix"): Source((0, 1, 2), mixed=True),
        mixes[0]: Source((0,), mixed=True),
        mixes[1]: Source((0, 1), mixed=True),
    }, "the mix of all layers is there once"
    assert list(placed_sources(("layers",), [6, 5])) == [Place(layer=0), Place(layer=1)]
    assert list(placed_sources(("mixes",), [6, 6, 6])) == mixes
    assert placed_sources(("mix 0-1",), [6, 6, 5]) == {mixes[1]: Source((0, 1), mixed=True)}


@pytest.mark.parametrize(
    ("inputs", "widths", "problem"),
    [
        (("layer 3",), [6] * 3, "'layer 3'"),
        (("mix 0-3",), [6] * 3, "'mix 0-3'"),
        ((), [6], "nothing"),
        (("layers", "mix"), [6, 5], "5, 6 units"),
    ],
)
def test_inputs_that_cannot_be_read_are_refused(inputs, widths, problem):
    with pytest.raises(AnalysisError, match=problem):
        placed_sources(inputs, widths)
