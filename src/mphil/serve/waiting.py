"""Who waits for an answer: whether one more may is decided before the body of a request is read.

To be turned away must cost little: most of an overload is refusals, and the same event loop answers those that are
taken. So a full queue is seen by the first look at a request, not when its molecules have been parsed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from mphil.limits import MAX_WAITING_REQUESTS
from mphil.serve.refusal import Refusal

ALWAYS_WAITING = 3
"""Requests that may wait however long answers take."""

RECENT = 0.2
"""Weight of the last answer in the mean time of an answer."""


class Waiting:
    """Requests that one process answers, one after the other.

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
