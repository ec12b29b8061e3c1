"""The application: routes, errors, what lives as long as the server does, and listening until Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mphil.errors import MphilError, UsageError
from mphil.model.predictor import Predictor
from mphil.serve import api, pages
from mphil.serve.explainer import Explainer
from mphil.serve.guard import EVERYWHERE, LOCAL, QUEUES, Connection, Guard
from mphil.serve.jobs import Jobs
from mphil.serve.requests import GONE, Kind, Refusal, Shutdown, Waiting
from mphil.serve.service import ModelService

DOCS = "GET /docs lists the operations"

MAX_WAITING_SECONDS: dict[Kind, float] = {"predict": 0.5, "predict-long": 10.0, "explain": 10.0}
"""How long the last of those who wait may have to wait, by the time that answers took of late."""

_log = logging.getLogger(__name__)


def create_app(predictor: Predictor, *, hosts: Collection[str] = LOCAL) -> FastAPI:
    """The web application of a model.

    Args:
        predictor: the model; the application uses it alone from now on.
        hosts: names and addresses by which it may be called.

    Raises:
        UsageError: the model takes graphs that are no molecules.
    """
    if not predictor.takes_molecules:
        raise UsageError(
            "this bundle takes graphs that are no molecules, the page shows molecules; use `mphil predict`"
        )
    queues = {kind: Waiting(seconds) for kind, seconds in MAX_WAITING_SECONDS.items()}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        # A job goes on for long, so it has a model of its own: questions need not wait for it.
        second = Predictor(predictor.bundle, batch_size=predictor.batch_size, device=predictor.device)
        with ModelService(predictor) as service, Jobs(second) as jobs:
            async with AsyncExitStack() as stack:
                processes = {
                    kind: await stack.enter_async_context(Explainer(predictor, kind, queue))
                    for kind, queue in queues.items()
                }
                app.state.service, app.state.jobs, app.state.processes = service, jobs, processes
                # Many servers never get a long request: its process starts with the first one.
                others = [processes["predict"].warm_up(), processes["explain"].warm_up()]
                trial = asyncio.create_task(service.warm_up(*others))
                trial.add_done_callback(_tell_failure)
                yield {QUEUES: queues}
                trial.cancel()

    app = FastAPI(
        title="mphil",
        version=version("mphil"),
        description="Predictions of one trained model, with reasons and warnings.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(api.router)
    app.include_router(pages.router)
    app.state.shutdown = Shutdown()
    app.add_middleware(Guard, hosts=hosts, shutdown=app.state.shutdown, queues=queues)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(MphilError, _unusable)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(Exception, _fault)
    return app


def _tell_failure(trial: asyncio.Task[None]) -> None:
    if not trial.cancelled() and (error := trial.exception()) is not None:
        _log.error("the model does not answer", exc_info=error)


def _problem(status: int, error: str, remedy: str) -> JSONResponse:
    return JSONResponse(Refusal(status, error, remedy).content(), status)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return JSONResponse(error.content(), error.status)


async def _left(request: Request, error: Exception) -> JSONResponse:
    return _problem(GONE, "the client is gone", "ask again")


async def _unusable(request: Request, error: Exception) -> JSONResponse:
    return _problem(400, str(error), "change the request accordingly")


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"])
    return _problem(422, f"{place}: {first['msg']}", DOCS)


async def _unknown(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = _problem(error.status_code, str(error.detail), DOCS)
    answer.headers.update(error.headers or {})
    return answer


async def _fault(request: Request, error: Exception) -> JSONResponse:
    return _problem(500, "a fault in the program", "the terminal of the server says more")


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
