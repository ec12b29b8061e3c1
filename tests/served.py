"""The real server on a free port, with a small real bundle, and a client of a few lines."""

from __future__ import annotations

import atexit
import functools
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from mphil.model.bundle import read_bundle, write_bundle
from mphil.model.predictor import Predictor
from mphil.serve import create_app
from mphil.serve.app import Server
from mphil.serve.guard import Connection
from tests.bundles import bundle_of, trained

PATIENCE = 300.0
JSON = {"content-type": "application/json"}
BINARY = {"content-type": "application/octet-stream"}

_FOLDERS = ExitStack()
atexit.register(_FOLDERS.close)


@functools.cache
def bundle_folder(method: str = "mphil") -> Path:
    """The folder of a bundle that took a second to train; all tests of a process share it."""
    folder = Path(_FOLDERS.enter_context(tempfile.TemporaryDirectory(prefix="mphil-served-"))) / "bundle"
    write_bundle(folder, bundle_of(trained(method)))
    return folder


def predictor(method: str = "mphil") -> Predictor:
    return Predictor(read_bundle(bundle_folder(method)))


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Asks a server."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            # A server may answer, and hang up, before it has heard all.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, value: Any) -> Answer:
        return self.request("POST", path, json.dumps(value), JSON)

    def send(self, content: bytes, name: str = "table.csv", **query: str) -> Answer:
        return self.request("POST", f"/api/files?{urlencode({'name': name, **query})}", content, BINARY)

    def finish(self, content: bytes, name: str = "table.csv", **query: str) -> dict[str, Any]:
        """Send a file and wait until it is over."""
        sent = self.send(content, name, **query)
        assert sent.status == 202, sent.body
        return self.wait(sent.json()["id"])

    def wait(self, job: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            state = self.get(f"/api/jobs/{job}").json()
            if state["state"] in ("done", "failed"):
                return state
            time.sleep(0.02)
        raise AssertionError(f"the job is still {state['state']}")


@contextmanager
def served(model: Predictor, **options: Any) -> Iterator[Client]:
    """A server in a thread of this process, ready to answer."""
    app = create_app(model, **options)
    config = uvicorn.Config(app, port=0, http=Connection, log_level="warning", ws="none", lifespan="on")
    server = Server(config, lambda: None, app.state.shutdown)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        _wait_until(lambda: server.started or not thread.is_alive())
        client = Client(server.servers[0].sockets[0].getsockname()[1])
        _wait_until(lambda: client.get("/readyz").status == 200)
        yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the server does not end"


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
