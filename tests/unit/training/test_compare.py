"""Runs and models side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mphil.errors import UsageError
from mphil.graphs.split import PARTS
from mphil.task import Task
from mphil.training.compare import compare, paired_difference


@dataclass
class Finished:
    result: dict


def finished(method, score, seed=0, **changes):
    selections = {
        rule: {"epoch": 1, "scores": dict.fromkeys(PARTS, score + extra) | {"id_val": None}}
        for rule, extra in (("ood_val", 0.0), ("id_val", 0.1))
    }
    result = {"benchmark": "toys", "method": method, "metric": "accuracy", "selections": selections}
    return Finished(result | {"seeds": {"training": seed}, "data_digest": "d", "split_digest": "s"} | changes)


def test_table():
    table = compare(finished("erm", 0.5), finished("mphil", 0.25, seed=11))
    assert str(table) == repr(table)
    assert str(table).splitlines() == [
        "                    train    id_val   id_test   ood_val  ood_test",
        "erm (seed 0)       0.5000         -    0.5000    0.5000    0.5000",
        "mphil (seed 11)    0.2500         -    0.2500    0.2500    0.2500",
        "accuracy, epoch chosen on ood_val",
    ]


def test_the_other_rule():
    table = compare(finished("erm", 0.5), selection="id_val")
    assert table.rows[0][1]["ood_test"] == 0.6
    assert str(table).endswith("epoch chosen on id_val")


@pytest.mark.parametrize("change", [{"benchmark": "other"}, {"split_digest": "x"}, {"data_digest": "x"}])
def test_runs_on_different_data(change):
    with pytest.raises(UsageError, match="do not share their data and split: .*toys"):
        compare(finished("erm", 0.5), finished("mphil", 0.5, **change))


def test_a_rule_that_chose_nothing():
    with pytest.raises(UsageError, match="erm has no epoch chosen on ood_val"):
        compare(finished("erm", 0.5, selections={}))


def test_nothing():
    with pytest.raises(UsageError, match="nothing to compare"):
        compare()


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
