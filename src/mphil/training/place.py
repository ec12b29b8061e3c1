"""The folder of a training: held by one process, and refused when it holds something else; torch is not needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mphil.errors import IntegrityError, UsageError
from mphil.files import write_json
from mphil.training.process import lock_run

MARKER = "product.json"
FORMAT = 1


@contextmanager
def held(out: Path, method: str) -> Iterator[None]:
    """Hold a folder for a training: new, empty, or one that holds a training of this method.

    Raises:
        UsageError: it holds something else.
        IntegrityError: another process is at work in it, or its marker is damaged.
    """
    marker = out / MARKER
    check_free(out, method)
    with lock_run(out):
        if not marker.exists():
            write_json(marker, {"format": FORMAT, "method": method})
        yield


def check_free(out: Path, method: str) -> None:
    """Refuse a folder that cannot hold a training of this method, before any time is spent; it is not touched.

    Args:
        out: the folder.
        method: name of the method; empty when it is not known yet.

    Raises:
        UsageError: it holds something else.
        IntegrityError: another process is at work in it, or its marker is damaged.
    """
    marker = out / MARKER
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file; choose another --out")
    if not marker.exists():
        others = [path.name for path in out.iterdir() if not path.name.startswith((".lock", f".{MARKER}."))]
        if others:
            raise UsageError(f"{out} is not empty ({', '.join(sorted(others)[:3])}); choose another --out")
        return
    if (before := _method_of(marker)) != (method or before):
        raise UsageError(f"{out} holds a training of {before[:60]}, not of {method}; choose another --out")
    with lock_run(out):
        pass


def _method_of(marker: Path) -> str:
    try:
        return str(json.loads(marker.read_bytes())["method"])
    except (OSError, ValueError, KeyError, TypeError):
        raise IntegrityError(f"{marker} cannot be read; restore it or choose another --out") from None
