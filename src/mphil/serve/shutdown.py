"""The end of the server: requests in flight have some time to finish, then they are told to come back."""

from __future__ import annotations

import asyncio

from mphil.serve.refusal import Refusal


class Shutdown:
    """Whether requests that are still in flight are to be given up."""

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
