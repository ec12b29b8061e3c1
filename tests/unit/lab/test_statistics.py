"""Statistics against values worked out by hand."""

import math

import pytest

from mphil.lab.statistics import bootstrap_interval, centre_and_spread, paired_p, ranks, signed_rank_p


def test_centre_and_spread():
    assert centre_and_spread([60.0, 62.0, 67.0]) == (63.0, pytest.approx(math.sqrt(13)))
    assert centre_and_spread([60.0]) == (60.0, None)


def test_bootstrap_of_two_values():
    """Means of two draws from {0, 1}: 0, 1/2 and 1 with chances 1/4, 1/2 and 1/4."""
    assert bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)
    assert bootstrap_interval([0.0, 1.0], level=0.4) == (0.5, 0.5)
    assert bootstrap_interval([1.0]) is None
    assert bootstrap_interval([1.0, 2.0, 4.0]) == bootstrap_interval([1.0, 2.0, 4.0])


def test_bootstrap_covers_its_mean():
    low, high = bootstrap_interval([58.0, 60.0, 61.0, 65.0, 66.0])
    assert 58 <= low < 62 < high <= 66


def test_paired_t_by_hand():
    """Differences 1, 2, 3: t = 2 / (1 / sqrt 3) with 2 degrees of freedom, p = 1 - t / sqrt(t^2 + 2)."""
    t = 2 * math.sqrt(3)
    found = paired_p({0: 11.0, 1: 22.0, 2: 33.0, 9: 0.0}, {0: 10.0, 1: 20.0, 2: 30.0, 7: 99.0})
    assert found == pytest.approx(1 - t / math.sqrt(t * t + 2), rel=1e-9)


@pytest.mark.parametrize("other", [{0: 1.0}, {5: 1.0, 6: 2.0}, {0: 9.0, 1: 19.0}, {0: 10.0, 1: 20.0}])
def test_no_test_where_there_is_nothing_to_judge_by(other):
    assert paired_p({0: 10.0, 1: 20.0}, other) is None


def test_signed_rank_by_hand():
    """All six differences of one sign: 2 of the 2^6 sign patterns are as extreme."""
    ours = {str(n): float(n + n * n) for n in range(1, 7)}
    theirs = {str(n): float(n) for n in range(1, 7)} | {"other": 0.0}
    assert signed_rank_p(ours, theirs) == pytest.approx(2 / 64)
    assert signed_rank_p(dict(list(ours.items())[:5]), theirs) is None
    assert signed_rank_p(ours, ours) is None


def test_ranks():
    assert ranks({"a": 1.0, "b": 3.0, "c": 3.0, "d": 2.0}) == {"a": 4.0, "b": 1.5, "c": 1.5, "d": 3.0}
    assert ranks({}) == {}
