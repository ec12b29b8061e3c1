"""Listening on an address until somebody presses Ctrl-C."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Sequence

import uvicorn

from mphil.errors import UsageError
from mphil.model.predictor import Predictor
from mphil.serve.app import create_app
from mphil.serve.connection import Connection
from mphil.serve.guard import EVERYWHERE, LOCAL
from mphil.serve.requests import Shutdown

GRACE_SECONDS = 3
"""How long answers that are under way may take once the server is to end; after that they are 503."""


def serve(
    predictor: Predictor,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow: Sequence[str] = (),
    ready: Callable[[str], object] = lambda address: None,
) -> None:
    """Answer requests until the process is interrupted.

    Args:
        predictor: the model.
        host: address to listen on; only this machine can reach the usual one.
        port: to listen on; 0 takes a free one.
        allow: further names by which the server may be called.
        ready: told the address once it is open.

    Raises:
        UsageError: the address cannot be listened on.
        KeyboardInterrupt: the process was interrupted; everything is put away by then.
    """
    with _listening(host, port) as listener:
        names = {*LOCAL, host, *allow, *([socket.gethostname()] if host in EVERYWHERE else [])}
        app = create_app(predictor, hosts=names)
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2 * GRACE_SECONDS,
        )
        address = _address("127.0.0.1" if host in EVERYWHERE else host, listener.getsockname()[1])
        Server(config, lambda: ready(address), app.state.shutdown).run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that says when it listens, and gives requests in flight some time at its end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object], shutdown: Shutdown) -> None:
        super().__init__(config)
        self._ready, self._shutdown = ready, shutdown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            # What start-up made stays: without it a full collection does not hold up all requests for 0.3 s.
            gc.collect()
            gc.freeze()
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._shutdown.begin(GRACE_SECONDS)
        await super().shutdown(sockets)
        gc.unfreeze()


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"--host {host}: {error.strerror or error}") from None
    try:
        # A server that just ended must not keep the next one from its port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; --port 0 takes a free port"
        ) from None
    return listener


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
