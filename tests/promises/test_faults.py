"""Server faults: a lost process or a client that vanishes costs its own request, and leaves nothing behind."""

import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.promised import amount_of
from tests.promises.loading import second_process, vanish
from tests.security.test_serve_load import answered, explaining

pytestmark = pytest.mark.promise("server faults")

SETTLED = 20.0
"""Seconds within which what clients left open is put away."""
FEW = 5
"""Threads or files that may come and go by themselves."""


def in_use():
    """Threads, open files and temporary folders of this process."""
    folders = list(Path(tempfile.gettempdir()).glob("mphil-serve-*"))
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), len(folders)


def settled(before):
    """Whether as much is in use as before, but for a few, once everything had time to end."""
    end = time.monotonic() + SETTLED
    while not (few := all(now - then <= FEW for now, then in zip(in_use(), before, strict=True))):
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return few


@pytest.mark.slow
def test_processes_that_are_killed(client, record_property, figure):
    """Once is tried by `tests/security/test_serve_load.py`: it takes seconds until a process has a successor."""
    record_property("size", "full")
    kills, refused = amount_of("kills of workers", "full"), 0
    answered(client, "/api/predict")
    before = in_use()
    for _ in range(kills):
        (number,) = explaining(b"predict")
        os.kill(number, 9)
        answer = client.post("/api/predict", {"smiles": ["CCO"]})
        assert answer.status in (200, 503), answer.body
        refused += answer.status == 503
        assert client.get("/healthz").status == 200
        answered(client, "/api/predict")
    assert settled(before)
    figure(f"{kills} processes killed, {refused} requests lost, no thread, file or folder left")


def test_clients_that_vanish(client, amount, figure):
    answered(client, "/api/predict")
    before, worker = in_use(), explaining(b"predict")
    with second_process(vanish, client.port, amount("vanishing clients")) as queue:
        gone = queue.get()
    assert client.get("/healthz").status == 200
    answered(client, "/api/predict")
    assert explaining(b"predict") == worker, "the process goes on"
    assert settled(before)
    figure(f"{gone:,} clients vanished, the process that predicts is the same, no thread, file or folder left")
