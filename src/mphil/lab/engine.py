"""Where cells are carried out. An engine takes cells and gives outcomes; another one needs nothing but `run`."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Literal, Protocol

from mphil.files import write_json
from mphil.lab.cells import Cell
from mphil.lab.records import Record
from mphil.lab.worker import BUSY, DONE, failure

GRACE_SECONDS = 30.0
"""A worker that was asked to stop has so long to save before it is killed."""
WORKER = (sys.executable, "-m", "mphil.lab.worker")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}


@dataclass(frozen=True)
class Outcome:
    """What became of a cell; `busy` means that another sweep is at work on it and nothing is to be recorded here."""

    cell: Cell
    state: Literal["run", "refused", "failed", "busy"]
    record: Record


class Engine(Protocol):
    """Carries out cells."""

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome]:
        """Outcomes in any order.

        Cells are taken from the iterable as there is room for them, no earlier: the next one may depend on the
        outcomes so far. Closing the iterator stops everything under way, so that it can be taken up again.
        """
        ...

    def clear(self, cell: Cell) -> None:
        """Throw away the files of a cell whose record is safe."""
        ...


class LocalEngine:
    """Processes on this machine, one a cell, one thread each.

    Args:
        home: folder for the runs, one sub folder a cell.
        jobs: processes at a time.
        program: what is started, with the folder of the cell as its last argument.
    """

    def __init__(self, home: Path, jobs: int = 1, program: Sequence[str] = WORKER) -> None:
        self.home, self.jobs, self.program = home, jobs, program

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome]:
        ended: queue.Queue[Worker] = queue.Queue()
        waiting, working = iter(cells), set[Worker]()
        try:
            while True:
                while len(working) < self.jobs and (cell := next(waiting, None)) is not None:
                    working.add(Worker(cell, self.home / cell.id, self.program, ended))
                if not working:
                    return
                worker = ended.get()
                working.remove(worker)
                yield worker.outcome()
        finally:
            for worker in working:
                worker.ask_to_stop()
            for worker in working:
                worker.wait()

    def clear(self, cell: Cell) -> None:
        shutil.rmtree(self.home / cell.id, ignore_errors=True)


class Worker:
    """A process that carries out one cell.

    Args:
        cell: what to do.
        home: folder of the cell.
        program: what is started.
        ended: where the worker is put when its process has ended.
    """

    def __init__(self, cell: Cell, home: Path, program: Sequence[str], ended: queue.Queue[Worker]) -> None:
        self.cell, self.home = cell, home
        self._ended, self._said = ended, deque[str](maxlen=20)
        home.mkdir(parents=True, exist_ok=True)
        write_json(home / "cell.json", cell.to_json())
        # A session of its own: Ctrl-C on the terminal reaches us alone, and we ask the workers to save and stop.
        self._process = subprocess.Popen(
            [*program, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )
        self._watcher = Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def ask_to_stop(self) -> None:
        """The end of its input makes the worker save and leave."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Wait until the process is gone, and see to it if that takes too long."""
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._watcher.join()

    def outcome(self) -> Outcome:
        """What the process left behind."""
        code = self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        if code == BUSY:
            return Outcome(self.cell, "busy", {})
        try:
            record = json.loads((self.home / ("record.json" if code == DONE else "failure.json")).read_text())
        except (OSError, ValueError):
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            last = f": {self._said[-1].strip()}" if self._said else ""
            record = failure(self.cell, f"the worker ended with {how} and left no outcome{last}", "".join(self._said))
        return Outcome(self.cell, record["kind"], record)

    def _watch(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            self._said.extend(lines)
        self._process.wait()
        self._ended.put(self)
