"""The lines at the end of a run say what was measured, what broke, and what was not run."""

import pytest
from _pytest.reports import TestReport

from tests.promised import AMOUNTS, PROMISES, amount_of, lines


def report(promise, outcome="passed", reason=None, when="call", **told):
    properties = [("promise", promise), *told.items()]
    longrepr = ("file", 1, f"Skipped: {reason}") if reason else None
    return TestReport(f"tests/x.py::{promise}", ("x", 1, "x"), {}, outcome, longrepr, when, user_properties=properties)


def test_one_line_for_each_promise():
    found = list(lines([], every=True))
    assert [line.partition(":")[0] for line in found] == list(PROMISES)
    assert {line.partition(": ")[2] for line in found} == {"not run: none of its tests was selected"}
    assert list(lines([], every=False)) == []


def test_full_figures_take_the_place_of_small_ones():
    reports = [report("sweeps", size="small", figure="3 kills"), report("sweeps", size="full", figure="20 kills")]
    reports += [report("sweeps"), report("clean stop", size="small", figure="1.0 s")]
    assert list(lines(reports, every=False)) == [
        "clean stop: held; small: 1.0 s; 1 tests passed",
        "sweeps: held; full: 20 kills; 3 tests passed",
    ]


def test_failures_and_what_was_left_out_are_told():
    reports = [
        report("sweeps", figure="3 kills"),
        report("sweeps", "failed"),
        report("clean stop", "skipped", "no ray"),
    ]
    reports += [report("traversal"), report("traversal", "skipped", "no browser", when="setup")]
    assert list(lines(reports, every=False)) == [
        "clean stop: not run: no ray",
        "sweeps: BROKEN: tests/x.py::sweeps",
        "traversal: held; 1 tests passed; not run: no browser",
    ]


def test_a_share_of_the_full_amounts(monkeypatch):
    assert [amount_of("tables", size) for size in ("small", "full")] == list(AMOUNTS["tables"])
    monkeypatch.setenv("MPHIL_SHARE", "0.1")
    assert [amount_of("tables", size) for size in ("small", "full")] == [AMOUNTS["tables"].small, 500]


@pytest.mark.parametrize("name", AMOUNTS)
def test_full_is_more_than_small(name):
    amount = AMOUNTS[name]
    assert amount.full > amount.small or name == "one path of so many"
