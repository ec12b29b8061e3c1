"""Sweeps: the lab and tuning, killed again and again, lose no run, repeat none and tear no record.

Workers of a fifth of a second stand for training; what is killed is the real thing. Real trainings are killed by
`tests/fault/test_lab.py`, a node of a Ray cluster is lost in `tests/fault/test_ray.py`.
"""

import multiprocessing
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mphil.lab.engine import LocalEngine
from mphil.lab.records import RecordFile
from mphil.lab.sweep import sweep
from mphil.lab.tune import Search, search
from tests.command import wait_until
from tests.unit.lab.made import cells

pytestmark = pytest.mark.promise("sweeps")

STAND_IN = (sys.executable, str(Path(__file__).parents[1] / "unit" / "lab" / "stand_in.py"))


def lab(folder, number):
    """Cells that a sweep of the lab has to run."""
    wanted = [replace(cells()[0], seed=seed) for seed in range(number)]
    sweep(wanted, LocalEngine(folder / "runs", 2, STAND_IN), folder)
    return RecordFile(folder / "tiny.jsonl")


def tuning(folder, number):
    rates = [round(0.001 * (i + 1), 4) for i in range(number)]
    wanted = Search("erm", "good-motif-basis", number, also=[f"train.lr={rates}"])
    search(wanted, LocalEngine(folder / "runs", 2, STAND_IN), folder)
    return RecordFile(folder / "erm-good-motif-basis.jsonl")


@pytest.mark.parametrize(
    "work", [pytest.param(lab, id="lab"), pytest.param(tuning, id="tuning", marks=pytest.mark.slow)]
)
def test_killed_again_and_again(tmp_path, amount, figure, work):
    wanted, kills = amount("kills of sweeps"), 0
    runs, context, rng = max(5, wanted), multiprocessing.get_context("fork"), random.Random(0)
    while kills < wanted:
        process = context.Process(target=work, args=(tmp_path, runs))
        begun = recorded(tmp_path)
        process.start()
        # Most are killed amid their runs, some right after their start.
        pause = rng.uniform(0.01, 0.2) if kills % 3 == 0 else rng.uniform(0.3, 1.0)
        end = time.monotonic() + pause
        while process.is_alive() and time.monotonic() < end and recorded(tmp_path) <= begun:
            time.sleep(0.01)
        assert process.is_alive() or recorded(tmp_path) < runs, "it ended before it could be killed often enough"
        process.kill()
        process.join()
        kills += 1
    records, problems = work(tmp_path, runs).read()
    assert problems == []
    assert len(records) == len({record["cell"] for record in records}) == runs
    if work is lab:  # a trial that was killed is another one's settings for ever: its folder stays
        wait_until(lambda: not any(path.is_dir() for path in (tmp_path / "runs").iterdir()))
    figure(f"{work.__name__}: {kills} kills, {runs} runs, each recorded once, no record torn")


def recorded(folder):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))
