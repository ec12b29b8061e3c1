"""Real processes that are killed, interrupted or starved: what is taken up again ends with the same bits."""

import csv
import json
import random
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mphil.training.checkpoint import Checkpoints
from tests.command import call, saved_step, wait_until

pytestmark = pytest.mark.promise("no training lost")

MPHIL = Path(sys.executable).with_name("mphil")
STEPS = 69
"""3 epochs of 23 batches."""
EVERY_BATCH, EVERY_EPOCH = 0, 5
"""Minutes between two checkpoints inside an epoch."""


RECIPE = ("optimizer=adamw", "weight_decay=0.1", "schedule=cosine", "warmup=0.1", "accumulate=2", "average=0.9")
RECIPE += ("edge_drop=0.5", "distract=0.5", "window=2")


def settings(method, minutes=EVERY_BATCH):
    """Arguments of a run; `METHOD-recipe` has all that the trainer can do."""
    method, _, recipe = method.partition("-")
    pairs = ("benchmark.graphs=600", "encoder.width=8", "encoder.layers=2")
    pairs += ("train.epochs=3", "train.batch_size=16", f"train.checkpoint_minutes={minutes}")
    pairs += tuple(f"train.{pair}" for pair in RECIPE) if recipe else ()
    options = [text for pair in pairs for text in ("--set", pair)]
    return ["train", "--benchmark", "good-motif-basis", "--method", method, *options]


@pytest.fixture(scope="module")
def uncut(tmp_path_factory):
    """Folders of runs that nobody disturbed."""
    folders = {}
    for method in ("erm", "mphil", "mphil-recipe"):
        folders[method] = tmp_path_factory.mktemp("uncut") / method
        # Saving at other moments must not matter either.
        assert call(*settings(method, EVERY_EPOCH), "--out", folders[method]).code == 0
    return folders


def result(folder):
    """What a run reports, without the time it took and how often it saved."""
    found = json.loads((folder / "result.json").read_text())
    del found["seconds"], found["cpu_seconds"], found["config"]["train"]["checkpoint_minutes"]
    return found


def assert_same_run(folder, other):
    assert result(folder) == result(other)
    mine, theirs = Checkpoints(folder / "checkpoint"), Checkpoints(other / "checkpoint")
    assert set(mine.groups()) == set(theirs.groups()) == {"state", "best-ood_val", "best-id_val"}
    for group in mine.groups():
        tensors, expected = mine.load(group), theirs.load(group)
        assert tensors.keys() == expected.keys()
        assert all(torch.equal(tensors[name], expected[name]) for name in tensors)
    for name, read in (("log.csv", csv.DictReader), ("log.jsonl", lambda file: map(json.loads, file))):
        with (folder / name).open() as one, (other / name).open() as another:
            rows, expected = list(read(one)), list(read(another))
        assert [int(row["epoch"]) for row in rows] == [1, 2, 3]
        assert [row | {"seconds": 0} for row in rows] == [row | {"seconds": 0} for row in expected]


def moments():
    """Three steps to be killed at, each well before the end so that a slow test is still in time."""
    return [random.randint(low, low + 12) for low in (1, 17, 33)]


