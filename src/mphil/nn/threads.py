"""How many threads: one for torch, whose rounding depends on their number, several for our loops, whose does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from mphil.files import cores
from mphil.nn.fast.library import kernels

MOST_UNASKED = 2
"""Threads of a training when nobody names a number: with what stays in one thread, a third would bring little."""

_PROCESSES = ContextVar("processes", default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch uses one thread inside, so that results do not depend on the caller's number, which is restored after.

    The number belongs to the calling Python thread: blocks that are open elsewhere at the same time do not matter.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def shared_loops(threads: int, like: Tensor) -> Iterator[None]:
    """The compiled loops share their work among so many threads inside; the bits of a result are those of one thread.

    The number belongs to the calling Python thread. Where there are no compiled loops, nothing happens.

    Args:
        threads: 1 or more.
        like: a tensor such as the loops are to take.
    """
    library = kernels(like)
    if library is None:
        yield
        return
    before = library.set_threads(threads=threads)
    try:
        yield
    finally:
        library.set_threads(threads=before)


@contextmanager
def divided_cores(processes: int) -> Iterator[None]:
    """Inside, so many processes train at the same time, and a training leaves the others their cores."""
    before = _PROCESSES.set(processes)
    try:
        yield
    finally:
        _PROCESSES.reset(before)


def usable_cores() -> int:
    """Processors that this process may use: those it may run on and, if it is set, at most `OMP_NUM_THREADS`.

    A program that starts one process for each core says so by that variable.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return max(1, min(cores(), int(limit) if limit.isdecimal() else cores()))


def loop_threads(asked: int) -> int:
    """Threads for the compiled loops of a training: the number asked for or, for 0, what suits the machine."""
    return asked or max(1, min(MOST_UNASKED, usable_cores() // _PROCESSES.get()))
