"""The end of every request: its answer, its deadline, or a client that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from mphil.limits import REQUEST_SECONDS
from mphil.serve.refusal import Refusal

Answer = TypeVar("Answer")

GONE = 499
"""Status of a request whose client is gone; nobody sees it."""


async def in_time(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What the work gives; it is cancelled when its time is over, or when nobody waits for it any more.

    Args:
        request: whose body has been read.
        work: what answers it.

    Raises:
        Refusal: 504 when it takes too long, 499 when the client is gone.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, gone), timeout=REQUEST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise Refusal(GONE, "the client is gone", "ask again")
        remedy = "ask about fewer or smaller molecules, or use `mphil predict` and `mphil explain`"
        raise Refusal(504, f"there was no answer within {REQUEST_SECONDS:g} seconds", remedy)
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
