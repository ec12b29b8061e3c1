"""Old state survives: a disk that is full, failing or read-only leaves the previous file, and an error names it."""

import errno
import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from mphil.graphs.store import GraphStore
from mphil.lab.records import RecordFile
from mphil.model.bundle import read_bundle, write_bundle
from mphil.training.checkpoint import Checkpoints
from tests.bundles import written
from tests.graphs import random_store
from tests.measured import apart
from tests.unit.lab.made import cells, record

pytestmark = pytest.mark.promise("old state survives")

NOBODY = 65_534


class Kept(NamedTuple):
    """Something that is stored, how to write another one over it, and how to read what is there."""

    folder: Path
    replace: Callable[[], object]
    read: Callable[[], Any]


def bundle(folder: Path) -> Kept:
    place, other = written(folder / "place"), read_bundle(written(folder / "other", seed=1))
    return Kept(place, lambda: write_bundle(place, other), lambda: read_bundle(place).digest)


def checkpoint(folder: Path) -> Kept:
    checkpoints = Checkpoints(folder / "place")
    checkpoints.write({"state": {"w": torch.zeros(300)}}, {"step": 1})
    other = {"state": {"w": torch.ones(300)}, "best": {"w": torch.ones(300)}}

    def read() -> Any:
        return checkpoints.meta(), {group: checkpoints.load(group)["w"].tolist() for group in checkpoints.groups()}

    return Kept(folder / "place", lambda: checkpoints.write(other, {"step": 2}), read)


def store(folder: Path) -> Kept:
    random_store("binary", graphs=20).save(folder / "place")
    other = random_store("binary", graphs=80)
    return Kept(
        folder / "place", lambda: other.save(folder / "place"), lambda: GraphStore.load(folder / "place").digest()
    )


def records(folder: Path) -> Kept:
    file = RecordFile(folder / "place" / "tiny.jsonl")
    file.append(record(cells()[0]))
    return Kept(folder / "place", lambda: file.append(record(cells()[1])), file.read)


KINDS = {"bundle": bundle, "checkpoint": checkpoint, "store": store, "record": records}


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file may grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def largest(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk(tmp_path, amount, figure, kind):
    kept = KINDS[kind](tmp_path)
    points, before, there, size = amount("full disks"), kept.read(), names(tmp_path), largest(kept.folder)
    for point in range(points):
        with disk_of(size * point // points), pytest.raises(OSError, match=r"File too large|written|space") as error:
            kept.replace()
        assert str(error.value.filename).startswith(str(kept.folder))
        assert kept.read() == before
        assert names(tmp_path) == there or kind == "checkpoint"
    kept.replace()
    assert kept.read() != before
    figure(f"{kind}: {points} full disks, the previous one loads every time")


def error_of(work: Callable[[], object]) -> OSError | None:
    try:
        work()
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_fails_to_keep(tmp_path, monkeypatch, figure, kind):
    """Every `fsync` fails in its turn: the previous one is there, or the new one is, whole."""
    kept = KINDS[kind](tmp_path)
    before, real, calls = kept.read(), os.fsync, 0

    def fail(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", fail)
    failing = old = new = 0
    while not new:
        failing, calls = failing + 1, 0
        told = error_of(kept.replace)
        assert told is None or told.errno == errno.EIO
        assert calls < failing if told is None else str(told.filename).startswith(str(kept.folder))
        found = kept.read()
        old, new = old + (found == before), new + (found != before)
        assert failing < 100
    figure(f"{kind}: {failing} failing fsyncs, {old} left the previous one and {new} the new one")


def replaced_by_nobody(kept: Kept) -> str:
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    with pytest.raises(OSError, match="denied|Permission") as error:
        kept.replace()
    return str(error.value.filename)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_cannot_be_written(figure, kind):
    if os.geteuid() != 0:
        pytest.skip("only the superuser can become somebody who may not write")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        kept = KINDS[kind](Path(folder))
        before = kept.read()
        measured = apart(replaced_by_nobody, kept)
        assert measured.error is None, measured.error
        assert measured.found.startswith(str(kept.folder))
        assert kept.read() == before
    figure(f"{kind}: a folder that cannot be written is named")
