"""Server limits: what is at a limit is answered, what lies beyond is refused with a status and a JSON body."""

import json
import os
import signal
import threading

import pytest

from mphil import limits
from mphil.serve import api, guard, requests
from tests.command import wait_until
from tests.security.test_serve_load import answered, explaining
from tests.served import BINARY, JSON

pytestmark = pytest.mark.promise("server limits")

AROUND = (-1, 0, 1)


@pytest.fixture
def around(figure):
    """Asks at a limit, just below and just above it."""

    def ask(limit, most, answer, status):
        found = [answer(most + more) for more in AROUND]
        for one in found[:2]:
            assert one.status in (200, 202), (limit, one.body[:300])
        assert found[2].status == status, (limit, found[2].body[:300])
        assert sorted(found[2].json()) == ["error", "remedy"]
        figure(f"{limit}: {', '.join(f'{most + m:,}: {one.status}' for m, one in zip(AROUND, found, strict=True))}")

    return ask


def body_of(size):
    text = json.dumps({"smiles": ["CCO"]})
    return " " * (size - len(text)) + text


def test_bytes_of_a_request(client, around):
    around(
        "body", limits.MAX_REQUEST_BYTES, lambda size: client.request("POST", "/api/predict", body_of(size), JSON), 413
    )


def test_bytes_of_a_file(client, around, monkeypatch):
    for module in (api, guard):
        monkeypatch.setattr(module, "MAX_UPLOAD_BYTES", 1_000)
    around(
        "file",
        1_000,
        lambda size: client.request("POST", "/api/files", ("smiles\n" + "C\n" * 500)[: size - 1] + "\n", BINARY),
        413,
    )


def test_rows(client, around):
    around("rows", limits.MAX_REQUEST_ROWS, lambda rows: client.post("/api/predict", {"smiles": ["C"] * rows}), 422)


def test_explained_rows(client, around):
    most = limits.MAX_EXPLAINED_ROWS
    around("explained rows", most, lambda rows: client.post("/api/explain", {"smiles": ["C"] * rows}), 422)


def test_characters(client, around):
    most = limits.MAX_REQUEST_CHARACTERS

    def ask(size):
        return client.post("/api/predict", {"smiles": ["x" * 1_000] * (size // 1_000) + ["x" * (size % 1_000)]})

    around("characters", most, ask, 413)


@pytest.mark.parametrize(
    ("limit", "most", "spelt", "status"),
    [
        ("length", limits.MAX_SMILES_LENGTH, lambda size: "[CH2]" * (size // 5) + "C" * (size % 5), "too-long"),
        ("atoms", limits.MAX_ATOMS, lambda size: "C" * size, "too-many-atoms"),
    ],
)
def test_of_a_molecule(client, figure, limit, most, spelt, status):
    """A molecule beyond a limit costs its row, not the request."""
    answer = client.post("/api/predict", {"smiles": [spelt(most + more) for more in AROUND]})
    assert answer.status == 200
    found = [row["cells"]["status"] for row in answer.json()["rows"]]
    assert found == ["ok", "ok", status]
    figure(f"{limit}: {', '.join(f'{most + more:,}: {one}' for more, one in zip(AROUND, found, strict=True))}")


@pytest.mark.slow
def test_explained_atoms(client, around):
    most = limits.MAX_EXPLAINED_ATOMS
    around("explained atoms", most, lambda atoms: client.post("/api/explain", {"smiles": ["C" * atoms]}), 413)


def test_queue(client, figure, monkeypatch):
    """The process that predicts is stopped: requests wait, up to the limit of the queue, and are answered later."""
    most, more = 4, 2
    monkeypatch.setattr(requests, "MAX_WAITING_REQUESTS", most)
    monkeypatch.setattr(requests, "ALWAYS_WAITING", most)
    answered(client, "/api/predict")
    (number,) = explaining(b"predict")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(client.post("/api/predict", {"smiles": ["CCO"]})))
        for _ in range(most + more)
    ]
    os.kill(number, signal.SIGSTOP)
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: len(found) == more)
    finally:
        os.kill(number, signal.SIGCONT)
    for thread in threads:
        thread.join()
    assert [answer.status for answer in found] == [503] * more + [200] * most
    assert sorted(found[0].json()) == ["error", "remedy"]
    figure(f"queue: {most} wait and are answered, {more} more: 503")
