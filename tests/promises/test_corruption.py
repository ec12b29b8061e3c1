"""No silent corruption: whatever a flipped bit or a missing end makes of a stored file is refused, or built again."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from mphil.errors import IntegrityError, UsageError
from mphil.graphs.cache import Entry, remember
from mphil.graphs.store import GraphStore
from mphil.lab.records import RecordFile
from mphil.model.bundle import read_bundle
from mphil.training.checkpoint import Checkpoints
from tests.bundles import written
from tests.graphs import random_store
from tests.unit.lab.made import cells, record

pytestmark = pytest.mark.promise("no silent corruption")


class Stored(NamedTuple):
    """Files, and how they are read: the same value, or an `IntegrityError` or `UsageError` that names them."""

    files: list[Path]
    read: Callable[[], Any]


def bundle(folder: Path) -> Stored:
    written(folder)
    return Stored(sorted(folder.iterdir()), lambda: read_bundle(folder).digest)


def store(folder: Path) -> Stored:
    random_store("binary", graphs=20).save(folder)
    return Stored(sorted(folder.iterdir()), lambda: GraphStore.load(folder).digest())


def checkpoint(folder: Path) -> Stored:
    checkpoints = Checkpoints(folder)
    groups = {name: {"w": torch.randn(30, 30), "n": torch.arange(50)} for name in ("state", "best-ood_val")}
    checkpoints.write(groups, {"at": {"step": 7, "history": [{"loss": 0.1 * i} for i in range(20)]}})

    def read() -> Any:
        tensors = [checkpoints.load(group) for group in checkpoints.groups()]
        return checkpoints.meta(), [{name: tensor.tolist() for name, tensor in named.items()} for named in tensors]

    return Stored(sorted(folder.iterdir()), read)


def records(folder: Path) -> Stored:
    """What is left of a file of records: those that are whole, and a sentence about the others."""
    file, whole = RecordFile(folder / "tiny.jsonl"), [record(cells()[0]) | {"cell": str(i)} for i in range(5)]
    for one in whole:
        file.append(one)

    def read() -> Any:
        found, problems = file.read()
        assert all(one in whole for one in found), "a record that nobody wrote"
        if problems:
            raise IntegrityError(f"{folder / problems[0]}")
        if len(found) < len(whole):
            raise IntegrityError(f"{folder}: {len(found)} records; the others are run again")
        return found

    return Stored([file.path], read)


def cache(folder: Path) -> Stored:
    """A damaged entry is built again, once."""
    values, built = np.arange(100), []

    def build() -> Entry:
        built.append(1)
        return Entry({"values": values}, {"why": "a test"})

    remember("test", "key", build)

    def read() -> Any:
        count = len(built)
        np.testing.assert_array_equal(remember("test", "key", build).arrays["values"], values)
        if len(built) > count:
            raise IntegrityError(f"{folder}: built again")
        return values.tobytes()

    return Stored(sorted((folder / "test" / "key" / "entry").iterdir()), read)


KINDS = {"bundle": bundle, "checkpoint": checkpoint, "store": store, "cache": cache, "record": records}


def damage(path: Path, rng: random.Random, *, flip: bool) -> bytes:
    """Spoil a file; what it held before."""
    before = path.read_bytes()
    if flip:
        data = bytearray(before)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    else:
        path.write_bytes(before[: rng.randrange(len(before))])
    return before


def place(before: bytes, after: bytes) -> str:
    """Where two files begin to differ."""
    first = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after))
    return f"byte {first}, {before[first : first + 1]!r} became {after[first : first + 1]!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_refused(tmp_path, monkeypatch, amount, figure, kind):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path / "stored"))
    files, read = KINDS[kind](tmp_path / "stored")
    flips, cuts = (amount(name) // len(KINDS) for name in ("flipped bits", "truncations"))
    rng, refused, whole = random.Random(0), 0, read()
    for number in range(flips + cuts):
        path = rng.choice(files)
        before = damage(path, rng, flip=number < flips)
        try:
            # A header of NumPy says some things in several ways: another way is no damage.
            assert read() == whole, f"{path.name}: {place(before, path.read_bytes())}"
        except (IntegrityError, UsageError) as refusal:
            refused += str(tmp_path / "stored") in str(refusal)
        path.write_bytes(before)
    assert refused >= 0.99 * (flips + cuts)
    figure(
        f"{kind}: {flips:,} flipped bits and {cuts:,} truncations, {refused:,} refused or rebuilt, none read wrongly"
    )
