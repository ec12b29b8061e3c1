"""Loading a shared library only if nobody else can have written it: what is checked is what is loaded."""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")
"""Where open files have names, so that a library can be loaded by its descriptor; absent on some systems."""

_REMEDY = "remove it, or set MPHIL_CACHE to a folder of your own"


class Untrusted(Exception):
    """Why a file or a folder is not trusted: its name, the reason and the remedy."""

    def __init__(self, path: Path, reason: str, remedy: str = _REMEDY) -> None:
        super().__init__(f"{path} {reason}; {remedy}")


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of a folder that only we can write to.

    The folder above it may be shared, as long as it belongs to us or to root and others cannot remove what is ours.

    Raises:
        Untrusted: it is a link, belongs to another user, or others may write to it.
        OSError: it cannot be opened.
    """
    above = folder.parent.resolve()
    _check(above, above.stat(), stat.S_IWOTH)
    handle = _open(folder, os.O_DIRECTORY)
    try:
        _check(folder, os.fstat(handle), stat.S_IWGRP | stat.S_IWOTH)
        yield handle
    finally:
        os.close(handle)


def read_checked(name: str, folder: Path, within: int) -> tuple[int, bytes]:
    """Open a file of a folder without following links, and read it.

    Args:
        name: of the file.
        folder: where it is, for messages.
        within: descriptor of the folder.

    Returns:
        a descriptor of the file, which the caller closes, and the contents.

    Raises:
        Untrusted: it is no regular file, belongs to another user, or others may write to it.
        OSError: it cannot be opened.
    """
    handle = _open(folder / name, os.O_NONBLOCK, within)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Untrusted(folder / name, "is not a regular file")
        _check(folder / name, found, stat.S_IWGRP | stat.S_IWOTH)
        with os.fdopen(os.dup(handle), "rb") as stream:
            return handle, stream.read()
    except BaseException:
        os.close(handle)
        raise


def load_library(file: Path, digest: str | None = None) -> ctypes.CDLL | None:
    """Load a library that belongs to us; what stands at its path by then does not matter.

    Args:
        file: the library, in a folder that only we can write to.
        digest: what its SHA-256 must be; None takes any.

    Returns:
        the library, or None when its contents are others.

    Raises:
        Untrusted: another user could have written it.
        OSError: it cannot be opened or loaded.
    """
    with open_folder(file.parent) as within:
        handle, content = read_checked(file.name, file.parent, within)
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        os.close(handle)
        return None
    named = DESCRIPTORS / str(handle)
    # The loader takes a name that it has seen for the same library, so the number must not be used again: the
    # descriptor stays open for as long as the process lives.
    return ctypes.CDLL(str(named if named.exists() else file))


def _open(path: Path, flags: int, within: int | None = None) -> int:
    try:
        name = path if within is None else path.name
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=within)
    except OSError:
        if path.is_symlink():
            raise Untrusted(path, "is a link, which is not followed") from None
        raise


def _check(path: Path, found: os.stat_result, forbidden: int) -> None:
    if found.st_uid not in (os.getuid(), 0):
        raise Untrusted(path, f"belongs to another user (number {found.st_uid})")
    sticky = stat.S_ISDIR(found.st_mode) and forbidden == stat.S_IWOTH and found.st_mode & stat.S_ISVTX
    if found.st_mode & forbidden and not sticky:
        remedy = f"`chmod go-w` it if you trust what is in it, or {_REMEDY}"
        raise Untrusted(path, f"can be written by others (mode {stat.S_IMODE(found.st_mode):04o})", remedy)
