"""What similarities must and must not be blind to, and whether their intervals mean what they say."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from vestige.measures.cca import procrustes, pwcca, svcca
from vestige.measures.cka import cka, minibatch_cka
from vestige.measures.jackknife import Estimate, deal, mean_difference
from vestige.measures.neighbours import neighbour_overlap
from vestige.measures.rsa import rsa
from vestige.measures.similarity import MEASURES, similarities


def centred(x, y):
    return rsa(x, y, kernel="centred_cosine")


def euclidean(x, y):
    return rsa(x, y, kernel="euclidean")


def ranked(x, y):
    return rsa(x, y, correlation="spearman")


def biased(x, y):
    return cka(x, y, debiased=False)


ALL = (rsa, centred, euclidean, ranked, cka, biased, svcca, pwcca, procrustes, neighbour_overlap)
BLIND_TO_TRANSLATION = (centred, euclidean, cka, biased, svcca, pwcca, procrustes)


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 12)) * np.linspace(0.5, 2, 12)
    return x, x + rng.normal(size=x.shape)


@pytest.mark.parametrize("measure", ALL)
def test_vectors_are_wholly_similar_to_themselves(measure, two):
    assert measure(two[0], two[0].copy()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("measure", [rsa, centred, cka, biased, euclidean, neighbour_overlap])
def test_frozen_layers_have_similarity_one_to_the_last_bit(measure):
    x = (np.random.default_rng(3).normal(size=(500, 33)) + 5).astype(np.float32)
    assert measure(x, x.copy()) == 1.0


@pytest.mark.parametrize("measure", [m for m in ALL if m is not pwcca])
def test_symmetric(measure, two):
    assert measure(*two) == pytest.approx(measure(*two[::-1]), abs=1e-9)


@pytest.mark.parametrize("measure", ALL)
def test_blind_to_rotation_scale_and_a_common_order_of_items(measure, two):
    x, y = two
    expected = measure(x, y)
    order = np.random.default_rng(1).permutation(len(x))
    assert 0.05 < expected < 0.99
    assert measure(x, 3.5 * y) == pytest.approx(expected, abs=1e-9)
    assert measure(x[order], y[order]) == pytest.approx(expected, abs=1e-9)
    if measure is not pwcca:  # its weights are those of the units of x
        assert measure(x @ ortho_group.rvs(12, random_state=0), y) == pytest.approx(expected, abs=1e-9)
    assert measure(x, y @ ortho_group.rvs(12, random_state=0)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("measure", ALL)
def test_translation_shows_where_it_should(measure, two):
    x, y = two
    moved = measure(x, y + 2)
    assert (moved == pytest.approx(measure(x, y), abs=1e-8)) == (measure in BLIND_TO_TRANSLATION)


@pytest.mark.parametrize("measure", ALL)
def test_cosines_alone_are_blind_to_the_length_of_every_vector(measure, two):
    x, y = two
    lengths = np.random.default_rng(2).uniform(0.2, 5, size=(len(y), 1))
    assert (measure(x, y * lengths) == pytest.approx(measure(x, y), abs=1e-9)) == (
        measure in (rsa, ranked, neighbour_overlap)
    )


@pytest.mark.parametrize("measure", [svcca, pwcca])
def test_canonical_correlations_are_blind_to_invertible_maps(measure, two):
    x, y = two
    mix = np.random.default_rng(5).normal(size=(12, 12))
    kept = svcca(x, y, variance=1.0) if measure is svcca else pwcca(x, y)
    mixed = svcca(x, y @ mix, variance=1.0) if measure is svcca else pwcca(x, y @ mix)
    assert mixed == pytest.approx(kept, abs=1e-7)


def test_a_common_shift_inflates_rsa_of_unrelated_vectors_no_more_than_it_should():
    """At 64 units and a shift of 2 only lengths are shared, and RSA of x with x + 2 is near .69."""
    x = np.random.default_rng(0).normal(size=(2000, 64))
    assert rsa(x, x + 2) == pytest.approx(0.69, abs=0.04)


def test_unrelated_vectors():
    rng = np.random.default_rng(4)
    drawn = [(rng.normal(size=(300, 64)), rng.normal(size=(300, 64))) for _ in range(12)]
    mean = {measure: np.mean([measure(*pair) for pair in drawn]) for measure in (rsa, centred, cka, biased, svcca)}
    assert abs(mean[rsa]) < 0.006
    assert abs(mean[centred]) < 0.006
    assert abs(mean[cka]) < 0.006
    assert mean[biased] == pytest.approx(0.17, abs=0.03)
    assert mean[svcca] > 0.3


@pytest.mark.parametrize("measure", [rsa, cka])
def test_permuting_one_side_destroys_the_similarity(measure, two):
    x, y = two
    order = np.random.default_rng(9).permutation(len(x))
    assert abs(measure(x, y[order])) < 0.1 < measure(x, y)


def test_batches_do_not_bias_cka():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(4000, 20)) * np.linspace(0.3, 2, 20)
    y = x + rng.normal(size=x.shape)
    batched = minibatch_cka((x[start : start + 20], y[start : start + 20]) for start in range(0, 4000, 20))
    assert batched == pytest.approx(cka(x, y), abs=0.01)
    one = np.mean([cka(x[s : s + 20], y[s : s + 20], debiased=False) for s in range(0, 4000, 200)])
    assert one > cka(x, y) + 0.1


def sentences_of_words(rng, sentences, noise=1.0, words=12, width=10):
    """Words that share most with their sentence, in two models."""
    of = np.repeat(np.arange(sentences), words)
    x = rng.normal(size=(sentences, width))[of] + 0.5 * rng.normal(size=(sentences * words, width))
    lifts = noise * rng.normal(size=(sentences, width))[of]
    return x, x + lifts, of


def test_what_is_left_without_a_group_is_the_measure_of_the_rest():
    x, y, of = sentences_of_words(np.random.default_rng(0), 40)
    x, y = x - x.mean(0), y - y.mean(0)  # the centred cosine keeps the mean of all
    measures = [name for name in MEASURES if name not in ("rsa_spearman", "rsa_centred", "cka_without_outliers")]
    found = similarities([x], [y], measures, sentences=of, groups=8)
    rest = np.setdiff1d(np.arange(len(x)), deal(of, 8)[3])
    again = similarities([x[rest]], [y[rest]], measures)
    for name in measures:
        assert found[name][0, 0].without[3] == pytest.approx(again[name][0, 0].value, abs=1e-9), name
        assert found[name][0, 0].value != pytest.approx(again[name][0, 0].value, abs=1e-9)


def test_neighbours_are_found_anew_where_a_group_held_most_of_them():
    """Words of one long sentence, all that is near to each other, beside many of others."""
    rng = np.random.default_rng(0)
    of = np.concatenate([np.zeros(60, dtype=int), rng.integers(1, 30, size=90)])
    x = rng.normal(size=(150, 6)) + 8 * (of == 0)[:, None]
    x[[0, 1]] = 0.2 * x[[100, 101]] + x[[2, 3]]
    y = x + 0.5 * rng.normal(size=x.shape)
    found = similarities([x], [y], ["neighbour_overlap"], sentences=of, groups=10)["neighbour_overlap"][0, 0]
    for group, items in enumerate(deal(of, 10)):
        rest = np.setdiff1d(np.arange(150), items)
        assert found.without[group] == pytest.approx(neighbour_overlap(x[rest], y[rest]), abs=1e-12)


def test_ranks_without_a_group_are_close_to_those_of_the_rest():
    """Ranks are kept as they are among all pairs, the centre as it is among all items."""
    x, y, of = sentences_of_words(np.random.default_rng(0), 40)
    measures = ["rsa_spearman", "rsa_centred"]
    found = similarities([x], [y], measures, sentences=of, groups=20)
    again = [
        similarities([x[rest]], [y[rest]], measures)
        for rest in (np.setdiff1d(np.arange(len(x)), items) for items in deal(of, 20))
    ]
    for name in measures:
        moved, expected = (
            np.array([one - found[name][0, 0].value for one in values])
            for values in (found[name][0, 0].without, [run[name][0, 0].value for run in again])
        )
        assert np.corrcoef(moved, expected)[0, 1] > 0.95, name
        assert moved.std() == pytest.approx(expected.std(), rel=0.2), name


@pytest.mark.parametrize("name", ["rsa", "rsa_centred", "cka"])
def test_samples_of_items_agree_with_all_of_them(name):
    """Values of a tenth of the items lie around that of all, the closer the more are drawn."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6000, 16)) * np.linspace(0.3, 2, 16) + 0.5
    y = x + rng.normal(size=x.shape)
    whole = similarities([x], [y], [name])[name][0, 0].value
    drawn = {
        size: [similarities([x[rows]], [y[rows]], [name])[name][0, 0].value for rows in chosen]
        for size in (150, 600)
        for chosen in [[rng.choice(6000, size, replace=False) for _ in range(30)]]
    }
    for size, found in drawn.items():
        assert np.mean(found) == pytest.approx(whole, abs=3 * np.std(found) / 30**0.5 + 2 / size)
    assert np.std(drawn[600]) < 0.7 * np.std(drawn[150])


