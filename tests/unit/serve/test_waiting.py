"""Room in a queue: how many wait, and how long the last of them would have to."""

from contextlib import ExitStack

import pytest

from mphil.serve import requests
from mphil.serve.requests import ALWAYS_WAITING, RECENT, Refusal, Waiting


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(requests, "time", clock := Clock())
    return clock


def with_mean(clock, seconds, mean):
    """A queue whose answers took so long of late."""
    queue = Waiting(seconds)
    with queue.work():
        clock.now += mean / RECENT
    return queue


def taken(queue, most=100):
    """How many requests find room."""
    with ExitStack() as stack:
        for found in range(most):
            try:
                stack.enter_context(queue.place())
            except Refusal:
                return found
    return most


def test_the_number(clock, monkeypatch):
    monkeypatch.setattr(requests, "MAX_WAITING_REQUESTS", 7)
    assert taken(Waiting(1.0)) == 7


def test_the_time_they_take(clock):
    assert taken(with_mean(clock, 1.0, mean=0.25)) == 5


def test_some_may_always_wait(clock):
    assert taken(with_mean(clock, 1.0, mean=60.0)) == ALWAYS_WAITING


def test_an_answer_that_takes_longer_than_others(clock):
    queue = with_mean(clock, 1.0, mean=0.01)
    with queue.work():
        clock.now += 0.9
        assert taken(queue) == 12
        clock.now += 5.0
        assert taken(queue) == ALWAYS_WAITING


def test_whoever_leaves_makes_room(clock, monkeypatch):
    monkeypatch.setattr(requests, "MAX_WAITING_REQUESTS", 1)
    queue = Waiting(1.0)
    with pytest.raises(KeyError), queue.place():
        raise KeyError
    with queue.place(), pytest.raises(Refusal):
        queue.check()
