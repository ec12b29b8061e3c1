"""What operating systems do in their own ways: how many cores there are for us, and locks on files.

Everything is tested on Linux; the ways of macOS and Windows are written by their documentation.
"""

from __future__ import annotations

import os
import sys

FAR = 1 << 40
"""Where Windows locks a byte: it keeps others from reading what it locks, so not where something is written."""


def cores() -> int:
    """Processors that this process may use; of the whole machine where the system does not tell."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:
        return os.cpu_count() or 1


def lock(handle: int, *, wait: bool = True) -> None:
    """Hold an open file or folder; the system lets go of it when the holder ends, however it ends.

    Args:
        handle: of the file; Windows has no locks on folders.
        wait: until nobody else holds it.

    Raises:
        BlockingIOError: somebody else holds it, and nobody wanted to wait.
        OSError: the file system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        place = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from error
        finally:
            os.lseek(handle, place, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
