"""The bootstrap and the sign-flip test against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from vestige.comparison.statistics import bootstrap, equivalence_p, exchange_p
from vestige.measures.resampling import interval
from vestige.measures.student import Student


@pytest.fixture
def sentences():
    rng = np.random.default_rng(3)
    words = rng.integers(1, 30, size=180).astype(float)
    differences = np.round(rng.normal(0.15, 1.0, size=(180, 3)) * np.sqrt(words)[:, None] / 3)
    return differences, words


def test_interval_equals_scipys_paired_bootstrap(sentences):
    differences, words = sentences
    low, high = interval(bootstrap(differences, words, 9999, seed=0), 0.95)
    for layer in range(3):
        theirs = stats.bootstrap(
            (differences[:, layer], words),
            lambda d, w, axis=-1: d.sum(axis) / w.sum(axis),
            paired=True,
            vectorized=True,
            method="percentile",
            n_resamples=9999,
            random_state=1,
        )
        width = theirs.confidence_interval.high - theirs.confidence_interval.low
        assert abs(low[layer] - theirs.confidence_interval.low) < 0.05 * width
        assert abs(high[layer] - theirs.confidence_interval.high) < 0.05 * width
        spread = bootstrap(differences, words, 9999, seed=0)[:, layer].std(ddof=1)
        assert spread == pytest.approx(theirs.standard_error, rel=0.05)


def sign_flip_p(differences, resamples, seed):
    """Exchanging two models of the same units flips the sign of a sentence's difference."""
    same_units = np.ones((2, *differences.shape))
    return exchange_p(-differences / 2, differences / 2, same_units, resamples, seed)


def test_sign_flip_p_equals_scipys_permutation_test(sentences):
    differences, _ = sentences
    ours = sign_flip_p(differences, 9999, seed=0)
    for layer in range(3):
        theirs = stats.permutation_test(
            (differences[:, layer],),
            lambda d, axis=-1: d.sum(axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=9999,
            random_state=1,
        )
        assert ours[layer] == pytest.approx(theirs.pvalue, abs=0.02)


def test_sign_flip_p_is_exact_on_few_sentences():
    differences = np.array([[3.0], [1.0], [2.0], [4.0], [2.0]])
    exact = stats.permutation_test(
        (differences[:, 0],), lambda d, axis=-1: d.sum(axis), permutation_type="samples", vectorized=True
    ).pvalue
    assert exact == 2 / 32
    assert sign_flip_p(differences, 50_000, seed=0)[0] == pytest.approx(exact, abs=0.005)


def test_equivalence_is_claimed_only_inside_the_margin():
    rng = np.random.default_rng(0)
    inside = rng.normal(0.0, 0.001, size=(5000, 1))
    outside = rng.normal(0.004, 0.001, size=(5000, 1))
    assert equivalence_p(inside, 0.005)[0] < 0.05
    assert equivalence_p(outside, 0.005)[0] > 0.05


def test_two_sources_of_error_are_welchs_t():
    """The mean difference of two samples has two sources of error, one a sample."""
    rng = np.random.default_rng(5)
    one, other = rng.normal(0.4, 1.0, size=12), rng.normal(0.0, 3.0, size=7)
    errors = [sample.std(ddof=1) / len(sample) ** 0.5 for sample in (one, other)]
    ours = Student.of(np.array(one.mean() - other.mean()), errors, [len(one) - 1, len(other) - 1])
    theirs = stats.ttest_ind(one, other, equal_var=False)
    assert ours.p == pytest.approx(theirs.pvalue) and ours.degrees == pytest.approx(theirs.df)
    assert ours.interval(0.9) == pytest.approx(tuple(theirs.confidence_interval(0.9)))
    edge = max(abs(bound) for bound in ours.interval(0.9))
    assert ours.outside(edge) == pytest.approx(0.05)


def test_without_any_error_only_the_value_speaks():
    still = Student.of(np.array([0.0, 0.3]), [np.zeros(2), 0.0], [9, 2])
    assert still.p.tolist() == [1.0, 0.0] and still.outside(0.1).tolist() == [0.0, 1.0]
    assert [bound.tolist() for bound in still.interval(0.95)] == [[0.0, 0.3]] * 2
