"""Work in a process of its own: what came out, the processor time it took and the memory it added."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import time
from collections.abc import Callable
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


def on_this_machine(seconds: float) -> float:
    """How long something may take that takes so long on a machine with nothing else to do."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
