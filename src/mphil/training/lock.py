"""One process at a time in a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mphil.errors import IntegrityError
from mphil.files import remove_drafts
from mphil.system import lock


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
