"""The application: routes, errors, and what lives as long as the server does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mphil.errors import MphilError, UsageError
from mphil.model.predictor import Predictor
from mphil.serve import api, pages
from mphil.serve.connection import QUEUES
from mphil.serve.explainer import Explainer
from mphil.serve.guard import LOCAL, Guard
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
