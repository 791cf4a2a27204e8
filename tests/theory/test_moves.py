"""Moves of neurons over runs and re-fits: intervals cover what they say, and noise of the solver is no move."""

import numpy as np
import pytest
from scipy import stats

from vestige.errors import AnalysisError
from vestige.neurons.moves import Fits, mean_move, moves

OFFSETS = np.arange(0, 601, 100)


@pytest.mark.parametrize("runs", [1, 3, 5])
@pytest.mark.parametrize("of_runs, of_fits", [(1.0, 0.0), (1.0, 0.5), (0.3, 1.0), (0.0, 1.0)])
def test_the_interval_covers_the_move(runs, of_runs, of_fits):
    """A percentile bootstrap covers 78 % of three runs and 85 % of five."""
    if runs == 1:
        of_runs, of_fits = 0.0, 1.0
    rng = np.random.default_rng(runs)
    times = 8000
    base = rng.normal(0, of_fits, (2, times))
    tuned = 0.7 + rng.normal(0, of_runs, (runs, 1, times)) + rng.normal(0, of_fits, (runs, 2, times))
    low, high = mean_move(base, tuned).interval(0.95)
    assert 0.94 <= ((low <= 0.7) & (high >= 0.7)).mean() <= 0.985


def selected(rng, scores, noise, count=60):
    """The top of scores that a fit has found up to some noise."""
    fits = scores + noise * rng.normal(size=(2, len(scores)))
    return Fits(*np.argsort(-fits, axis=1)[:, :count])


@pytest.mark.parametrize("runs", [1, 3])
def test_fits_of_one_model_exchange_no_more_than_refits(runs):
    """The scores of neurons are the same in base and tuned; all that differs is the fit."""
    rng = np.random.default_rng(runs)
    found = []
    for _ in range(400):
        scores = rng.normal(size=600)
        models = [selected(rng, scores, 0.7) for _ in range(1 + runs)]
        found.append(moves(models[0], models[1:], OFFSETS))
    assert np.mean([one.beyond.low > 0 for one in found]) <= 0.05
    wrong = [not one.statistic["mean_layer"].low <= 0 <= one.statistic["mean_layer"].high for one in found]
    assert stats.binomtest(int(np.sum(wrong)), len(found), 0.05).pvalue > 0.01


def test_a_selection_that_changes_beyond_refits_is_found():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=600)
    base = selected(rng, scores, 0.3)
    low_layers = np.repeat([1.5, 1.5, 0, 0, 0, 0], 100)
    for runs in (1, 3):
        tuned = [selected(rng, scores + low_layers, 0.3) for _ in range(runs)]
        found = moves(base, tuned, OFFSETS)
        assert found.beyond.low > 5
        assert found.statistic["mean_layer"].high < 0
        shares = [one.value for one in found.share]
        assert sum(shares) == pytest.approx(0) and shares[0] > 0.1


def test_what_leaves_beyond_refits_is_what_leaves_less_what_refits_exchange():
    base, tuned = Fits(np.arange(10), np.arange(1, 11)), Fits(np.arange(6, 16), np.arange(8, 18))
    assert (base.turnover, tuned.turnover) == (1, 2)
    between = [len(np.setdiff1d(a, b)) for a in (base.first, base.again) for b in (tuned.first, tuned.again)]
    assert moves(base, [tuned], OFFSETS).beyond.value == pytest.approx(np.mean(between) - 1.5)


def test_a_move_needs_a_run():
    with pytest.raises(AnalysisError, match="at least one tuned run"):
        moves(Fits(np.arange(3), np.arange(3)), [], OFFSETS)
