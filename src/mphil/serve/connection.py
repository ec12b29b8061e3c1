"""Connections of the server: a request must begin soon, and nobody may hold many that say nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from mphil.limits import HEADER_SECONDS, MAX_PEER_CONNECTIONS


class Connection(H11Protocol):
    """A connection on which the head of each request has to arrive in time.

    A peer with too many connections loses the oldest one that is not being answered.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request."""
        super().connection_made(transport)
        self._await_head()
        ours = [other for other in self.connections if isinstance(other, Connection) and other.peer == self.peer]
        if len(ours) > MAX_PEER_CONNECTIONS:
            idle = [other for other in ours if other is not self and not other.busy]
            oldest = min(idle, key=lambda other: other.begun, default=self)
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
        super().data_received(data)
        if self.busy:
            self._stop_waiting()
        elif self._timer is None:
            self._await_head()

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
