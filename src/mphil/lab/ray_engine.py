"""Cells on a Ray cluster: each is a task of one processor, on whichever machine has room."""

from __future__ import annotations

import queue
import shutil
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mphil.lab.cells import Cell
from mphil.lab.engine import GRACE_SECONDS, WORKER, Outcome, Worker
from mphil.lab.worker import failure
from mphil.model.ray_cluster import cluster_address, connected, import_ray

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
