"""The life of a request: it finds a place or is turned down, its body comes in time, and so does its answer.

Whatever goes wrong is a `Refusal`, the one form that every error of the server has.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mphil.limits import (
    MAX_SHORT_BYTES,
    MAX_WAITING_REQUESTS,
    MIN_BODY_RATE,
    REQUEST_SECONDS,
    UPLOAD_SECONDS,
    UPLOAD_TOTAL_SECONDS,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Message, Receive


class Refusal(Exception):
    """A request that is not carried out.

    Args:
        status: of HTTP.
        error: what is wrong.
        remedy: what to do about it.
    """

    def __init__(self, status: int, error: str, remedy: str) -> None:
        super().__init__(error)
        self.status, self.error, self.remedy = status, error, remedy

    def content(self) -> dict[str, str]:
        """The body of the answer."""
        return {"error": self.error, "remedy": self.remedy}

    def body(self) -> bytes:
        """The same as JSON text."""
        return json.dumps(self.content()).encode()


Kind = Literal["predict", "predict-long", "explain"]
"""What is asked of the model; each has a queue and a process of its own."""


def kind_of(path: str, length: int) -> Kind | None:
    """What a request asks of the model, as its head tells; None when no queue is concerned.

    The work of a prediction grows with the characters of its molecules, of which a body has at most as many as bytes.
    What may take many times as long as others goes its own way, or all others would wait for it.

    Args:
        path: what is asked for.
        length: bytes of the body.

    Example:
        >>> [kind_of("/api/predict", length) for length in (20, 200_000)], kind_of("/healthz", 0)
        (['predict', 'predict-long'], None)
    """
    if path == "/api/predict":
        return "predict" if length <= MAX_SHORT_BYTES else "predict-long"
    return "explain" if path == "/api/explain" else None


ALWAYS_WAITING = 3
"""Requests that may wait however long answers take."""

RECENT = 0.2
"""Weight of the last answer in the mean time of an answer."""


class Waiting:
    """Requests that one process answers, one after the other.

    Whether one more may wait is decided before its body is read. To be turned away must cost little: most of an
    overload is refusals, and the same event loop answers those that are taken. So a full queue is seen by the first
    look at a request, not when its molecules have been parsed.

    Args:
        seconds: how long the last of them may have to wait, by the time that answers took of late.

    Attributes:
        seconds: as given.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._number, self._mean = 0, 0.0
        self._begun: float | None = None

    def check(self) -> None:
        """See whether there is room for another request.

        Raises:
            Refusal: too many are waiting.
        """
        late = self._number >= ALWAYS_WAITING and self._expected() > self.seconds
        if late or self._number >= MAX_WAITING_REQUESTS:
            raise Refusal(503, f"{self._number} requests are waiting already", "try again in a moment")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Wait, and be answered.

        Raises:
            Refusal: too many are waiting.
        """
        self.check()
        self._number += 1
        try:
            yield
        finally:
            self._number -= 1

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measure how long an answer takes."""
        self._begun = time.monotonic()
        try:
            yield
            self._mean += RECENT * (time.monotonic() - self._begun - self._mean)
        finally:
            self._begun = None

    def _expected(self) -> float:
        """Seconds until all who wait now are answered; an answer that takes longer than others counts as it is."""
        under_way = 0.0 if self._begun is None else time.monotonic() - self._begun
        return max(self._mean, under_way) + (self._number - 1) * self._mean


class Pace:
    """Receives a body within its time: some seconds to begin with, more for all that has come, never beyond a total.

    Whoever reads a body that is late is told that the client is gone.

    Args:
        receive: of ASGI.

    Attributes:
        refusal: what to answer once the body is late.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive, self._begun, self._size, self._over = receive, asyncio.get_running_loop().time(), 0, False
        self.refusal: Refusal | None = None

    async def receive(self) -> Message:
        """The next message of ASGI; once the body is over, whenever it comes."""
        if self._over:
            return await self._receive()
        allowed = min(UPLOAD_TOTAL_SECONDS, UPLOAD_SECONDS + self._size / MIN_BODY_RATE)
        try:
            async with asyncio.timeout_at(self._begun + allowed):
                message = await self._receive()
        except TimeoutError:
            self._over = True
            error = f"{self._size:,} bytes of the body arrived within {allowed:.0f} seconds"
            self.refusal = Refusal(408, error, f"send at least {MIN_BODY_RATE:,} bytes a second")
            return {"type": "http.disconnect"}
        self._size += len(message.get("body", b""))
        self._over = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message


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


class Shutdown:
    """The end of the server: requests in flight have some time to finish, then they are told to come back."""

    def __init__(self) -> None:
        self._over = asyncio.Event()

    def begin(self, grace: float) -> None:
        """Give requests in flight so many seconds from now."""
        asyncio.get_running_loop().call_later(grace, self._over.set)

    async def wait(self) -> None:
        """Return when the time is over."""
        await self._over.wait()

    @staticmethod
    def refusal() -> Refusal:
        """What those requests are told."""
        return Refusal(503, "the server is being stopped", "ask again when it is back")