class TestKill:
    @pytest.mark.slow
    def test_the_command_itself(self, uncut, tmp_path):
        """Three times `kill -9`: resumed with `mphil resume` and with `mphil train ... --resume`."""
        folder = tmp_path / "run"
        train = [MPHIL, *settings("mphil"), "--out", folder]
        for command, step in zip(([*train], [MPHIL, "resume", folder], [*train, "--resume"]), moments(), strict=True):
            with subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL) as process:
                wait_until(lambda step=step: saved_step(folder) >= step)
                process.kill()
            assert process.returncode == -signal.SIGKILL
            assert not (folder / "result.json").exists()
        ended = subprocess.run([MPHIL, "resume", folder, "--json"], capture_output=True, text=True, check=True)
        assert json.loads(ended.stdout) == json.loads((folder / "result.json").read_text())
        assert all(line.startswith("mphil: epoch ") for line in ended.stderr.splitlines()), "nothing but progress"
        assert_same_run(folder, uncut["mphil"])

    @pytest.mark.parametrize(
        "method", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("erm", "mphil")), "mphil-recipe"]
    )
    def test_again_and_again(self, commands, uncut, tmp_path, method):
        folder = tmp_path / "run"
        arguments = [*settings(method), "--out", folder, "--resume"]
        for step in moments():
            process = commands.start(*arguments)
            wait_until(lambda step=step: saved_step(folder) >= step)
            process.send(signal.SIGKILL)
            assert process.wait().code == -signal.SIGKILL
        assert commands.start("resume", folder).wait().code == 0
        assert_same_run(folder, uncut[method])

    def test_right_after_the_start(self, commands, uncut, tmp_path):
        folder = tmp_path / "run"
        process = commands.start(*settings("erm", EVERY_EPOCH), "--out", folder)
        wait_until((folder / "config.json").exists)
        process.send(signal.SIGKILL)
        assert process.wait().code == -signal.SIGKILL
        assert json.loads((folder / "config.json").read_text())["config"]["method"]["name"] == "erm"
        assert not (folder / "result.json").exists()
        assert call("resume", folder).code == 0
        assert_same_run(folder, uncut["erm"])


class TestInterrupt:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_saves_and_says_how_to_go_on(self, commands, uncut, tmp_path, number):
        for attempt in range(5):
            folder = tmp_path / f"run-{attempt}"
            # Nothing is saved inside an epoch unless the interrupt does it.
            process = commands.start(*settings("mphil", EVERY_EPOCH), "--out", folder)
            wait_until(lambda folder=folder: saved_step(folder) >= 23)
            process.send(number)
            ended = process.wait()
            if ended.code:  # else the machine was so busy that the signal came too late
                break
        assert ended.code == 128 + number
        assert ended.err == f"stopped; everything so far is saved. Continue with: mphil resume {folder}\n"
        assert ended.out == ""
        assert 23 <= saved_step(folder) < STEPS
        assert commands.start("resume", folder).wait().code == 0
        assert_same_run(folder, uncut["mphil"])

    def test_before_anything_is_there_to_go_on_with(self, monkeypatch, tmp_path):
        def stop(*args, **kwargs):
            raise KeyboardInterrupt

        monkeypatch.setattr("mphil.training.run.build_method", stop)
        ended = call(*settings("erm"), "--out", tmp_path / "run")
        assert (ended.code, ended.err) == (130, "stopped; give the same command again\n")


class TestTwoProcesses:
    def test_the_second_is_refused_and_the_first_goes_on(self, commands, uncut, tmp_path):
        folder = tmp_path / "run"
        first = commands.start(*settings("erm"), "--out", folder)
        wait_until(lambda: saved_step(folder) >= 1)
        for arguments in (["resume", folder], [*settings("erm"), "--out", folder], ["resume", folder]):
            ended = call(*arguments)
            assert ended.code == 4
            assert (
                ended.err == f"error: {folder} is in use by process {first.pid}; wait for it or choose another --out\n"
            )
        assert first.wait().code == 0
        assert_same_run(folder, uncut["erm"])


class TestDisk:
    def test_full(self, uncut, tmp_path):
        """A limit on the size of files stands for a disk without space: the first checkpoint does not fit."""
        folder = tmp_path / "run"
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        try:
            ended = call(*settings("erm", EVERY_EPOCH), "--out", folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert ended.code == 3
        named = rf"{folder}/checkpoint/state-\w+\.safetensors"
        assert re.fullmatch(rf"error: cannot read or write {named}: File too large\n", ended.err)
        assert saved_step(folder) == 0
        assert call("resume", folder).code == 0
        assert_same_run(folder, uncut["erm"])
