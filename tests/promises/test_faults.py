"""Server faults: a lost process or a client that vanishes costs its own request, and leaves nothing behind."""

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.promised import amount_of
from tests.promises.loading import second_process, vanish
from tests.security.test_serve_load import answered, explaining

pytestmark = pytest.mark.promise("server faults")

KINDS = ("predict", "explain")
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
    kills, lost = amount_of("kills of workers", "full"), 0
    for kind in KINDS:
        answered(client, f"/api/{kind}")
    before = in_use()
    for turn in range(kills):
        kind, other = KINDS[:: 1 if turn % 2 else -1]
        (number,) = explaining(kind.encode())
        os.kill(number, signal.SIGKILL)
        answer = client.post(f"/api/{kind}", {"smiles": ["CCO"]})
        assert answer.status in (200, 503), answer.body
        lost += answer.status == 503
        assert client.get("/healthz").status == 200
        for path in (f"/api/{other}", f"/api/{kind}"):
            assert client.post(path, {"smiles": ["CCO"]}).status == 200, "only that request fails"
    assert settled(before)
    figure(f"{kills} processes killed, {lost} requests lost, no thread, file or folder left")


def test_clients_that_vanish(client, amount, figure):
    answered(client, "/api/predict")
    before, worker = in_use(), explaining(b"predict")
    with second_process(vanish, client.port, amount("vanishing clients")) as queue:
        while queue.empty():
            assert client.get("/healthz").status == 200
            assert client.post("/api/predict", {"smiles": ["CCO"]}).status in (200, 503)
            time.sleep(0.1)
        soon, slow = queue.get()
    assert client.get("/healthz").status == 200
    answered(client, "/api/predict")
    assert explaining(b"predict") == worker, "the process goes on"
    assert settled(before)
    figure(
        f"{soon:,} clients vanished and {slow:,} sent single bytes before they did, the process that predicts is the "
        "same, no thread, file or folder left"
    )
