"""Sweeps that are killed at any moment end with exactly their runs, and disturb nothing else."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mphil.lab.records import read_folder
from tests.command import saved_step, wait_until
from tests.unit.lab.made import BROKEN, TINY

pytestmark = pytest.mark.promise("sweeps")

MPHIL = Path(sys.executable).with_name("mphil")


def command(folder, *options):
    places = ["--out", folder / "results", "--runs", folder / "runs", "--jobs", 2, "--dirty"]
    return list(map(str, [MPHIL, "lab", "run", folder / "tiny.toml", *places, *options]))


def ids(folder):
    return sorted(record["cell"] for record in read_folder(folder)[0])


def test_the_real_thing_once(tmp_path, commands):
    (tmp_path / "tiny.toml").write_text(TINY)
    ended = commands.start(*command(tmp_path, "--seeds", 1)[1:]).wait()
    assert ended.code == 0, ended
    assert ended.out.startswith("1 cells: 1 run, 0 refused by their method, 0 recorded before, 0 failed\n")
    (record,) = read_folder(tmp_path / "results")[0]
    assert (record["row"], record["seed"], record["machine"]["threads"]) == ("erm", 1, 1)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_the_command_isolates_a_failure_and_saves_on_ctrl_c(tmp_path):
    """A cell that fails beside one that is interrupted, resumed and recorded."""
    long = TINY.replace("epochs = 1", "epochs = 100, checkpoint_minutes = 0").replace("[0, 1]", "[0]")
    (tmp_path / "tiny.toml").write_text(long + BROKEN)
    with subprocess.Popen(command(tmp_path), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: any((tmp_path / "runs").glob("*/run/checkpoint/checkpoint.json")))
        failed = tmp_path / "results" / "tiny.failed.jsonl"
        wait_until(failed.exists)
        process.send_signal(signal.SIGINT)
        told = process.communicate()[1]
    assert process.returncode == 130
    assert told.endswith("stopped; everything so far is saved. The same command continues from here.\n")
    assert "not a finite number" in json.loads(failed.read_text())["error"]
    assert ids(tmp_path / "results") == []
    saved = json.loads(next((tmp_path / "runs").glob("*/run/checkpoint/checkpoint.json")).read_text())["meta"]["at"]
    assert 0 < saved["step"] < 200
    ended = subprocess.run(command(tmp_path, "--methods", "erm"), capture_output=True, text=True, check=True)
    assert "1 cells: 1 run, 0 refused by their method, 0 recorded before, 0 failed" in ended.stdout
    (record,) = read_folder(tmp_path / "results")[0]
    assert len(record["history"]["ood_val"]) == 100


EPOCHS, STEPS = 60, 120
"""Of each of the six runs below."""


def steps_done(folder):
    """Steps that are safe: those of recorded runs, and those of the checkpoints of the others."""
    recorded = ids(folder / "results")
    homes = [home for home in (folder / "runs").glob("*") if home.name not in recorded]
    return STEPS * len(recorded) + sum(saved_step(home / "run") for home in homes)


@pytest.mark.slow
def test_twenty_kills(tmp_path, figure):
    """Ten times amid the start, ten times amid training; the numbers are those of runs that nobody disturbed."""
    text = TINY.replace("[0, 1]", "[0, 1, 2, 3, 4, 5]").replace("epochs = 1", f"epochs = {EPOCHS}")
    (tmp_path / "tiny.toml").write_text(text)
    for number in range(20):
        goal = steps_done(tmp_path) + random.randint(1, 16)
        with subprocess.Popen(command(tmp_path), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            if number % 2:
                wait_until(lambda goal=goal: steps_done(tmp_path) >= goal)
            else:
                time.sleep(random.uniform(0.2, 2.5))
            process.kill()
        assert process.returncode == -signal.SIGKILL
    assert len(ids(tmp_path / "results")) < 6
    subprocess.run(command(tmp_path), check=True, capture_output=True)
    lines = [json.loads(line) for line in (tmp_path / "results" / "tiny.jsonl").read_text().splitlines()]
    assert sorted(line["seed"] for line in lines) == [0, 1, 2, 3, 4, 5]
    assert all(len(line["history"]["ood_val"]) == EPOCHS for line in lines)
    cut = next(line for line in lines if line["seed"] == 0)  # of the first pair, and so the most often killed
    subprocess.run(
        [*command(tmp_path, "--seeds", 0), "--out", str(tmp_path / "alone")], check=True, capture_output=True
    )
    (uncut,) = read_folder(tmp_path / "alone")[0]
    assert (cut["selections"], cut["history"]) == (uncut["selections"], uncut["history"])
    figure("lab with real trainings: 20 kills, 6 runs, each recorded once, numbers as without kills")
