"""Memory that stays with the process from one step of training to the next."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

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
