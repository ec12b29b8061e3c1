"""Parts that are too small are merged or refused, and never train on what was held out for the test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.errors import DataError
from mphil.tables.assign import least_rows, shortage, with_sufficient_parts
from mphil.tables.splitting import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, Assignment


def made(*sizes):
    """Rows of each part in order, and labels that alternate."""
    part = np.repeat(np.arange(5), sizes)
    return Assignment(part, np.full(len(part), -1), {"rule": "test"}), (np.arange(len(part)) % 2.0)[:, None]


def sizes(assignment):
    return np.bincount(assignment.part, minlength=5).tolist()


def test_large_parts_stay_as_they_are():
    assignment, y = made(600, 100, 100, 100, 100)
    assert with_sufficient_parts(assignment, y) is assignment


def test_thirteen_rows_choose_no_epoch():
    found = with_sufficient_parts(*made(5954, 782, 782, 13, 292))
    assert sizes(found) == [5954, 782, 782, 0, 305]
    assert found.provenance["merged"] == [
        "ood_val was added to ood_test, because ood_val has 13 rows where 50 are needed"
    ]


def test_small_parts_like_training():
    assert sizes(with_sufficient_parts(*made(40, 6, 2, 6, 6))) == [40, 8, 0, 6, 6]
    assert sizes(with_sufficient_parts(*made(40, 2, 2, 6, 6))) == [44, 0, 0, 6, 6]


def test_a_part_of_one_class():
    assignment, y = made(60, 10, 10, 10, 10)
    y[assignment.part == OOD_VAL] = 0
    assert sizes(with_sufficient_parts(assignment, y)) == [60, 10, 10, 0, 20]
    assert "of a second class" in shortage(assignment.part == OOD_VAL, y)
    y[assignment.part == OOD_TEST] = 0
    with pytest.raises(DataError, match="ood_val and ood_test together have 20 rows with fewer than 1 of a second"):
        with_sufficient_parts(assignment, y)


def test_one_task_of_several_is_enough():
    assignment, y = made(60, 10, 10, 10, 10)
    both = np.hstack([np.where(assignment.part[:, None] == OOD_VAL, np.nan, y), y])
    assert with_sufficient_parts(assignment, both) is assignment


def test_refusals():
    with pytest.raises(DataError, match="ood_val and ood_test together have 4 rows where 5 are needed"):
        with_sufficient_parts(*made(40, 10, 10, 2, 2))
    with pytest.raises(DataError, match="no part is large enough to choose an epoch on"):
        with_sufficient_parts(*made(40, 1, 1, 0, 10))


@given(st.lists(st.integers(0, 60), min_size=5, max_size=5))
def test_the_test_rows_are_never_trained_on(counts):
    assignment, y = made(100, *counts[1:])
    try:
        found = with_sufficient_parts(assignment, y)
    except DataError:
        return
    assert set(found.part[assignment.part == TRAIN]) == {TRAIN}
    assert not np.isin(found.part[assignment.part >= OOD_VAL], (TRAIN, ID_VAL, ID_TEST)).any()
    for code in (ID_VAL, ID_TEST, OOD_VAL, OOD_TEST):
        if (found.part == code).any():
            assert (found.part == code).sum() >= least_rows(len(y))
