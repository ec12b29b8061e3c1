"""Requests that are much work: limits, deadlines, and clients that leave."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from mphil.limits import MAX_DRAWN_ATOMS, MAX_EXPLAINED_ATOMS, MAX_REQUEST_CHARACTERS
from mphil.serve import requests
from tests.served import JSON, PATIENCE

pytestmark = pytest.mark.promise("server faults")

RING = "C1" + "C" * 988 + "C1"
PEPTIDE = "N" + "[C@@H](C)C(=O)N" * 45 + "CC(=O)O"


def refused(answer, status):
    assert answer.status == status, answer.body
    assert sorted(answer.json()) == ["error", "remedy"]
    return answer.json()["error"]


def test_molecules_that_take_long_to_explain_are_refused_at_once(client):
    begun = time.monotonic()
    assert "molecule 1 has 990 atoms" in refused(client.post("/api/explain", {"smiles": [RING] * 20}), 413)
    assert time.monotonic() - begun < 20, "explaining them takes a minute"
    assert client.post("/api/predict", {"smiles": [RING]}).json()["rows"][0]["cells"]["status"] == "ok"


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
def test_the_atoms_of_an_explained_molecule(client, more, status):
    assert client.post("/api/explain", {"smiles": ["C" * (MAX_EXPLAINED_ATOMS + more)]}).status == status


@pytest.mark.parametrize("path", ["/api/predict", "/api/explain"])
def test_the_characters_of_a_request(client, path):
    most = ["x" * (MAX_REQUEST_CHARACTERS // 20)] * 20
    assert client.post(path, {"smiles": most}).status == 200
    most[0] += "x"
    begun = time.monotonic()
    assert f"{MAX_REQUEST_CHARACTERS + 1:,} characters" in refused(client.post(path, {"smiles": most}), 413)
    assert time.monotonic() - begun < 5


@pytest.fixture
def slow(monkeypatch):
    """Molecules that keep the process that explains busy for many seconds; predictions are as quick as ever."""
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 4.0)
    return {"smiles": [PEPTIDE] * 20}


def test_a_deadline_ends_the_work_and_predictions_go_on(client, slow):
    answered(client, "/api/explain")
    answered(client, "/api/predict")
    told = []
    asking = threading.Thread(target=lambda: told.append(client.post("/api/explain", slow)))
    before = explaining()
    asking.start()
    assert client.post("/api/predict", {"smiles": ["CCO"]}).status == 200
    asking.join(30)
    assert "no answer within 4 seconds" in refused(told[0], 504)
    assert len(before) == 1
    assert gone(before)


def test_short_predictions_do_not_wait_for_a_long_one(client):
    """Whoever asks after the long request is answered before it, as often as they like."""
    order = []

    def ask(name, smiles):
        order.append((name, client.post("/api/predict", {"smiles": smiles})))

    long = ["C" * 901] * 60
    asking = threading.Thread(target=ask, args=("long", long))
    asking.start()
    time.sleep(0.3)
    for _ in range(3):
        ask("short", ["CCO"])
    asking.join(PATIENCE)
    assert [name for name, _ in order] == ["short"] * 3 + ["long"]
    assert {answer.status for _, answer in order} == {200}
    assert [row["smiles"] for row in order[-1][1].json()["rows"]] == long


def test_pages_draw_no_large_molecules(client):
    """The server itself draws them, a hundred a page, and nobody is answered while RDKit lays one out."""
    state = client.finish("\n".join(["smiles", "C" * MAX_DRAWN_ATOMS, "C" * (MAX_DRAWN_ATOMS + 1)]).encode())
    rows = client.get(f"/api/jobs/{state['id']}/rows").json()["rows"]
    assert [row["cells"]["status"] for row in rows] == ["ok", "ok"]
    assert [row["drawing"] is None for row in rows] == [False, True]
    assert client.get(f"/map/{state['id']}").status == 200


@pytest.mark.promise("server limits")
@pytest.mark.parametrize(("kind", "smiles"), [("predict", ["CCO"]), ("predict-long", ["C" * 901] * 12)])
def test_a_prediction_that_takes_too_long_is_ended(client, monkeypatch, kind, smiles):
    """The process is stopped, as one that works for ever; it must be gone after the deadline, and have a successor."""
    answered(client, "/api/predict", smiles)
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 1.0)
    (number,) = explaining(kind.encode())
    os.kill(number, signal.SIGSTOP)
    assert "no answer within 1 seconds" in refused(client.post("/api/predict", {"smiles": smiles}), 504)
    assert gone([number])
    monkeypatch.undo()
    answered(client, "/api/predict", smiles)
    assert explaining(kind.encode()) != [number]


@pytest.mark.slow
def test_a_client_that_leaves_ends_the_work(client):
    answered(client, "/api/explain")
    before = explaining()
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    connection.request("POST", "/api/explain", json.dumps({"smiles": [PEPTIDE] * 20}), JSON)
    time.sleep(0.3)
    connection.close()
    assert gone(before)
    answered(client, "/api/explain")


@pytest.mark.slow
def test_a_lost_process_costs_its_request(client):
    answered(client, "/api/explain")
    (number,) = explaining()
    os.kill(number, 9)
    refused(client.post("/api/explain", {"smiles": ["CCO"]}), 503)
    answered(client, "/api/explain")


def test_a_crowd_is_told_to_come_back(client, monkeypatch):
    monkeypatch.setattr(requests, "MAX_WAITING_REQUESTS", 0)
    refused(client.post("/api/explain", {"smiles": ["CCO"]}), 503)


def answered(client, path: str, smiles: Sequence[str] = ("CCO",)) -> None:
    """Ask until there is an answer: a process that takes the place of another one has to start first."""
    end = time.monotonic() + PATIENCE
    while (status := client.post(path, {"smiles": smiles}).status) != 200:
        assert time.monotonic() < end, f"{path} answers {status}"
        time.sleep(0.2)


def explaining(kind: bytes = b"explain") -> list[int]:
    """Numbers of the processes of ours that explain, or predict."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            if b"mphil.serve.explaining" in words and words[-1] == kind and parent == os.getpid():
                found.append(int(entry.name))
    return found


def gone(numbers: list[int]) -> bool:
    """Whether processes end within some seconds."""
    end = time.monotonic() + 20
    while alive := any(Path(f"/proc/{number}").exists() for number in numbers):
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return not alive
