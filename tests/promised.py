"""The promises of docs/explanation/reliability.md: how much of each is tried, and the line that says what was found.

A test says which promise it is about with `pytest.mark.promise(NAME)`. The fixture `amount` gives the numbers of the
table below: those of `make test`, and in a second test, marked `slow`, those of `make test-all`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from mphil.provenance import checkout, machine

Size = Literal["small", "full"]

PROMISES = (
    "no training lost",
    "clean stop",
    "old state survives",
    "no silent corruption",
    "sweeps",
    "hostile molecules",
    "hostile tables",
    "hostile labels",
    "hostile text",
    "hostile bundles",
    "whole bundles",
    "server limits",
    "server under load",
    "server faults",
    "traversal",
    "determinism",
    "old bundles",
    "supply chain",
    "fuzzing",
)


class Amount(NamedTuple):
    """How much is tried in `make test`, and in `make test-all`."""

    small: int
    full: int


AMOUNTS = {
    "kills of trainings": Amount(5, 100),
    "full disks": Amount(10, 50),
    "flipped bits": Amount(200, 10_000),
    "truncations": Amount(40, 1_000),
    "kills of sweeps": Amount(3, 20),
    "molecules": Amount(200, 10_000),
    "tables": Amount(51, 5_000),
    "columns": Amount(30_000, 1_000_000),
    "bytes of a line": Amount(8_000_000, 1_000_000_000),
    "columns of labels": Amount(6, 41),
    "tensors": Amount(20_000, 1_000_000),
    "bytes of a header": Amount(2_000_000, 100_000_000),
    "seconds of overload": Amount(3, 300),
    "kills of workers": Amount(0, 100),
    "vanishing clients": Amount(60, 10_000),
    "one path of so many": Amount(50, 1),
    "minutes of fuzzing": Amount(0, 10),
}


def amount_of(name: str, size: Size) -> int:
    """A number of the table; `MPHIL_SHARE=0.1` makes the full ones that much smaller, on a machine with little time."""
    if size == "small":
        return AMOUNTS[name].small
    share = float(os.environ.get("MPHIL_SHARE", "1"))
    return max(1, round(AMOUNTS[name].full * share))


def lines(reports: Iterable[pytest.TestReport], *, every: bool) -> Iterator[str]:
    """One line for each promise: what was measured, what failed, or why it was not tried.

    Args:
        reports: of all tests.
        every: also tell of promises that no test was about.
    """
    found: dict[str, list[pytest.TestReport]] = {name: [] for name in PROMISES}
    for report in reports:
        if "promise" in dict(report.user_properties):
            found[dict(report.user_properties)["promise"]].append(report)
    for name, about in found.items():
        if about or every:
            yield f"{name}: {_found(about)}"


class Records:
    """Writes what tests of promises have measured, or that they failed, to a file: one line of JSON for each test.

    Small tests, and those that measure nothing, are left out. The page of the promises shows the newest line of each.

    Args:
        path: of the file; lines are added to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = record_of(report)
        if record is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(record) + "\n")


def record_of(report: pytest.TestReport) -> dict[str, Any] | None:
    """What is kept of a test."""
    told = dict(report.user_properties)
    if "promise" not in told or told.get("size") == "small" or not (report.failed or "figure" in told):
        return None
    if report.when != "call" and not report.failed:
        return None
    share = os.environ.get("MPHIL_SHARE", "1")
    return {
        "promise": told["promise"],
        "test": report.nodeid,
        "outcome": report.outcome,
        "figure": told.get("figure", ""),
        "seconds": round(report.duration, 1),
        "date": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 1),
        "machine": machine(),
        **checkout(),
        "command": ("" if share == "1" else f"MPHIL_SHARE={share} ") + f"pytest '{report.nodeid}'",
    }


def _found(reports: list[pytest.TestReport]) -> str:
    failed = sorted({report.nodeid for report in reports if report.failed})
    if failed:
        return f"BROKEN: {'; '.join(failed)}"
    passed = [report for report in reports if report.when == "call" and report.passed]
    reasons = sorted({str(report.longrepr[2]) for report in reports if report.skipped and report.longrepr})
    skipped = [f"not run: {reason.removeprefix('Skipped: ')}" for reason in reasons]
    if not passed:
        return "; ".join(skipped) or "not run: none of its tests was selected"
    figures = {size: [] for size in ("full", "small", "")}
    for report in passed:
        told = dict(report.user_properties)
        if "figure" in told:
            figures[told.get("size", "")].append(told["figure"])
    size = next((size for size in ("full", "small") if figures[size]), "")
    shown = [f"{size}: {told}" if size else told for told in sorted(figures[size])[:1]]
    shown += sorted(figures[size])[1:] + (sorted(figures[""]) if size else [])
    return "; ".join(["held", *shown, f"{len(passed):,} tests passed", *skipped])
