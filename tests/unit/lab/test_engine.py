"""The local engine: processes that end well, badly, or not at all."""

import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mphil.lab import engine as module
from mphil.lab.engine import LocalEngine
from tests.command import wait_until
from tests.unit.lab.made import cells

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
CELL = cells()[0]


def asked(*rows):
    return [replace(CELL, row=row, seed=number) for number, row in enumerate(rows)]


def engine(folder, jobs=2):
    return LocalEngine(folder, jobs, STAND_IN)


def outcomes(folder, *rows, jobs=2):
    return {outcome.cell.row: outcome for outcome in engine(folder, jobs).run(asked(*rows))}


def test_every_end_is_told(tmp_path):
    found = outcomes(tmp_path, "good", "fails", "dies", "killed", "busy")
    states = {row: outcome.state for row, outcome in found.items()}
    assert states == {"good": "run", "fails": "failed", "dies": "failed", "killed": "failed", "busy": "busy"}
    assert found["good"].record["threads"] == "1"
    assert found["fails"].record["error"] == "on purpose"
    assert found["dies"].record["error"] == "the worker ended with exit code 9 and left no outcome: out of memory"
    assert found["dies"].record["trace"] == "out of memory\n"
    assert found["killed"].record["error"] == "the worker ended with signal 9 and left no outcome"
    assert found["dies"].record["command"] == CELL.command


def test_cells_are_taken_as_there_is_room(tmp_path):
    taken = []

    def lazily():
        for cell in asked("good", "good", "good", "good"):
            taken.append(cell.seed)
            yield cell

    with closing(engine(tmp_path).run(lazily())) as running:
        next(running)
        assert taken == [0, 1]
        next(running)
        assert taken == [0, 1, 2]
        assert len(list(running)) == 2


def test_closing_stops_own_workers_and_waits_for_them(tmp_path):
    cells = asked("good", "hangs")
    running = engine(tmp_path).run(cells)
    assert next(running).cell.row == "good"
    home = tmp_path / cells[1].id
    wait_until((home / "started").exists)
    running.close()
    assert (home / "stopped").exists()


def test_a_worker_that_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.1)
    cells = asked("good", "deaf")
    running = engine(tmp_path).run(cells)
    next(running)
    wait_until((tmp_path / cells[1].id / "started").exists)
    began = time.monotonic()
    running.close()
    assert time.monotonic() - began < 30  # it would have slept for a minute


def test_a_program_that_cannot_be_started_at_all(tmp_path):
    broken = LocalEngine(tmp_path, 1, (sys.executable, "-c", "raise SystemExit(5)"))
    (outcome,) = broken.run(asked("good"))
    assert "exit code 5" in outcome.record["error"]


def test_clear(tmp_path):
    (tmp_path / CELL.id / "run").mkdir(parents=True)
    engine(tmp_path).clear(CELL)
    engine(tmp_path).clear(CELL)
    assert not (tmp_path / CELL.id).exists()
