"""Cores and locks, as the rest of the package sees them."""

import os
import threading

import pytest

from mphil.system import cores, lock


def test_cores_are_those_we_may_use():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)


def test_one_holder_at_a_time(tmp_path):
    path = tmp_path / "file"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    lock(first)
    with pytest.raises(BlockingIOError):
        lock(second, wait=False)
    waiter = threading.Thread(target=lock, args=[second])
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive()
    os.close(first)
    waiter.join(5)
    assert not waiter.is_alive()
    os.close(second)
