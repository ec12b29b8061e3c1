"""Work in a process of its own: what came out, the processor time it took and the memory it added."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

MEGABYTE = 1_000_000


class Measured(NamedTuple):
    """What a process did: what it returned, or the error it raised; its processor seconds; bytes it added at most."""

    found: Any
    error: Exception | None
    seconds: float
    bytes: int


def apart(work: Callable[..., Any], *arguments: Any, patience: float = 600.0) -> Measured:
    """Run `work(*arguments)` in a fork of this process."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        assert mine.poll(patience), "it does not end"
        return mine.recv()
    except EOFError:
        process.join()
        raise AssertionError(f"the process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()


def _work(end: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    before, begun = memory("VmRSS"), time.process_time()
    found, error = None, None
    try:
        found = work(*arguments)
    except Exception as raised:
        error = raised
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() - begun + children.ru_utime + children.ru_stime
    end.send(Measured(found, error, seconds, memory("VmHWM") - before))


def memory(field: str, pid: int | str = "self") -> int:
    """Bytes of a process: `VmRSS` now, `VmHWM` at most so far."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


class Others:
    """How much of the processors other programs take, from the moment this is made.

    What we and the processes that we have started take does not count: it is part of what is measured.
    """

    def __init__(self) -> None:
        self._begun = self._taken()

    def share(self) -> float:
        """Their share of all processors, from 0 to 1."""
        (all_before, busy_before, ours_before), (all_now, busy_now, ours_now) = self._begun, self._taken()
        theirs = busy_now - busy_before - (ours_now - ours_before)
        return min(1.0, max(0.0, theirs / max(1, all_now - all_before)))

    def allowed(self, seconds: float) -> float:
        """How long something may take beside them that takes so long without them."""
        return seconds / max(LEAST, 1 - self.share())

    @staticmethod
    def _taken() -> tuple[int, int, int]:
        """Ticks of all processors so far: all, those that were used, and those that we used."""
        ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = ticks[3] + ticks[4]
        return sum(ticks), sum(ticks) - idle, _ours()


LEAST = 0.05
"""Of the processors: somebody who has less is not allowed still more time."""


def _ours() -> int:
    """Ticks of this process and of those that it has started, and they in their turn; of ended ones too."""
    parents, used = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)], used[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[pid] for pid in ours)
