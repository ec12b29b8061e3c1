"""What training asks of the operating system: a folder for itself, memory that stays, and Ctrl-C at a good moment."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from mphil.errors import IntegrityError
from mphil.files import lock, remove_drafts


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process; made if it is missing, tidied of what a killed holder was writing.

    The system releases the lock when the holder ends, however it ends. The file `.lock` stays; it names the holder
    while there is one.

    Raises:
        IntegrityError: another holder is at work in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            lock(handle, wait=False)
        except BlockingIOError:
            # A holder that has the lock but has not yet written its number is possible, hence the second wording.
            holder = os.read(handle, 32).decode(errors="replace").strip()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise IntegrityError(f"{folder} is in use by {who}; wait for it or choose another --out") from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        remove_drafts(folder)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


class Interrupt(AbstractContextManager["Interrupt"]):
    """Holds back the first Ctrl-C or SIGTERM until `strike` is called; a second one strikes at once.

    What is saved in the middle of a step would be neither before nor after it, and no run could go on from there as if
    nothing had happened. Signals that would not raise an exception here (ignored, or left to end the process) stay as
    they are.

    Attributes:
        held: whether a user wants to stop.
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


TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Numbers of glibc's settings (malloc.h)."""
EVERYTHING = 2**31 - 1
LARGEST = {MMAP_MAX: 65536, MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 64 << 20}
"""Where glibc's own rules end up in a process with large tensors."""


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what a step frees for the next one, and give it back at the end.

    glibc returns large tensors to the system as soon as they are freed, and the system clears the same pages again
    for every step. Other C libraries are left alone.
    """
    libc = ctypes.CDLL(None) if platform.system() == "Linux" else None
    if libc is None or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(MMAP_MAX, 0)
    libc.mallopt(TRIM_THRESHOLD, EVERYTHING)
    try:
        yield
    finally:
        for setting, value in LARGEST.items():
            libc.mallopt(setting, value)
        libc.malloc_trim(0)
