"""Writing files so that a crash leaves the old contents or the new, never half of either."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

_DRAFT = ".draft-"


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
    """Write to the file that is yielded; on success it takes the place of `path`, on error it vanishes."""
    draft = _draft_of(path)
    with draft.open("xb") as file:
        try:
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
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft_of(path)
    draft.mkdir()
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


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
