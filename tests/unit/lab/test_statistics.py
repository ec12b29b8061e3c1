"""Statistics against values worked out by hand, independent formulas, scipy, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mphil.lab.statistics import (
    MeanRanks,
    centre_and_spread,
    critical_difference,
    differences,
    friedman_p,
    holm,
    mean_ranks,
    paired_p,
    ranks,
    seed_agreement,
    t_interval,
)

SCORES = st.lists(st.floats(0, 100), min_size=2, max_size=8)


def test_centre_and_spread():
    assert centre_and_spread([60.0, 62.0, 67.0]) == (63.0, pytest.approx(math.sqrt(13)))
    assert centre_and_spread([60.0]) == (60.0, None)


class TestInterval:
    def test_by_hand(self):
        """With one degree of freedom t is Cauchy: its quantile is tan(pi (q - 1/2))."""
        half = math.tan(math.pi * 0.475) / 2
        assert t_interval([0.0, 1.0]) == pytest.approx((0.5 - half, 0.5 + half))
        assert t_interval([1.0]) is None
        assert t_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)

    @given(SCORES)
    def test_against_scipy(self, values):
        if np.std(values) > 1e-6:
            found = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
            assert t_interval(values) == pytest.approx((found.low, found.high), rel=1e-6, abs=1e-6)

    @pytest.mark.parametrize("n", [3, 5])
    def test_covers_as_often_as_it_says(self, n):
        drawn = np.random.default_rng(0).normal(60.0, 5.0, size=(4000, n))
        covered = np.mean([low <= 60.0 <= high for low, high in map(t_interval, drawn.tolist())])
        assert covered == pytest.approx(0.95, abs=0.012)


class TestPaired:
    def test_t_by_hand(self):
        """Differences 1, 2, 3: t = 2 / (1 / sqrt 3) with 2 degrees of freedom, p = 1 - t / sqrt(t^2 + 2)."""
        t = 2 * math.sqrt(3)
        one, other = {0: 11.0, 1: 22.0, 2: 33.0, 9: 0.0}, {0: 10.0, 1: 20.0, 2: 30.0, 7: 99.0}
        assert differences(one, other) == [1.0, 2.0, 3.0]
        assert paired_p(one, other) == pytest.approx(1 - t / math.sqrt(t * t + 2), rel=1e-9)

    @pytest.mark.parametrize("other", [{0: 1.0}, {5: 1.0, 6: 2.0}, {0: 9.0, 1: 19.0}, {0: 10.0, 1: 20.0}])
    def test_no_test_where_there_is_nothing_to_judge_by(self, other):
        assert paired_p({0: 10.0, 1: 20.0}, other) is None

    def test_holm_by_hand(self):
        found = holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": None, "e": 0.5})
        assert found == {"a": 0.09, "b": 0.04, "c": 0.09, "d": None, "e": 0.5}
        assert holm({}) == {}

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
    def test_holm_rejects_as_its_definition_says(self, p_values):
        """Step down: the i-th smallest is rejected while it is at most 0.05 / (m - i)."""
        adjusted = holm({str(n): p for n, p in enumerate(p_values)})
        open_, m = True, len(p_values)
        for place, n in enumerate(sorted(range(m), key=lambda n: p_values[n])):
            open_ = open_ and p_values[n] <= 0.05 / (m - place)
            if abs(p_values[n] * (m - place) - 0.05) > 1e-9:
                assert (adjusted[str(n)] <= 0.05) == open_
            assert p_values[n] <= adjusted[str(n)] <= 1


class TestRanks:
    def test_ranks(self):
        assert ranks({"a": 1.0, "b": 3.0, "c": 3.0, "d": 2.0}) == {"a": 4.0, "b": 1.5, "c": 1.5, "d": 3.0}
        assert ranks({}) == {}

    @pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (7, 2.949), (10, 3.164)])
    def test_critical_difference_against_the_table_of_demsar(self, k, q):
        assert critical_difference(k, 6) == pytest.approx(q * math.sqrt(k * (k + 1) / 36), abs=2e-3)

    @given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=2, max_size=6))
    def test_friedman_against_scipy(self, table):
        places = [ranks(dict(zip("abcd", map(float, row), strict=True))) for row in table]
        if all(len(set(row)) == 1 for row in table):
            assert friedman_p(places) is None
        else:
            expected = stats.friedmanchisquare(*(-np.array(table).T)).pvalue
            assert friedman_p(places) == pytest.approx(expected, abs=1e-9)

    def test_friedman_needs_three_rows(self):
        assert friedman_p([{"a": 1.0, "b": 2.0}] * 4) is None

    def test_only_rows_complete_on_all_named_benchmarks(self):
        scores = {
            "x": {"a": 3.0, "b": 2.0, "c": 1.0, "d": 9.0},
            "begun": {"d": 1.0},
            "y": {"a": 1.0, "b": 2.0, "c": 3.0},
        }
        found = mean_ranks(scores)
        assert found.benchmarks == ("x", "y")
        assert found.ranks == {"a": 2.0, "b": 2.0, "c": 2.0}
        assert found.difference == critical_difference(3, 2)

    def test_more_benchmarks_are_worth_a_row(self):
        full = {"a": 3.0, "b": 2.0, "c": 1.0}
        found = mean_ranks({"x": full, "y": full, "z": {"a": 3.0, "b": 2.0}})
        assert (found.benchmarks, list(found.ranks)) == (("x", "y", "z"), ["a", "b"])

    @pytest.mark.parametrize("scores", [{}, {"x": {"a": 1.0, "b": 2.0}}, {"x": {"a": 1.0}, "y": {"a": 1.0}}])
    def test_no_mean_of_one(self, scores):
        assert mean_ranks(scores) is None

    def test_groups(self):
        found = MeanRanks((), {"a": 1.0, "b": 2.0, "c": 2.5, "d": 4.0, "e": 9.0}, None, 2.0)
        assert found.groups == [("a", "b", "c"), ("b", "c", "d")]


class TestSeeds:
    def test_seeds_that_agree(self):
        found = seed_agreement({"a": {0: 1.0, 1: 11.0}, "b": {0: 2.0, 1: 12.0}, "c": {0: 3.0, 1: 13.0, 2: 0.0}})
        assert (found.rows, found.seeds) == (3, 2)
        assert (found.correlation, found.typical, found.widest) == (pytest.approx(1.0), 0.0, 0.0)

    def test_seeds_that_turn_the_ranking_around(self):
        found = seed_agreement({"a": {0: 1.0, 1: 3.0}, "b": {0: 2.0, 1: 2.0}, "c": {0: 3.0, 1: 1.0}})
        assert found.correlation == pytest.approx(-1.0)
        assert (found.typical, found.widest) == (pytest.approx(4 / 3), 2.0)

    @pytest.mark.parametrize(
        "scores",
        [
            {},
            {"a": {0: 1.0, 1: 2.0}, "b": {0: 2.0, 1: 1.0}},
            {"a": {0: 1.0}, "b": {0: 2.0}, "c": {0: 3.0}},
            {"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 1.0}, "c": {0: 1.0, 1: 3.0}},
        ],
    )
    def test_too_little_to_compare(self, scores):
        assert seed_agreement(scores) is None
