"""The folder of a training: held by one process, and refused when it holds something else; torch is not needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mphil.errors import DataError, IntegrityError, MphilError, UsageError
from mphil.files import sha256_of, write_json
from mphil.training.process import lock_run

MARKER = "product.json"
FORMAT = 1
RECORDED = ("wanted", "selection", "members", "baselines", "files", "finished")
"""What is needed to continue; folders of older versions have none of it."""


@contextmanager
def held(out: Path, method: str, record: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Hold a folder for a training: new, empty, or one that holds a training of this method.

    Args:
        out: the folder.
        method: its name.
        record: all that is needed to continue; a training that is refused leaves that of the one before.

    Raises:
        UsageError: it holds something else.
        IntegrityError: another process is at work in it, or its marker is damaged.
    """
    marker = out / MARKER
    check_free(out, method)
    with lock_run(out):
        before = read_record(out) if marker.exists() else None
        now = {"format": FORMAT, "method": method, **(record or {})}
        write_json(marker, {**now, "finished": False})
        try:
            yield
        except MphilError:
            if before is not None:
                write_json(marker, before)
            raise
        write_json(marker, {**now, "finished": True})


def check_free(out: Path, method: str) -> None:
    """Refuse a folder that cannot hold a training of this method, before any time is spent; it is not touched.

    Args:
        out: the folder.
        method: name of the method; empty when it is not known yet.

    Raises:
        UsageError: it holds something else.
        IntegrityError: another process is at work in it, or its marker is damaged.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file; choose another --out")
    if not (out / MARKER).exists():
        others = [path.name for path in out.iterdir() if not path.name.startswith((".lock", f".{MARKER}."))]
        if others:
            raise UsageError(f"{out} is not empty ({', '.join(sorted(others)[:3])}); choose another --out")
        return
    before = str(read_record(out)["method"])
    if before != (method or before):
        raise UsageError(f"{out} holds a training of {before[:60]}, not of {method}; choose another --out")
    with lock_run(out):
        pass


def read_record(out: Path) -> dict[str, Any]:
    """What the folder of a training says of it: `method`, and of newer ones all that is needed to continue.

    Raises:
        IntegrityError: it is damaged.
    """
    marker = out / MARKER
    try:
        record = dict(json.loads(marker.read_bytes()))
        needed = {"method", *(RECORDED if "wanted" in record else ())}
        if not needed <= record.keys():
            raise KeyError
    except (OSError, ValueError, KeyError, TypeError):
        raise IntegrityError(f"{marker} cannot be read; restore it or choose another --out") from None
    return record


def check_sources(out: Path, digests: Mapping[str, str], remedy: str) -> None:
    """Refuse to go on with other files than those of the training in a folder.

    Args:
        out: the folder.
        digests: the files, and what `digest_of` gave of each then.
        remedy: what to do, other than to restore the file.

    Raises:
        DataError: a file is gone.
        IntegrityError: one has changed.
    """
    for name, digest in digests.items():
        if not Path(name).exists():
            raise DataError(f"{name}, of which {out} was made, is gone; put it back, or {remedy}")
        if digest_of(Path(name)) != digest:
            raise IntegrityError(f"{name} has changed since {out} was made; restore it, or {remedy}")


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files in a folder."""
    if not path.is_dir():
        return sha256_of(path)
    sha = hashlib.sha256()
    for one in sorted(path.rglob("*")):
        if one.is_file():
            sha.update(f"{one.relative_to(path)}\0{sha256_of(one)}\n".encode())
    return sha.hexdigest()
