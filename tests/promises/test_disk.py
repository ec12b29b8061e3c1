"""Old state survives: a disk that is full at any moment leaves the previous file, and an error naming the new one."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mphil.model.bundle import read_bundle, write_bundle
from tests.bundles import written


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file may grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("points", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_a_full_disk_while_a_bundle_is_replaced(tmp_path, promise, points):
    place, other = written(tmp_path / "place"), read_bundle(written(tmp_path / "other", seed=1))
    before = read_bundle(place).digest
    largest = max(path.stat().st_size for path in place.iterdir())
    for point in range(points):
        with disk_of(largest * point // points), pytest.raises(OSError, match=r"File too large|written") as error:
            write_bundle(place, other)
        assert str(error.value.filename).startswith(str(place))
        assert read_bundle(place).digest == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "place"]
    write_bundle(place, other)
    assert read_bundle(place).digest == other.digest
    promise("old state survives", f"{points} full disks, the previous bundle loads every time")
