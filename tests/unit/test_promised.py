"""The lines at the end of a run say what was measured, what broke, and what was not run."""

import json

import pytest
from _pytest.reports import TestReport

from tests.promised import AMOUNTS, PROMISES, Records, amount_of, lines, record_of


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


def test_a_figure_of_one_size_has_no_label():
    reports = [report("fuzzing", figure="10 minutes"), report("fuzzing")]
    assert list(lines(reports, every=False)) == ["fuzzing: held; 10 minutes; 2 tests passed"]


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


class TestRecords:
    def test_what_was_measured_and_what_failed(self, tmp_path):
        file = tmp_path / "new" / "promises.jsonl"
        records = Records(file)
        for one in (
            report("sweeps", size="full", figure="20 kills"),
            report("sweeps", size="full", figure="20 kills", when="teardown"),
            report("traversal", figure="9 paths"),
            report("clean stop", "failed", when="setup"),
        ):
            records.pytest_runtest_logreport(one)
        found = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(one["promise"], one["outcome"], one["figure"]) for one in found] == [
            ("sweeps", "passed", "20 kills"),
            ("traversal", "passed", "9 paths"),
            ("clean stop", "failed", ""),
        ]
        assert found[0]["command"] == "pytest 'tests/x.py::sweeps'"
        assert found[0]["machine"]["cores"]

    def test_small_tests_and_those_without_a_figure_are_left_out(self):
        assert record_of(report("sweeps", size="small", figure="3 kills")) is None
        assert record_of(report("sweeps", size="full")) is None

    def test_a_share_is_told(self, monkeypatch):
        monkeypatch.setenv("MPHIL_SHARE", "0.1")
        assert record_of(report("sweeps", figure="2 kills"))["command"].startswith("MPHIL_SHARE=0.1 pytest ")
