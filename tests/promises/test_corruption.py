"""No silent corruption: whatever a flipped bit or a missing end makes of a stored file is refused, or built again."""

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from mphil.errors import IntegrityError, UsageError
from mphil.graphs import cache
from mphil.graphs.cache import Entry, remember
from mphil.graphs.store import GraphStore
from mphil.model.bundle import read_bundle
from tests.bundles import written
from tests.graphs import random_store

SMALL, FULL = (200, 40), (10_000, 1_000)
"""Flipped bits and truncations over all kinds of files together."""


class Stored(NamedTuple):
    """What was read, as far as it can be compared."""

    digest: str


def bundle(folder: Path):
    return written(folder), lambda: read_bundle(folder)


def store(folder: Path):
    random_store("binary", graphs=20).save(folder)
    return folder, lambda: Stored(GraphStore.load(folder).digest())


KINDS = {"bundle": bundle, "store": store}


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
@pytest.mark.parametrize(("flips", "cuts"), [SMALL, pytest.param(*FULL, marks=pytest.mark.slow)])
def test_refused(tmp_path, promise, kind, flips, cuts):
    folder, read = KINDS[kind](tmp_path / "stored")
    files, rng, refused = sorted(path for path in folder.iterdir() if path.is_file()), random.Random(0), 0
    whole, rounds = read().digest, (flips + cuts) // len(KINDS)
    for number in range(rounds):
        path = rng.choice(files)
        before = damage(path, rng, flip=number < flips // len(KINDS))
        try:
            # A header of NumPy says some things in several ways: another way is no damage.
            assert read().digest == whole, f"{path.name}: {place(before, path.read_bytes())}"
        except (IntegrityError, UsageError) as refusal:
            refused += str(folder) in str(refusal)
        path.write_bytes(before)
    assert refused >= 0.99 * rounds
    promise(
        "no silent corruption", f"{rounds:,} spoilt files of a {kind}: {refused:,} refused by name, none read wrongly"
    )


@pytest.mark.parametrize(("flips", "cuts"), [(30, 10), pytest.param(500, 100, marks=pytest.mark.slow)])
def test_built_again(tmp_path, promise, monkeypatch, flips, cuts):
    monkeypatch.setenv("MPHIL_CACHE", str(tmp_path))
    values, built, rng = np.arange(100), [], random.Random(0)

    def build() -> Entry:
        built.append(1)
        return Entry({"values": values}, {"why": "a test"})

    remember("test", "key", build)
    entry = cache.cache_folder() / "test" / "key" / "entry"
    for number in range(flips + cuts):
        path = rng.choice(sorted(entry.iterdir()))
        before = damage(path, rng, flip=number < flips)
        changed, count = path.read_bytes() != before, len(built)
        np.testing.assert_array_equal(remember("test", "key", build).arrays["values"], values)
        assert len(built) == count + changed
    promise("no silent corruption", f"{flips + cuts:,} spoilt files of the cache, all built again")
