"""Ctrl-C that waits for a good moment."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any


class Interrupt(AbstractContextManager["Interrupt"]):
    """Holds back the first Ctrl-C or SIGTERM until `strike` is called; a second one strikes at once.

    What is saved in the middle of a step would be neither before nor after it, and no run could go on from there as if
    nothing had happened. Signals that would not raise an exception here (ignored, or left to end the process) stay as
    they are.

    Attributes:
        held: whether somebody wants to stop.
    """

    def __init__(self) -> None:
        self.held, self._number = False, 0
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if current_thread() is main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._hold)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def strike(self) -> None:
        """Raise what was held back, if anything; whoever handled the signal before hears of it first."""
        if self._number:
            self._handlers[self._number](self._number, None)
        if self.held:
            raise KeyboardInterrupt

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.strike()
        self.held, self._number = True, number