def test_a_sentence_is_never_in_two_groups():
    of = np.random.default_rng(0).integers(0, 33, size=400)
    dealt = deal(of, 7, seed=1)
    assert sorted(np.concatenate(dealt)) == list(range(400))
    assert all(not set(of[a]) & set(of[b]) for i, a in enumerate(dealt) for b in dealt[:i])


@pytest.fixture(scope="module")
def repeated():
    """Measures of many corpora of one population, by sentence and as if words were independent."""
    rng = np.random.default_rng(1)
    runs, measures = [], ["rsa", "cka", "neighbour_overlap"]
    for _ in range(100):
        x, y, of = sentences_of_words(rng, 60)
        by_sentence = similarities([x], [y], measures, sentences=of)
        by_word = similarities([x], [y], measures, sentences=np.arange(len(x)))
        runs.append((by_sentence, by_word))
    return runs


@pytest.mark.parametrize("name", ["rsa", "cka", "neighbour_overlap"])
def test_intervals_over_sentences_cover_and_those_over_words_do_not(repeated, name):
    expected = np.mean([run[0][name][0, 0].value for run in repeated])

    def coverage(which):
        intervals = [run[which][name][0, 0].interval() for run in repeated]
        return np.mean([low <= expected <= high for low, high in intervals])

    assert coverage(0) >= 0.88
    assert coverage(1) < 0.75


