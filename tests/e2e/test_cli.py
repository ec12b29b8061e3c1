"""A newcomer's session with the command, in processes of its own."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
import tty
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SMALL = ["--set", "benchmark.graphs=600", "--set", "encoder.width=8", "--set", "encoder.layers=2"]
SCREEN = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
"""What moves the cursor and colours the text."""


def test_from_training_to_predictions(commands, tmp_path):
    """Train, evaluate, predict; JSON on stdout and silence on stderr, as nobody is watching."""
    folder = tmp_path / "runs" / "first"
    train = ["train", "--benchmark", "good-motif-basis", "--method", "mphil", *SMALL, "--set", "train.epochs=2"]
    trained = commands.start(*train, "--out", folder, "--json").wait()
    assert (trained.code, trained.err) == (0, "")
    result = json.loads(trained.out)
    assert result == json.loads((folder / "result.json").read_text())
    evaluated = commands.start("evaluate", folder, "--selection", "id_val", "--json").wait()
    assert json.loads(evaluated.out)["scores"] == result["selections"]["id_val"]["scores"]
    predicted = commands.start("predict", folder, "--part", "id_test").wait()
    assert (predicted.code, predicted.err) == (0, "")
    rows = (folder / "predictions-id_test.csv").read_text().splitlines()
    right = sum(row.split(",")[1] == row.split(",")[2] for row in rows[1:])
    assert right / (len(rows) - 1) == pytest.approx(result["selections"]["ood_val"]["scores"]["id_test"])


@contextmanager
def terminal():
    """A terminal, and the list of everything that appears on it."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    shown = []

    def read():
        with suppress(OSError):  # the other end is closed
            while piece := os.read(master, 65536):
                shown.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield Path(os.ttyname(slave)), shown
    finally:
        os.close(slave)
        reader.join()
        os.close(master)


@pytest.mark.parametrize("columns", [80, pytest.param(140, marks=pytest.mark.slow)])
def test_progress_on_a_terminal(commands, tmp_path, columns):
    train = ["train", "--benchmark", "good-motif-basis-concept", "--method", "mphil", *SMALL, "--out", tmp_path / "r"]
    steps = ["--set", "train.epochs=40", "--set", "train.batch_size=8", "--set", "train.max_steps=150"]
    with terminal() as (path, pieces):
        ended = commands.start(*train, *steps, stderr=path, columns=columns).wait()
    shown = SCREEN.sub("", b"".join(pieces).decode())
    assert ended.code == 0
    assert "epoch 1/40" in shown
    whole = r"mphil [━╸╺]+ epoch \d+/40 0:00:\d\d left 0:\d\d:\d\d id_val 0\.\d{3} ood_val 0\.\d{3}"
    lines = [line for line in re.findall(whole, shown) if len(line) <= columns]
    assert lines, "name, bar, epoch, time spent, time left and scores fit"
    assert "left" not in ended.out, "the bar is no part of the output"


def test_the_installed_command():
    command = [Path(sys.executable).with_name("mphil"), "train", "--benchmark", "spmotiv"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: unknown benchmark 'spmotiv'; did you mean spmotif")
