"""How fast a body must come: a client that sends slowly, or nothing, is given up."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from mphil.limits import MIN_BODY_RATE, UPLOAD_SECONDS, UPLOAD_TOTAL_SECONDS
from mphil.serve.refusal import Refusal


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
