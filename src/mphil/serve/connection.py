"""Connections of the server: a request must begin soon, and nobody may hold many that say nothing."""

from __future__ import annotations

import asyncio
import re

from uvicorn.protocols.http.h11_impl import H11Protocol

from mphil.limits import HEADER_SECONDS, MAX_PEER_CONNECTIONS
from mphil.serve.guard import HEADERS
from mphil.serve.requests import Refusal, kind_of

QUEUES = "queues"
"""Under which name the state of the application has who waits, by kind; see `mphil.serve.requests`."""

NEW_SECONDS = 0.5
"""How long a connection is spared that has said nothing, unless its peer has twice as many as it may."""

_ASKED = re.compile(rb"POST (/[a-z/]+) HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,18})\r\n", re.IGNORECASE)


class Connection(H11Protocol):
    """A connection on which the head of each request has to arrive in time.

    A peer with too many connections loses the oldest one that is not being answered and not quite new. A new connection
    that asks for something that too many wait for is told so after a look at its first lines: to take its request apart
    would cost many times as much, and under an overload nearly all requests end like this.
    """

    _timer: asyncio.TimerHandle | None = None
    _heard = _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) <= MAX_PEER_CONNECTIONS:
            return
        ours = [other for other in self.connections if isinstance(other, Connection) and other.peer == self.peer]
        if len(ours) > MAX_PEER_CONNECTIONS:
            idle = [other for other in ours if other is not self and not other.busy]
            oldest = min(idle, key=lambda other: other.begun, default=self)
            # A crowd is accepted before anything that it sends is read: who came just now has not been slow.
            if self.begun - oldest.begun > NEW_SECONDS or len(ours) > 2 * MAX_PEER_CONNECTIONS:
                oldest.transport.close()
                self.connections.discard(oldest)

    @property
    def peer(self) -> str:
        """The address at the other end."""
        return self.client[0] if self.client else ""

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Take what arrives; once the head of a request is there, its body has a time of its own."""
        if not self._heard:
            self._heard = True
            self._refuse_if_full(data)
        if self._refused:
            return
        super().data_received(data)
        if self.busy:
            self._stop_waiting()
        elif self._timer is None:
            self._await_head()

    def _refuse_if_full(self, data: bytes) -> None:
        asked, length = _ASKED.match(data), _LENGTH.search(data)
        queues = self.app_state.get(QUEUES, {})
        kind = kind_of(asked[1].decode(), int(length[1]) if length else 0) if asked else None
        if kind not in queues:
            return
        try:
            queues[kind].check()
        except Refusal as refusal:
            self._refused = True
            # The rest of the request is still heard, and forgotten: a closed end would answer it with a reset, which
            # can overtake the answer.
            self.transport.write(_rendered(refusal))
            self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self.begun = self.loop.time()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.busy:
            self.transport.close()


def _rendered(refusal: Refusal) -> bytes:
    """The whole answer, on a connection that is not used again."""
    body = refusal.body()
    own = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **own}.items())
    return f"HTTP/1.1 {refusal.status} Service Unavailable\r\n{head}\r\n".encode() + body
