"""Where cells are carried out, in processes here or on a Ray cluster; another engine needs nothing but `run`."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Literal, Protocol

from mphil.files import write_json
from mphil.lab.cells import Cell
from mphil.lab.records import Record
from mphil.lab.worker import BUSY, DONE, failure
from mphil.model.ray_cluster import cluster_address, connected, import_ray

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


RETRIES = 3
"""How often a cell is started again after its machine, or Ray's process on it, was lost."""
POLL_SECONDS = 0.2
LOOK_SECONDS = 5.0
"""How often to see whether the cluster has grown."""


class RayEngine:
    """Processes on the machines of a Ray cluster, one a cell, one thread each.

    Outcomes travel back to the sweep, which alone writes records. A cell whose machine is lost is done once more on
    another one; where the machines share the folder of the runs, it goes on from its last checkpoint. mphil, the
    data and the files of plug-ins must be in the same places on all of them.

    Args:
        home: folder for the runs, one sub folder a cell, on every machine.
        jobs: cells at a time; as many as the cluster has processors when not given.
        address: of the cluster; when not given, that of `RAY_ADDRESS`, or else one is started on this machine.
        program: what is started, with the folder of the cell as its last argument.

    Raises:
        UsageError: Ray is not installed.
    """

    def __init__(
        self, home: Path, jobs: int | None = None, address: str | None = None, program: Sequence[str] = WORKER
    ) -> None:
        self._ray = import_ray()
        self.home, self.jobs, self.program = home.resolve(), jobs, tuple(program)
        self.address = cluster_address(address)
        self._machines: dict[str, str] = {}
        self._clearing: list[Any] = []

    def run(self, cells: Iterable[Cell]) -> Generator[Outcome]:
        ray, waiting, working = self._ray, iter(cells), dict[Any, Cell]()
        with connected(ray, self.address, self.jobs):
            task = ray.remote(num_cpus=1, max_retries=RETRIES)(carry_out)
            try:
                while True:
                    while len(working) < self._room() and (cell := next(waiting, None)) is not None:
                        working[task.remote(cell.to_json(), str(self.home), self.program)] = cell
                    if not working:
                        return
                    for done in ray.wait(list(working), timeout=LOOK_SECONDS)[0]:
                        yield self._outcome(done, working.pop(done))
            finally:
                for reference in working:
                    ray.cancel(reference)
                left = [*working, *self._clearing]
                if left:
                    ray.wait(left, num_returns=len(left), timeout=GRACE_SECONDS)

    def clear(self, cell: Cell) -> None:
        machine, folder = self._machines.pop(cell.id, None), self.home / cell.id
        if machine is None or machine == self._ray.get_runtime_context().get_node_id():
            shutil.rmtree(folder, ignore_errors=True)
            return
        there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(machine, soft=True)
        remove = self._ray.remote(num_cpus=0, scheduling_strategy=there)(shutil.rmtree)
        self._clearing.append(remove.remote(str(folder), ignore_errors=True))

    def _room(self) -> int:
        """Cells at a time; at least one, which waits for a machine if there is none."""
        return self.jobs or max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def _outcome(self, reference: Any, cell: Cell) -> Outcome:
        try:
            found = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Outcome(cell, "failed", failure(cell, f"{type(error).__name__}: {lines[-1]}", str(error)))
        self._machines[cell.id] = found["machine"]
        return Outcome(cell, found["state"], found["record"])


def carry_out(cell: Mapping[str, Any], home: str, program: Sequence[str]) -> dict[str, Any]:
    """On a machine of the cluster: start the process of a cell, wait for it, and tell what became of it.

    When Ray asks to stop, that is passed on, and the run is saved. When Ray's own process is lost the other one ends
    too: it notices and saves, unless it is killed as well.
    """
    import ray

    ended: queue.Queue[Worker] = queue.Queue()
    asked = Cell.from_json(cell)
    worker = Worker(asked, Path(home) / asked.id, program, ended)
    try:
        # Not `ended.get()`: Ray's wish to stop does not wake up a thread that waits for a lock.
        while ended.empty():
            time.sleep(POLL_SECONDS)
    except BaseException:
        worker.ask_to_stop()
        worker.wait()
        raise
    outcome = worker.outcome()
    machine = ray.get_runtime_context().get_node_id()
    return {"state": outcome.state, "record": outcome.record, "machine": machine}
