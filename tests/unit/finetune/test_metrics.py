"""Every measure against scikit-learn or SciPy, the answers' scores by hand, and intervals that behave."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from vestige.finetune import metrics
from vestige.finetune.problems.sentences import Classes
from vestige.finetune.recipe import Recipe

RNG = np.random.default_rng(3)


def labels(kinds, count=120):
    gold = RNG.integers(0, kinds, count)
    said = np.where(RNG.random(count) < 0.7, gold, RNG.integers(0, kinds, count))
    return [f"l{x}" for x in gold], [f"l{x}" for x in said]


@pytest.mark.parametrize("kinds", [2, 3, 7])
def test_matthews_and_accuracy_are_scikit_learns(kinds):
    gold, said = labels(kinds)
    assert metrics.matthews(gold, said).value == pytest.approx(sk.matthews_corrcoef(gold, said), abs=1e-12)
    hits = [a == b for a, b in zip(gold, said, strict=True)]
    assert metrics.share(hits).value == pytest.approx(sk.accuracy_score(gold, said), abs=1e-12)


def test_f1_is_scikit_learns():
    gold, said = labels(2)
    assert metrics.f1(gold, said, "l1").value == pytest.approx(sk.f1_score(gold, said, pos_label="l1"), abs=1e-12)
    assert metrics.f1(["l0", "l0"], ["l0", "l0"], "l1").value == 0


def test_correlations_are_scipys_with_ties():
    gold = RNG.integers(0, 6, 150) / 1.0
    said = gold + RNG.normal(0, 2, 150).round(1)
    assert metrics.pearson(gold, said).value == pytest.approx(stats.pearsonr(gold, said).statistic, abs=1e-12)
    assert metrics.spearman(gold, said).value == pytest.approx(stats.spearmanr(gold, said).statistic, abs=1e-12)


def test_a_constant_answer_correlates_with_nothing():
    gold = [1.0, 2.0, 5.0]
    assert metrics.pearson(gold, [2.7] * 3).value == metrics.spearman(gold, [2.7] * 3).value == 0
    assert metrics.matthews(["a", "b", "a"], ["a", "a", "a"]).value == 0


def test_a_share_counts_units_and_not_examples():
    assert metrics.share([1, 6], [2, 10]).value == pytest.approx(7 / 12)


@pytest.mark.parametrize("what", ["accuracy", "pearson", "spearman", "matthews"])
def test_intervals_are_near_scipys_bootstrap(what):
    gold, said = labels(2, 200)
    x = RNG.normal(size=200)
    y = x + RNG.normal(size=200)
    hits = np.array([a == b for a, b in zip(gold, said, strict=True)], float)
    ours, data, theirs = {
        "accuracy": (metrics.share(hits), (hits,), np.mean),
        "pearson": (metrics.pearson(x, y), (x, y), lambda a, b: stats.pearsonr(a, b).statistic),
        "spearman": (metrics.spearman(x, y), (x, y), lambda a, b: stats.spearmanr(a, b).statistic),
        "matthews": (metrics.matthews(gold, said), (np.array(gold), np.array(said)), sk.matthews_corrcoef),
    }[what]
    found = stats.bootstrap(
        data, theirs, paired=True, vectorized=False, method="percentile", n_resamples=300, rng=1
    ).confidence_interval
    low, high = ours.interval()
    assert low < ours.value < high
    assert low == pytest.approx(found.low, abs=0.03) and high == pytest.approx(found.high, abs=0.03)


@pytest.mark.parametrize(
    ("said", "gold", "exact", "f1"),
    [
        ("The River Thames!", ["river thames"], 1, 1),
        ("an  old\tbridge", ["the old bridge", "bridge"], 1, 1),
        ("old stone bridge", ["old bridge"], 0, 0.8),
        ("theatre", ["he at re"], 0, 0),
        ("red red car", ["red car car"], 0, 2 / 3),
        ("north", ["south", "far north", "east"], 0, 2 / 3),
        ("", [], 1, 1),
        ("word", [], 0, 0),
        ("4.5", ["45"], 1, 1),
    ],
)
def test_answers_are_compared_as_squads_scorer_does(said, gold, exact, f1):
    assert metrics.exact_match(said, gold) == exact
    assert metrics.answer_f1(said, gold) == pytest.approx(f1)


def test_attachment_scores_count_every_word_and_may_ignore_subtypes():
    gold = [([2, 0, 2], ["nsubj", "root", "obl:tmod"]), ([0], ["root"])]
    said = [([2, 0, 2], ["obj", "root", "obl"]), ([1], ["root"])]
    assert metrics.attachments(gold, said, labels=False).value == 3 / 4
    assert metrics.attachments(gold, said, labels=True).value == 1 / 4
    assert metrics.attachments(gold, said, labels=True, subtypes=False).value == 2 / 4


@pytest.mark.parametrize(
    "labels",
    [("0", "1"), ("not_equivalent", "equivalent"), ("not_duplicate", "duplicate"), ("unacceptable", "acceptable")],
)
def test_f1_is_of_the_class_that_glue_numbers_one_whatever_it_is_called(labels):
    numbers = np.random.default_rng(0).integers(0, 2, size=(2, 60))
    gold, said = ([labels[number] for number in row] for row in numbers)
    found = Classes(sorted(labels), Recipe()).statistics(gold, said)["f1"].value
    assert found == pytest.approx(sk.f1_score(*numbers), abs=1e-12)
