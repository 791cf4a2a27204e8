"""The rule by which examples call a paper's claim supported, contradicted or open."""

from math import nan

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from vestige.papers.verdicts import Claim, Estimate, Part


def verdict(*parts: Part, share: float = 1.0) -> bool | None:
    return Claim("The paper says so.", parts, share=share).agrees


class TestParts:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [(0.01, 0.09, True), (-0.01, 0.11, None), (-0.09, -0.01, False), (nan, nan, None)],
    )
    def test_the_whole_interval_decides_and_a_number_without_one_decides_nothing(self, low, high, expected):
        value = 9.0 if np.isnan(low) else (low + high) / 2
        assert verdict(Part("gain", Estimate(value, low, high), above=0)) is expected

    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [(-0.01, 0.02, True), (-0.01, 0.06, None), (0.06, 0.09, False), (-0.2, 0.2, None)],
    )
    def test_hardly_a_change_needs_an_interval_within_the_margin(self, low, high, expected):
        """That nothing is significant does not show that nothing changed."""
        part = Part("change", Estimate((low + high) / 2, low, high), above=-0.05, below=0.05)
        assert verdict(part) is expected

    def test_a_difference_that_is_only_described_has_no_interval(self):
        row = pd.Series({"difference": 0.4, "low": 0.3, "high": 0.5, "p": 0.01, "runs": 1, "verdict": "described"})
        assert verdict(Part("gain", Estimate.of_row(row), above=0)) is None
        assert verdict(Part("gain", Estimate.of_row(row.replace("described", "undecided")), above=0)) is True


class TestClaims:
    up, down, open = (Estimate(2, 1, 3), Estimate(-2, -3, -1), Estimate(1, -1, 3))

    def parts(self, *estimates: Estimate) -> list[Part]:
        return [Part("", estimate, above=0) for estimate in estimates]

    def test_all_parts_must_be_supported(self):
        assert verdict(*self.parts(self.up, self.up)) is True
        assert verdict(*self.parts(self.up, self.open)) is None
        assert verdict(*self.parts(self.up, self.down)) is False
        assert verdict() is None

    def test_a_claim_on_most_cases_allows_for_some(self):
        assert verdict(*self.parts(*[self.up] * 9, self.down), share=0.9) is True
        assert verdict(*self.parts(*[self.up] * 8, self.down, self.down), share=0.9) is False
        assert verdict(*self.parts(*[self.up] * 8, self.open, self.open), share=0.9) is None

    def test_very_few_cases_beyond_the_bound_are_no_support_where_most_are_open(self):
        """2 of 168 beyond, 166 open: absence of significance."""
        assert verdict(*self.parts(*[self.open] * 166, self.down, self.down), share=0.95) is None

    def test_one_of_many_parts_speaks_against_a_claim_only_after_correction(self):
        barely = Estimate(-1, -1.95, -0.05)
        assert verdict(*self.parts(barely)) is False
        assert verdict(*self.parts(barely, *[self.up] * 19)) is None

    def test_the_verdict_is_written_with_the_numbers_it_comes_from(self):
        claim = Claim("It gains.", self.parts(self.up, self.open), lead="Gain", scale=1, note="One run.")
        assert claim.text() == (
            "*It gains.* **Cannot be told.** Gain:  +2.0 (+1.0 to +3.0);  +1.0 (-1.0 to +3.0) points. One run."
        )
        many = Claim("It gains.", self.parts(*[self.up] * 9, Estimate(3.0)))
        assert "of 9 intervals 9 are where the paper has them, 0 are wholly elsewhere" in many.text()
        assert "1 of 10 numbers have no interval" in many.text()


class TestEstimates:
    def test_runs_give_students_interval(self):
        values = [0.1, 0.2, 0.4]
        found = Estimate.of_runs(values)
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
        assert not Estimate.of_runs([0.1]).known
        assert not Estimate.of_runs([0.14] * 3).known, "runs that are all equal show no error"

    @pytest.mark.parametrize("degrees", [2.0, 4.5, 30.0])
    def test_an_interval_over_runs_is_widened_by_its_own_degrees_of_freedom(self, degrees):
        """The table has no degrees of freedom, but interval and p together tell them."""
        half, p = stats.t.ppf(0.975, degrees), 2 * stats.t.sf(3, degrees)
        row = pd.Series({"difference": 3.0, "low": 3 - half, "high": 3 + half, "p": p, "runs": 3, "verdict": "higher"})
        wide = Estimate.of_row(row).widened(8)
        assert wide.high - 3 == pytest.approx(stats.t.ppf(1 - 0.025 / 8, degrees), rel=1e-3)
        assert Estimate.of_row(row.replace(3, 1)).degrees == float("inf")

    def test_a_difference_has_the_errors_of_both(self):
        found = Estimate(5, 2, 8) - Estimate(1, -3, 5)
        assert (found.value, found.low, found.high) == pytest.approx((4, -1, 9))
        assert not (Estimate(5) - Estimate(1, 0, 2)).known

    def test_a_mean_of_dependent_numbers_is_no_surer_than_they_are(self):
        found = Estimate.mean_of([Estimate(1, 0, 2), Estimate(3, 2, 4)])
        assert (found.value, found.low, found.high) == (2, 1, 3)

    def test_seen_from_the_other_side_low_and_high_change_places(self):
        assert Estimate(1, 0, 3).times(-2) == Estimate(-2, -6, 0)

    def test_intervals_are_widened_as_bonferroni_asks(self):
        z = stats.norm.ppf(0.975)
        wide = Estimate(0, -z, z).widened(10)
        assert wide.high == pytest.approx(stats.norm.ppf(1 - 0.0025))
