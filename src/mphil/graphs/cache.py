"""What took long to compute, kept under the hash of what it was computed from."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.errors import IntegrityError
from mphil.files import lock, remove_drafts, replace_folder

FORMAT = 1
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Entry:
    """Something worth keeping.

    Attributes:
        arrays: NumPy arrays by name; those of an entry that was kept are mapped into memory.
        report: anything else, as JSON.
        lasting: False for what another attempt may find otherwise (a timeout): it is not kept.
    """

    arrays: dict[str, NDArray[Any]]
    report: Any
    lasting: bool = True


def cache_folder() -> Path:
    """Where things are kept: `MPHIL_CACHE`, or `mphil` in the user's cache folder."""
    if given := os.environ.get("MPHIL_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mphil"


def remember(kind: str, key: str, build: Callable[[], Entry]) -> Entry:
    """The entry kept under a key; built and kept if there is none or if it is damaged.

    Of several processes that want the same entry one builds it and the others wait for it. What a killed one left
    behind is removed by the next. If nothing can be kept (a full disk, a folder that is not ours), that is logged and
    the entry is built for this time only.

    Args:
        kind: what sort of thing it is; a folder of its own.
        key: hash of everything the entry depends on.
        build: makes the entry.
    """
    home = cache_folder() / kind / key
    if (entry := _look(home)) is not None:
        return entry
    with _lock(home) as held:
        # Whoever held the folder before us may have built what we want.
        if held and (entry := _look(home)) is not None:
            return entry
        entry = build()
        if held and entry.lasting:
            _keep(home, entry)
    return entry


def _look(home: Path) -> Entry | None:
    """The entry of a folder, or None if there is none; a damaged one counts as none."""
    try:
        return _read(home / "entry")
    except FileNotFoundError:
        return None
    except (IntegrityError, OSError) as error:
        _LOG.warning("%s; it is built again", error)
        return None


def _keep(home: Path, entry: Entry) -> None:
    try:
        remove_drafts(home)
        _write(home / "entry", entry)
    except OSError as error:
        _LOG.warning("%s: the result is not kept (%s)", home, error)


def _write(folder: Path, entry: Entry) -> None:
    with replace_folder(folder) as draft:
        for name, array in entry.arrays.items():
            np.save(draft / f"{name}.npy", array, allow_pickle=False)
        (draft / "report.json").write_text(json.dumps(entry.report))
        sums = {file.name: _sum(file) for file in sorted(draft.iterdir())}
        (draft / "manifest.json").write_text(json.dumps({"format": FORMAT, "sha256": sums}, indent=1))


def _read(folder: Path) -> Entry:
    """Map an entry into memory, all of it checked.

    Raises:
        FileNotFoundError: there is no entry.
        IntegrityError: it is not what was written.
    """
    manifest = (folder / "manifest.json").read_bytes()
    try:
        told = json.loads(manifest)
        sums = {file.name: _sum(file) for file in sorted(folder.iterdir()) if file.name != "manifest.json"}
        if told["format"] != FORMAT or told["sha256"] != sums:
            raise ValueError("its files do not match their checksums")
        arrays = {file.stem: np.load(file, mmap_mode="c", allow_pickle=False) for file in sorted(folder.glob("*.npy"))}
        return Entry(arrays, json.loads((folder / "report.json").read_bytes()))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise IntegrityError(f"{folder}: damaged cache entry ({error})") from error


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _lock(home: Path) -> Iterator[bool]:
    """Hold a folder, waiting for whoever holds it; False if it cannot be held.

    The system lets go of it when the holder ends, however it ends.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        handle = os.open(home / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        _LOG.warning("%s: nothing can be kept here (%s)", home, error)
        yield False
        return
    try:
        lock(handle)
        yield True
    finally:
        os.close(handle)
