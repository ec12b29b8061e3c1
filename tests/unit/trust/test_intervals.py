"""Intervals around predicted numbers keep their promise, and say when they cannot make one."""

import numpy as np
import pytest

from mphil.errors import DataError, IntegrityError, UsageError
from mphil.trust.conformal import Intervals

NAN = float("nan")


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize("uneven", [False, True])
def test_the_promise_holds_on_average(alpha, uneven):
    """Over many draws of held-out and new graphs the covered share is 1 - alpha, up to 1 / (n + 1)."""
    draw, covered = np.random.default_rng(0), []
    for _ in range(400):
        spread = np.exp(draw.normal(size=(120, 1)))
        y = draw.normal(size=(120, 1)) * (spread if uneven else 1.0)
        apart = spread if uneven else None
        held, new = slice(0, 60), slice(60, 120)
        made = Intervals.fit(0 * y[held], y[held], alpha=alpha, spread=None if apart is None else apart[held])
        covered.append(made.coverage(0 * y[new], y[new], None if apart is None else apart[new]).covered)
    assert np.mean(covered) == pytest.approx(1 - alpha + 0.5 / 61, abs=0.02)


def test_spread_makes_easy_graphs_narrow_and_hard_ones_wide():
    draw = np.random.default_rng(1)
    spread = np.where(np.arange(200)[:, None] % 2, 5.0, 0.5)
    y = draw.normal(size=(200, 1)) * spread
    made = Intervals.fit(0 * y, y, spread=spread)
    ends = made.around([[0.0], [0.0]], [[0.5], [5.0]])[:, 0]
    assert ends[1, 1] - ends[1, 0] > 1.5 * (ends[0, 1] - ends[0, 0])
    with pytest.raises(UsageError, match="these intervals go by the spread of several models"):
        made.around([[0.0]])


def test_models_that_agree_everywhere_have_no_spread_to_go_by():
    y = np.arange(20.0)[:, None]
    assert Intervals.fit(y, y + 1, spread=np.zeros_like(y)).offsets == (None,)


def test_each_task_has_its_own_unit_and_missing_labels_are_left_out():
    y = np.stack([np.arange(40.0), 100 * np.arange(40.0)], axis=1)
    errors = np.stack([np.linspace(0, 1, 40), np.linspace(0, 50, 40)], axis=1)
    y[30:, 1] = NAN
    made = Intervals.fit(np.nan_to_num(y) + errors, y, alpha=0.1)
    assert made.labels == (40, 30)
    assert made.quantiles == (pytest.approx(errors[36, 0]), pytest.approx(errors[27, 1]))
    found = made.coverage(np.nan_to_num(y), y)
    assert (found.labels, found.covered, found.by_task) == (70, 1.0, (1.0, 1.0))
    assert found.width == (pytest.approx(2 * errors[36, 0]), pytest.approx(2 * errors[27, 1]))


def test_too_few_labels_promise_nothing():
    y = np.array([[1.0, NAN], [2.0, NAN]])
    made = Intervals.fit(np.zeros((2, 2)), y)
    assert (made.quantiles, made.labels) == ((None, None), (2, 0))
    assert np.isinf(made.around([[0.0, 0.0]])).all()
    found = made.coverage(np.zeros((2, 2)), y)
    assert (found.by_task, found.width) == ((1.0, None), (None, None))


def test_round_trip_and_damage():
    made = Intervals.fit(np.zeros((30, 1)), np.arange(30.0)[:, None], spread=np.ones((30, 1)))
    assert Intervals.from_dict(made.to_dict()) == made
    for change in ({"alpha": 2}, {"quantiles": [-1.0]}, {"offsets": [0.0]}, {"labels": []}, {"more": 1}):
        with pytest.raises(IntegrityError, match="stored intervals cannot be used"):
            Intervals.from_dict(made.to_dict() | change)


def test_shapes():
    with pytest.raises(DataError, match=r"labels have shape \(2, 1\), predictions \(3, 1\)"):
        Intervals.fit(np.zeros((3, 1)), np.zeros((2, 1)))
