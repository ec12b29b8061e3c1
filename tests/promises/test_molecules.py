"""Hostile molecules: rows out = rows in, no crash, none over a second."""

import time

import pytest

from mphil.chem.batch import molecule_batch
from mphil.tables.pool import run
from tests.mutated import mutated

HUGE = [
    "C" * 3_999,
    "C1" * 1_999,
    "(" * 3_999,
    "[C@@H]" * 600,
    "C%99" * 900,
    "c1ccccc1" * 499,
    "." * 3_999,
    "C.." * 1_300,
]


@pytest.mark.parametrize("number", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_row_comes_back(promise, number):
    rows = [*HUGE, *mutated(number - len(HUGE), seed=11)]
    batch = run("molecules", rows, {"schema": "good"}, workers=1)
    refused = {issue.row for issue in batch.issues}
    assert len(batch.arrays["n_nodes"]) + len(refused) == len(rows)
    assert not {issue.status for issue in batch.issues} & {"crash", "timeout"}
    slowest = 0.0
    for text in [*HUGE, *rows[len(HUGE) :: max(1, number // 400)]]:
        begun = time.process_time()
        molecule_batch([text], schema="good")
        slowest = max(slowest, time.process_time() - begun)
    assert slowest < 1.0
    promise("hostile molecules", f"{number:,} strings, {len(refused):,} refused with a status, slowest {slowest:.2f} s")