def test_similarity_is_higher_the_fewer_the_sentences(repeated):
    """Words of one sentence are alike in both models, and more of the pairs are such: sample corpora alike."""
    x, y, _ = sentences_of_words(np.random.default_rng(99), 3000)
    few = np.mean([run[0]["rsa"][0, 0].value for run in repeated])
    assert rsa(x, y) < few - 0.01


def test_no_difference_between_two_corpora_of_one_kind_is_found_one_time_in_twenty(repeated):
    found = [run[0]["rsa"][0, 0] for run in repeated]
    p = [mean_difference([a], [b]).p for a, b in zip(found[::2], found[1::2], strict=True)]
    assert np.mean(np.array(p) < 0.05) <= 0.12
    assert 0.3 < np.mean(p) < 0.7


def test_a_domain_that_moved_is_told_from_one_that_did_not():
    rng = np.random.default_rng(5)
    one, other = (sentences_of_words(rng, 80, noise) for noise in (0.3, 1.5))
    near, far = (similarities([x], [y], ["rsa"], sentences=of)["rsa"][0, 0] for x, y, of in (one, other))
    found = mean_difference([near], [far])
    assert found.value == pytest.approx(near.value - far.value)
    low, high = found.interval(0.95)
    assert 0 < low < found.value < high
    assert found.p < 0.001
    assert mean_difference([far], [near]).p == pytest.approx(found.p)


def test_the_error_is_that_of_a_bootstrap_of_sentences_without_pairs_of_copies():
    rng = np.random.default_rng(7)
    x, y, of = sentences_of_words(rng, 60)
    estimate = similarities([x], [y], ["rsa"], sentences=of)["rsa"][0, 0]
    unit = [a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y)]
    k, m = (a @ a.T for a in unit)
    drawn = []
    for _ in range(200):
        weights = np.bincount(rng.integers(0, 60, size=60), minlength=60)[of].astype(float)
        pairs = np.outer(weights, weights)
        np.fill_diagonal(pairs, 0)
        pairs /= pairs.sum()
        a, b = k - (pairs * k).sum(), m - (pairs * m).sum()
        drawn.append((pairs * a * b).sum() / np.sqrt((pairs * a * a).sum() * (pairs * b * b).sum()))
    count = len(estimate.without)
    error = np.sqrt((count - 1) / count * ((estimate.without - estimate.without.mean()) ** 2).sum())
    assert error == pytest.approx(np.std(drawn), rel=0.35)


def test_the_interval_of_a_frozen_layer_is_a_point():
    x, _, of = sentences_of_words(np.random.default_rng(0), 40)
    low, high = similarities([x], [x.copy()], ["rsa"], sentences=of)["rsa"][0, 0].interval()
    assert low == pytest.approx(1.0, abs=1e-12)
    assert high == pytest.approx(1.0, abs=1e-12)


def test_an_estimate_without_groups_has_no_interval():
    assert np.isnan(Estimate(0.5).interval()).all()
