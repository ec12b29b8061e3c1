"""Differences of two models on the same rows."""

import numpy as np
import pytest

from mphil.task import Task
from mphil.training.paired import paired_difference

BINARY = Task("binary", 1, "roc_auc")


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, (n, 1)).astype(float)
    return y, y + rng.normal(0, 1, (n, 1)), rng.normal(0, 1, (n, 1))


def test_a_model_that_knows_against_one_that_guesses():
    y, knows, guesses = rows(300)
    found = paired_difference(knows, guesses, y, BINARY)
    assert found.is_clear
    assert 0 < found.low < found.value < found.high
    other = paired_difference(guesses, knows, y, BINARY)
    assert (other.value, other.low, other.high) == pytest.approx((-found.value, -found.high, -found.low))


def test_two_that_guess():
    y, _, guesses = rows(100)
    found = paired_difference(guesses, rows(100, seed=1)[2], y, BINARY)
    assert not found.is_clear
    same = paired_difference(guesses, guesses, y, BINARY)
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_nothing_to_compare():
    y, knows, guesses = rows(20)
    assert paired_difference(knows, guesses, np.ones_like(y), BINARY) is None
