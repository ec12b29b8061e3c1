"""Who may ask, and in what form."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mphil.limits import MAX_REQUEST_BYTES, MAX_SHORT_BYTES, MAX_UPLOAD_BYTES
from mphil.serve.guard import LOCAL, Guard, check, is_ours
from mphil.serve.requests import Refusal, Waiting

JSON = {"host": "localhost:1", "content-type": "application/json", "content-length": "2"}
FILE = {"host": "localhost:1", "content-type": "application/octet-stream"}


def status(method, path, headers, hosts=LOCAL):
    """0 when the request may pass."""
    try:
        check(method, path, headers, hosts)
    except Refusal as refusal:
        return refusal.status if all(refusal.content().values()) else -1
    return 0


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80"])
def test_our_names_pass_with_any_port(host):
    assert is_ours(host, LOCAL)


@pytest.mark.parametrize(
    "host",
    ["", ":80", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:127.0.0.1",
     "[::1].evil.example", "[::1", "localhost:80:80", "localhost:eighty", "10.0.0.1", "user@localhost"],
)  # fmt: skip
def test_other_names_do_not(host):
    assert not is_ours(host, LOCAL)
    assert status("GET", "/", {"host": host}) == 421


@given(st.text(max_size=30))
def test_whatever_the_host_is_only_listed_names_pass(host):
    bare = host.lower().rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host.lower().removesuffix(":")
    assert is_ours(host, LOCAL) <= (bare.strip("[]") in LOCAL)


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_listening_everywhere_lets_addresses_pass_but_no_names(everywhere):
    assert is_ours("192.168.1.7:8000", [everywhere])
    assert is_ours("[fe80::1]:8000", [everywhere])
    assert not is_ours("rebound.example", [everywhere])
    assert is_ours("lab.example", [everywhere, "lab.example"])


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
@pytest.mark.parametrize(
    "foreign",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:2"},
     {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
)  # fmt: skip
def test_changes_asked_for_by_other_pages_are_refused(method, foreign):
    assert status(method, "/api/predict", JSON | foreign) == 403
    assert status("GET", "/api/model", JSON | foreign) == 0


def test_our_own_page_may_change_things():
    own = {"origin": "http://localhost:1", "sec-fetch-site": "same-origin"}
    assert status("POST", "/api/predict", JSON | own) == 0
    assert status("DELETE", "/api/jobs/x", {"host": "localhost:1"} | own) == 0


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"])
def test_content_types_that_a_form_can_send_are_refused(kind):
    assert status("POST", "/api/predict", JSON | {"content-type": kind}) == 415
    assert status("POST", "/api/files", FILE | {"content-type": kind}) == 415


def test_each_path_has_its_own_content_type():
    assert status("POST", "/api/predict", JSON | {"content-type": "Application/JSON; charset=utf-8"}) == 0
    assert status("POST", "/api/files", FILE) == 0
    assert status("POST", "/api/files", JSON) == 415
    assert status("POST", "/api/predict", FILE) == 415


@pytest.mark.parametrize(
    ("path", "headers", "most"),
    [("/api/predict", JSON, MAX_REQUEST_BYTES), ("/api/files", FILE, MAX_UPLOAD_BYTES)],
    ids=["request", "file"],
)
def test_the_announced_size_is_looked_at_first(path, headers, most):
    assert status("POST", path, headers | {"content-length": str(most)}) == 0
    assert status("POST", path, headers | {"content-length": str(most + 1)}) == 413
    for strange in ("-1", "1e3", "٣", "x"):
        assert status("POST", path, headers | {"content-length": strange}) == 413


def test_a_request_must_say_how_long_it_is_and_a_file_need_not():
    del (unsaid := dict(JSON))["content-length"]
    assert status("POST", "/api/predict", unsaid) == 411
    assert status("POST", "/api/files", FILE) == 0


@pytest.mark.parametrize(
    ("path", "length", "expected"),
    [
        ("/api/predict", MAX_SHORT_BYTES, 200),
        ("/api/predict", MAX_SHORT_BYTES + 1, 503),
        ("/api/explain", MAX_SHORT_BYTES + 1, 200),
    ],
)
def test_a_crowd_of_long_predictions_turns_away_nobody_else(monkeypatch, path, length, expected):
    full, told = Waiting(1.0), []
    monkeypatch.setattr(full, "_number", 1000)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        told.append(message)

    async def main():
        headers = [(name.encode(), text.encode()) for name, text in (JSON | {"content-length": str(length)}).items()]
        scope = {"type": "http", "method": "POST", "path": path, "scheme": "http", "headers": headers}
        await Guard(app, queues={"predict": Waiting(1.0), "predict-long": full, "explain": Waiting(1.0)})(
            scope, None, send
        )

    asyncio.run(main())
    assert told[0]["status"] == expected
