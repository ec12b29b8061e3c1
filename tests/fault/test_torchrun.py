"""The real launcher with two real processes: interrupted, everything ends; the same run then goes on to its end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import PATIENCE, saved_step, wait_until

pytestmark = pytest.mark.promise("no training lost")

TORCHRUN = Path(sys.executable).with_name("torchrun")
STEPS = 96
"""8 epochs of 12 batches, each of which is saved."""
SETTINGS = ["benchmark.graphs=600", "encoder.width=4", "encoder.layers=1", "train.batch_size=32", "train.epochs=8"]
SETTINGS += ["train.checkpoint_minutes=0"]


def launch(*arguments):
    """Two processes that see the loopback device only."""
    options = ["--standalone", "--nproc-per-node", "2", "-m", "mphil"]
    return subprocess.Popen(
        [TORCHRUN, *options, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},
    )


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_of_the_launcher_ends_all_and_the_run_goes_on(tmp_path, number):
    sets = [word for setting in SETTINGS for word in ("--set", setting)]
    run = tmp_path / "run"
    with launch("train", "--benchmark", "good-motif-basis", "--method", "erm", *sets, "--out", run) as launcher:
        wait_until(lambda: saved_step(run) >= 1)
        ranks = children(launcher.pid)
        launcher.send_signal(number)
        out, err = launcher.communicate(timeout=PATIENCE)
    assert len(ranks) == 2
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    assert err.count(f"stopped; everything so far is saved. Continue with: mphil resume {run}\n") == 1
    assert "error:" not in err
    assert out == ""
    assert 1 <= saved_step(run) < STEPS

    with launch("resume", run) as launcher:
        out, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, err
    assert out.count("chosen on ood_val") == 1
    result = json.loads((run / "result.json").read_text())
    assert (result["last"]["epoch"], result["machine"]["processes"]) == (8, 2)
    assert saved_step(run) == STEPS
