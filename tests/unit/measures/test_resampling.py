"""Intervals of ratios of sums, where some units weigh nothing."""

import numpy as np
import pytest

from vestige.measures.resampling import bootstrap_interval


def test_draws_without_any_weight_are_left_out():
    low, high = bootstrap_interval(np.array([[6.0], [0.0], [0.0]]), np.array([2.0, 0.0, 0.0]), resamples=200)
    assert low.tolist() == high.tolist() == pytest.approx([3.0])
