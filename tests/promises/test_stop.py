"""Clean stop: SIGTERM and Ctrl-C end whatever is going on within seconds, with 143 or 130, and nothing is lost."""

import signal
import socket
import time
from pathlib import Path

import pytest

from tests.command import saved_step, wait_until
from tests.fault.test_kill import EVERY_EPOCH, settings
from tests.measured import Others
from tests.products import molecules, write_table
from tests.served import Client, bundle_folder

pytestmark = pytest.mark.promise("clean stop")

SECONDS = 5.0


def has_open(pid, path):
    """Whether a process, or one that it has started, has opened a file."""
    try:
        return any(handle.readlink() == path for handle in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def reading(commands, folder):
    table = write_table(
        folder / "big.csv", {"smiles": molecules() * 2_000, "active": [0, 1] * 1_000 * len(molecules())}
    )
    process = commands.start("check", table)
    wait_until(lambda: has_open(process.pid, table))
    return process, lambda: None


def training(commands, folder):
    process = commands.start(*settings("mphil", EVERY_EPOCH), "--set", "train.epochs=200", "--out", folder / "run")
    wait_until(lambda: saved_step(folder / "run") >= 23)

    def resumed():
        before = saved_step(folder / "run")
        again = commands.start("resume", folder / "run")
        wait_until(lambda: saved_step(folder / "run") > before)
        again.send(signal.SIGKILL)
        again.wait()

    return process, resumed


def predicting(commands, folder):
    table, out = write_table(folder / "big.csv", {"smiles": molecules() * 300}), folder / "out.csv"
    process = commands.start("predict", bundle_folder(), table, "--out", out)
    wait_until(lambda: any(path.stat().st_size for path in folder.glob(".out.csv.draft-*")))

    def nothing_half():
        assert [path.name for path in folder.iterdir()] == ["big.csv"]

    return process, nothing_half


def serving(commands, folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        client = Client(free.getsockname()[1])
    process = commands.start("serve", bundle_folder(), "--port", client.port)
    wait_until(lambda: listens(client))
    return process, lambda: None


def listens(client):
    try:
        return client.get("/healthz").status == 200
    except ConnectionRefusedError:
        return False


ACTIVITIES = (reading, training, predicting, serving)


@pytest.mark.parametrize(
    ("activity", "number", "size"),
    [
        (predicting, signal.SIGTERM, "small"),
        *(
            pytest.param(activity, number, "full", marks=pytest.mark.slow)
            for activity in ACTIVITIES
            for number in (signal.SIGTERM, signal.SIGINT)
        ),
    ],
)
def test_stopped(commands, tmp_path, record_property, figure, activity, number, size):
    """While the command starts it is tried by `tests/fault/test_ends.py`."""
    record_property("size", size)
    process, afterwards = activity(commands, tmp_path)
    begun, others = time.monotonic(), Others()
    process.send(number)
    ended = process.wait()
    took = time.monotonic() - begun
    assert ended.code == 128 + number, ended
    assert ended.err.startswith("stopped")
    assert ended.err.count("\n") == 1
    assert took < others.allowed(SECONDS)
    afterwards()
    figure(f"{number.name} while {activity.__name__}: exit code {ended.code} after {took:.1f} s")
