"""Files and what operating systems do in their own ways: safe writing, locks, cores.

Everything is tested on Linux; the ways of macOS and Windows are written by their documentation.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

FAR = 1 << 40
"""Where Windows locks a byte: it keeps others from reading what it locks, so not where something is written."""


_FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
UNKNOWN_FILE = sum(getattr(os, flag, 0) for flag in _FLAGS)
"""Flags to open what may be a link, a pipe or a device, as far as the system has them."""


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
        BlockingIOError: another process holds it, and nobody wanted to wait.
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


_DRAFT = ".draft-"
NEW_SECONDS = 1.0
"""How long after its making a file or folder is left alone, whoever seems to hold it."""


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the file atomically: temporary in the same folder, fsync, rename, fsync the folder.

    Whatever fails (a full disk, a read-only folder) is raised as `OSError`; the old file is then still in place.
    """
    with replace_file(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically, in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """JSON, indented, with NaN refused rather than written as something no other reader accepts."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Write to the file that is yielded; on success it takes the place of `path`, on error it vanishes.

    Raises:
        OSError: of a full disk and the like; it names `path`.
    """
    _remove_dead_drafts(path)
    draft = _draft_of(path)
    with _named(draft, path):
        with draft.open("xb") as file:
            try:
                hold(file.fileno())
                yield file
                file.flush()
                os.fsync(file.fileno())
                draft.replace(path)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        sync_folder(path.parent)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Fill the folder that is yielded; on success it takes the place of `path`, on error it vanishes."""
    given, path = path, path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_dead_drafts(path)
    draft = _draft_of(path)
    with _named(draft, given), held_folder(draft):
        try:
            yield draft
            for folder, _, files in os.walk(draft):
                for name in files:
                    _sync(Path(folder, name))
                sync_folder(Path(folder))
            _swap(draft, path)
            sync_folder(path.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Delete what writers that were killed left behind; only for who knows that nobody else is writing there."""
    for draft in folder.glob(f".*{_DRAFT}*"):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


@contextmanager
def held_folder(path: Path, mode: int = 0o777) -> Iterator[None]:
    """Make a folder, and hold it meanwhile: whoever finds it afterwards may remove it.

    Windows has no handles of folders: there it is only made.
    """
    path.mkdir(mode)
    if sys.platform == "win32":
        yield
    else:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            hold(handle)
            yield
        finally:
            os.close(handle)


def hold(handle: int) -> bool:
    """Hold an open file or folder; False when another process does, or when the file system does not know.

    The system lets go of it when the holder ends, however it ends.
    """
    try:
        lock(handle, wait=False)
    except OSError:
        return False
    return True


def remove_if_dead(path: Path) -> None:
    """Delete a file or folder that was held by a process that has ended; one that is not ours stays.

    What was made a moment ago stays too: its maker may not hold it yet. On Windows all stays, since nobody can tell.
    """
    if sys.platform == "win32":
        return
    else:
        try:
            handle = os.open(path, os.O_RDONLY | UNKNOWN_FILE)
        except OSError:
            return
        try:
            found = os.fstat(handle)
            if found.st_uid != os.geteuid() or time.time() - found.st_ctime < NEW_SECONDS or not hold(handle):
                return
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut; Windows has no way to ask for it."""
    if sys.platform != "win32":
        _sync(path)


def _sync(path: Path) -> None:
    # Windows writes out only what was opened for writing.
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_dead_drafts(path: Path) -> None:
    """Delete what writers of the same file or folder left behind when they were killed."""
    prefix = f".{path.name}{_DRAFT}"
    with suppress(OSError), os.scandir(path.parent) as entries:
        drafts = [entry.path for entry in entries if entry.name.startswith(prefix)]
        for draft in drafts:
            remove_if_dead(Path(draft))


@contextmanager
def _named(draft: Path, path: Path) -> Iterator[None]:
    """Make an error about a draft one about what the caller wants to write, under the name that the caller uses."""
    try:
        yield
    except OSError as error:
        inside = error.filename is not None and Path(os.fsdecode(error.filename)).is_relative_to(draft)
        if not inside and (error.filename is not None or not _disk_is_at_fault(error)):
            raise
        if error.errno == errno.ENOENT and not draft.parent.is_dir():
            raise FileNotFoundError(error.errno, "there is no such folder", str(path.parent)) from error
        place = path / Path(os.fsdecode(error.filename)).relative_to(draft) if inside else path
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(place)) from error


def _disk_is_at_fault(error: OSError) -> bool:
    """Whether an error that names no file comes from writing one; NumPy gives no number either."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO) or (
        error.errno is None and "requested and" in str(error)
    )


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{_DRAFT}{uuid.uuid4().hex[:12]}")


def _swap(draft: Path, path: Path) -> None:
    """Put `draft` where `path` is; a folder that was there ends up in the place of the draft."""
    try:
        draft.rename(path)
    except OSError:
        # A rename replaces an empty folder only; anything but a folder in the way is not ours to remove.
        if not path.is_dir():
            raise
        if not _exchange(draft, path):
            old = _draft_of(path)
            path.rename(old)
            draft.rename(path)
            old.rename(draft)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in a single step, where the system can (Linux); False where it cannot."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
