"""What a hostile page, name, file or request cannot do to the server."""

import csv
import gzip
import http.client
import io
import socket
import time
from collections.abc import Iterator

import pytest

from mphil.limits import MAX_REQUEST_BYTES, MAX_UPLOAD_BYTES
from mphil.serve import api, jobs, requests
from mphil.serve.guard import LOCAL
from tests.served import BINARY, JSON, predictor, served

pytestmark = pytest.mark.promise("server limits")

ASK = '{"smiles": ["CCO"]}'


@pytest.mark.parametrize("path", ["/", "/api/model", "/healthz", "/static/main.js", "/openapi.json"])
def test_a_name_that_was_pointed_at_us_gets_nothing(client, path):
    answer = client.get(path, Host=f"rebound.example:{client.port}")
    assert answer.status == 421
    assert "rebound.example" in answer.json()["error"]
    assert "--allow-host" in answer.json()["remedy"]


@pytest.mark.slow
def test_other_names_can_be_allowed():
    with served(predictor(), hosts=[*LOCAL, "lab.example"]) as client:
        assert client.get("/healthz", Host="lab.example").status == 200
        assert client.get("/healthz", Host="other.example").status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_other_pages_cannot_ask_send_or_delete(client, origin):
    assert client.request("POST", "/api/predict", ASK, JSON | {"Origin": origin}).status == 403
    assert client.request("POST", "/api/files", b"smiles\nC\n", BINARY | {"Origin": origin}).status == 403
    kept = client.finish(b"smiles\nC\n")["id"]
    assert client.request("DELETE", f"/api/jobs/{kept}", headers={"Origin": origin}).status == 403
    assert client.get(f"/api/jobs/{kept}").status == 200


def test_no_other_origin_is_ever_allowed(client):
    preflight = client.request(
        "OPTIONS", "/api/predict", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    )
    asked = client.get("/api/model", Origin="http://evil.example")
    for answer in (preflight, asked):
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert preflight.status == 405


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_what_a_form_can_send_is_not_taken(client, kind):
    assert client.request("POST", "/api/predict", ASK, {"content-type": kind}).status == 415
    assert client.request("POST", "/api/files", b"smiles\nC\n", {"content-type": kind}).status == 415


@pytest.mark.parametrize("path", ["/", "/docs", "/api/model", "/nowhere", "/static/main.js"])
def test_every_answer_carries_the_headers(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers or "uvicorn" in headers["server"]


def test_refusals_carry_them_too(client):
    assert "default-src 'none'" in client.get("/", Host="x").headers["content-security-policy"]


def test_nothing_in_the_card_of_a_bundle_can_run(client):
    answer = client.get("/card")
    assert answer.status == 200
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd",
     "/static/%2fetc%2fpasswd", "/api/jobs/..%2f..%2fetc%2fpasswd/result.csv", "/map/..%2f..", "/static/main.js%00"],
)  # fmt: skip
def test_no_path_leads_to_the_disk(client, path):
    answer = client.get(path)
    assert answer.status == 404
    assert b"root:" not in answer.body


def test_a_large_body_is_refused_before_it_is_read(client):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    for path, headers, most in (("/api/predict", JSON, MAX_REQUEST_BYTES), ("/api/files", BINARY, MAX_UPLOAD_BYTES)):
        connection.putrequest("POST", path)
        for name, value in {**headers, "content-length": str(most + 1)}.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 413
        assert b"mphil predict" in response.read()
        connection.close()


def test_a_file_that_does_not_say_its_size_is_counted(client, monkeypatch):
    monkeypatch.setattr(api, "MAX_UPLOAD_BYTES", 100_000)
    pieces = (b"smiles\n" + b"C\n" * 10_000 for _ in range(10))
    answer = client.request("POST", "/api/files?name=a.csv", pieces, BINARY)
    assert answer.status == 413
    assert client.request("POST", "/api/predict", iter([ASK.encode()]), JSON).status == 411


def test_a_refusal_reaches_a_client_that_is_still_sending(client):
    def slow() -> Iterator[bytes]:
        for _ in range(4):
            yield ASK.encode()
            time.sleep(0.1)

    assert client.request("POST", "/api/predict", slow(), JSON).status == 411


def test_an_upload_that_stalls_is_given_up(client, monkeypatch):
    monkeypatch.setattr(requests, "UPLOAD_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        head = "POST /api/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        connection.sendall(f"{head}Content-Length: 100\r\n\r\nsmiles".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 408")


def test_an_upload_that_breaks_off_leaves_nothing(client, monkeypatch):
    kept = []
    original = jobs.Jobs.remove

    def remove(self, job):
        if self[job].state == "uploading":  # a job of an earlier test may have to go too
            kept.append(self[job].source)
        original(self, job)

    monkeypatch.setattr(jobs.Jobs, "remove", remove)
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        head = "POST /api/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        connection.sendall(f"{head}Content-Length: 100\r\n\r\nsmiles".encode())
    client.finish(b"smiles\nC\n")
    for _ in range(500):
        if kept:
            break
        client.get("/healthz")
    assert len(kept) == 1
    assert not kept[0].exists()


def test_a_bomb_is_refused(client, monkeypatch):
    monkeypatch.setattr(jobs, "MAX_UNPACKED_BYTES", 1 << 20)
    state = client.finish(gzip.compress(b"smiles\n" + b"C\n" * (1 << 20)), "small.csv.gz")
    assert state["state"] == "failed"
    assert state["error"].startswith("small.csv.gz: it unpacks to more than 1,048,576 bytes")


@pytest.mark.parametrize("name", ["../../../evil.csv", "/evil.csv", "a\r\nSet-Cookie: x=1.csv", "<b>.csv", "é.csv"])
def test_names_are_only_shown(client, name):
    state = client.finish(b"smiles\nCCO\n", name)
    assert state["state"] == "done"
    assert "/" not in state["name"]
    result = client.get(f"/api/jobs/{state['id']}/result.csv")
    assert "set-cookie" not in result.headers
    shown = result.headers["content-disposition"].removeprefix('attachment; filename="').removesuffix('"')
    assert shown.endswith("-predictions.csv")
    assert shown.replace("-", "").replace("_", "").replace(".", "").isalnum()


def test_formulas_are_escaped_in_the_table(client):
    state = client.finish(b'smiles,note\nCCO,"=HYPERLINK(""http://evil.example"")"\nCCN,@SUM(1)\nCCC,-1.5\n')
    text = client.get(f"/api/jobs/{state['id']}/result.csv").body.decode()
    notes = [row["note"] for row in csv.DictReader(io.StringIO(text))]
    assert notes == ['\'=HYPERLINK("http://evil.example")', "'@SUM(1)", "-1.5"]
    assert state["summary"]["escaped"] == 2


def test_no_error_tells_where_files_are(client):
    for content in (b"", b"\0" * 50, b"a,b\n1,2\n", gzip.compress(b"smiles\nC\n" * 99)[:30]):
        state = client.finish(content, "mine.csv")
        assert state["state"] == "failed"
        assert "mphil-serve-" not in state["error"]


def test_jobs_cannot_be_listed(client):
    client.finish(b"smiles\nCCO\n")
    for path in ("/api/jobs", "/api/jobs/", "/api/files"):
        assert client.get(path).status in (404, 405)


def test_another_scheme_is_another_origin(client):
    own = f"localhost:{client.port}"
    for origin, status in ((f"http://{own}", 200), (f"https://{own}", 403), (f"ftp://{own}", 403), (own, 403)):
        headers = {**JSON, "host": own, "origin": origin}
        assert client.request("POST", "/api/predict", ASK, headers).status == status
