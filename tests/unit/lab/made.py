"""Tiny suites, records made by hand, and an engine without processes."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mphil.lab.cells import Cell, expand
from mphil.lab.engine import Outcome
from mphil.lab.records import Record
from mphil.lab.suite import Suite, parse_suite
from mphil.lab.worker import BUSY, DONE, carry_out, failure, identity

TINY = """
title = "Tiny"
benchmarks = ["good-motif-basis"]
methods = ["erm"]
seeds = [0, 1]

[settings]
benchmark = { graphs = 200 }
encoder = { width = 8, layers = 2 }
train = { epochs = 1, batch_size = 60 }
"""
TREES = """
title = "Trees"
benchmarks = ["decoy-scaffold"]
methods = ["forest", "erm"]
seeds = [0]

[settings]
benchmark = { graphs = 150 }
encoder = { width = 8, layers = 2 }
train = { epochs = 1, batch_size = 24, scored = "validation" }

[budgets.half]
epochs = 2
fraction = 0.5
"""
BROKEN = """
[[variants]]
name = "broken"
method = "erm"
settings.train = { lr = 1e30, epochs = 2 }
"""


def tiny(extra: str = "", name: str = "tiny") -> Suite:
    return parse_suite(name, TINY + extra)


def cells(extra: str = "") -> list[Cell]:
    return expand(tiny(extra))


def record(cell: Cell, score: float | None = 0.5, *, id_test: float = 0.9, last: float = 0.4, **changes) -> Record:
    """What a run would have left, with these scores on the test parts."""
    chosen = {"epoch": 1, "scores": {"id_test": id_test, "ood_test": score, "ood_val": 0.6, "id_val": 0.7}}
    made = identity(cell, "run") | {
        "metric": "accuracy",
        "selections": {"ood_val": chosen},
        "last": {"epoch": 4, "scores": {"ood_test": last}},
        "config": {"benchmark": {"name": cell.benchmark}},
        "data_digest": "data",
        "split_digest": "split",
        "seconds": 8.0,
        "versions": {"mphil": "0.1.0"},
        "history": {"ood_val": [0.6]},
        "probes": {},
    }
    return made | changes


@dataclass
class Inline:
    """An engine in this process; `scripted` cells (by row) get an outcome without being run."""

    home: Path
    scripted: dict[str, str] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome]:
        for cell in cells:
            self.started.append(cell.id)
            yield self._outcome(cell)

    def clear(self, cell: Cell) -> None:
        for path in sorted((self.home / cell.id).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if (self.home / cell.id).exists():
            (self.home / cell.id).rmdir()

    def _outcome(self, cell: Cell) -> Outcome:
        state = self.scripted.get(cell.row, "")
        if state == "run":
            return Outcome(cell, "run", record(cell))
        if state == "failed":
            return Outcome(cell, "failed", failure(cell, "it broke"))
        if state == "refused":
            return Outcome(cell, "refused", refused(cell))
        if state == "busy":
            return Outcome(cell, "busy", {})
        code = carry_out(cell, self.home / cell.id)
        if code == BUSY:
            return Outcome(cell, "busy", {})
        name = "record.json" if code == DONE else "failure.json"
        found = json.loads((self.home / cell.id / name).read_text())
        return Outcome(cell, found["kind"], found)


def refused(cell: Cell, reason: str = "no molecules") -> Record:
    return identity(cell, "refused") | {"reason": reason, "versions": {"mphil": "0.1.0"}}
