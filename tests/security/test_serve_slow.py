"""Clients that say little, and a server that is being stopped while they wait."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from mphil.serve import app, guard, requests
from mphil.serve.guard import Guard
from mphil.serve.requests import Shutdown
from tests.command import wait_until
from tests.served import predictor, served

pytestmark = pytest.mark.promise("server faults")

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
UPLOAD = (
    b"POST /api/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
    b"Content-Length: 60000000\r\n\r\n"
)
JSON = b"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n"


def connect(client, sent=b""):
    opened = socket.create_connection(("127.0.0.1", client.port), timeout=30)
    opened.sendall(sent)
    return opened


def test_half_open_connections_do_not_count(client):
    with ExitStack() as stack:
        for _ in range(120):
            stack.enter_context(connect(client, HALF))
        assert client.get("/healthz").status == 200
        assert client.post("/api/predict", {"smiles": ["CCO"]}).status == 200


@pytest.mark.parametrize("begin", [b"", HALF])
def test_the_head_of_a_request_must_come_in_time(client, monkeypatch, begin):
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.5)
    with connect(client, begin) as opened:
        begun = time.monotonic()
        assert opened.recv(64) == b""
        assert time.monotonic() - begun < 10


def test_a_head_that_trickles_is_given_up(client, monkeypatch):
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.5)
    with connect(client, HALF) as opened:
        opened.settimeout(0.1)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                opened.sendall(b"x: y\r\n")
                if opened.recv(64) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    pytest.fail("it went on")


def test_a_peer_with_many_connections_loses_the_oldest(client, monkeypatch):
    monkeypatch.setattr(guard, "MAX_PEER_CONNECTIONS", 5)
    monkeypatch.setattr(guard, "NEW_SECONDS", 0.0)
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(client, HALF)) for _ in range(8)]
        assert client.get("/healthz").status == 200
        assert _is_closed(opened[0])


def test_a_crowd_does_not_push_out_who_came_just_before_it(client, monkeypatch):
    monkeypatch.setattr(guard, "MAX_PEER_CONNECTIONS", 5)
    monkeypatch.setattr(guard, "NEW_SECONDS", 60.0)
    with ExitStack() as stack:
        first, *others = [stack.enter_context(connect(client, HALF)) for _ in range(9)]
        first.sendall(b"\r\n")
        assert first.recv(64).startswith(b"HTTP/1.1 200")
        opened = [stack.enter_context(connect(client, HALF)) for _ in range(4)]
        wait_until(lambda: any(_has_ended(one) for one in [*others, *opened]))


def _has_ended(opened):
    """Whether the other end has closed a connection, as far as it is known now."""
    opened.setblocking(False)
    try:
        return opened.recv(64) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    finally:
        opened.settimeout(30)


def _is_closed(opened):
    try:
        return opened.recv(64) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("head", [UPLOAD, JSON])
def test_a_body_that_trickles_is_given_up(client, monkeypatch, head):
    monkeypatch.setattr(requests, "UPLOAD_SECONDS", 3.0)
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(client, head)) for _ in range(16)]
        for _ in range(3):
            time.sleep(0.1)
            for one in opened:
                one.sendall(b"x")
        for one in opened:
            answer = one.recv(4096)
            assert answer.startswith(b"HTTP/1.1 408"), answer
    assert client.finish(b"smiles\nCCO\n")["state"] == "done", "no place is taken any more"


def test_the_time_of_a_body_has_an_end(client, monkeypatch):
    monkeypatch.setattr(requests, "UPLOAD_TOTAL_SECONDS", 0.5)
    with connect(client, UPLOAD) as opened:
        opened.settimeout(0.05)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            opened.sendall(b"x" * 10_000)
            try:
                assert opened.recv(64).startswith(b"HTTP/1.1 408")
            except TimeoutError:
                continue
            return
    pytest.fail("it went on")


@pytest.mark.parametrize("limit", ["MAX_REQUESTS", "MAX_PEER_REQUESTS"])
def test_health_is_told_however_much_is_going_on(client, monkeypatch, limit):
    monkeypatch.setattr(guard, limit, 0)
    refused = client.post("/api/predict", {"smiles": ["CCO"]})
    assert refused.status == 503
    assert sorted(refused.json()) == ["error", "remedy"]
    assert [client.get(path).status for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.promise("server under load")
@pytest.mark.parametrize("first", [b"", HALF + b"\r\n"], ids=["a new connection", "a used one"])
def test_a_full_queue_is_told_before_the_body_is_sent(client, monkeypatch, first):
    monkeypatch.setattr(requests, "MAX_WAITING_REQUESTS", 0)
    with connect(client, first) as opened:
        while first and not first.endswith(b'{"status":"up"}'):
            first += opened.recv(4096)
        opened.sendall(JSON)
        answer = b""
        while piece := opened.recv(4096):
            answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\ncontent-security-policy: default-src 'none'" in head
        assert sorted(json.loads(body)) == ["error", "remedy"]


@pytest.mark.promise("server under load")
def test_a_body_that_comes_behind_the_refusal_does_not_lose_it(client, monkeypatch):
    """A closed end answers with a reset, at which a client forgets what it was told."""
    monkeypatch.setattr(requests, "MAX_WAITING_REQUESTS", 0)
    with connect(client, JSON) as opened:
        time.sleep(0.2)
        for _ in range(10):
            opened.sendall(b" " * 100)
            time.sleep(0.01)
        assert opened.recv(4096).startswith(b"HTTP/1.1 503")
        assert opened.recv(64) == b""


@pytest.mark.parametrize(("seconds", "status"), [(0.05, 200), (30.0, 503)])
def test_requests_in_flight_have_some_time_at_the_end(seconds, status):
    sent = []

    async def work(scope, receive, send):
        await asyncio.sleep(seconds)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def main():
        shutdown = Shutdown()
        shutdown.begin(0.5)
        scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "headers": [(b"host", b"localhost")]}

        async def send(message):
            sent.append(message)

        await Guard(work, shutdown=shutdown)(scope, asyncio.Event().wait, send)

    asyncio.run(main())
    assert sent[0]["status"] == status
    assert isinstance(json.loads(sent[1]["body"]), dict)


@pytest.mark.slow
def test_a_server_that_ends_answers_who_waits(monkeypatch, caplog):
    monkeypatch.setattr(app, "GRACE_SECONDS", 0.5)
    told = []
    with served(predictor()) as client:
        work = {"smiles": ["N" + "[C@@H](C)C(=O)N" * 45 + "CC(=O)O"] * 20}
        asking = threading.Thread(target=lambda: told.append(client.post("/api/explain", work)))
        asking.start()
        time.sleep(0.5)
    asking.join(30)
    assert told[0].status == 503
    assert "stopped" in told[0].json()["error"]
    assert "Traceback" not in caplog.text
