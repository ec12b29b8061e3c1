"""Work on rows of SMILES in several processes, in order, whatever the rows hold."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from mphil.chem.read_rows import ReadBatch, join, read_batch
from mphil.chem.reader_process import receive, send
from mphil.chem.row_issue import RowIssue
from mphil.files import cores
from mphil.limits import ROW_SECONDS, WORKER_SECONDS

SMALL = 2_000
"""Rows up to which starting processes takes longer than the work."""

CHUNK = 512
"""Rows in a request: enough that sending them costs nothing beside the work, few enough for a smooth bar."""

LOST = {
    "crash": "RDKit crashed on it; the other rows are not affected",
    "timeout": "RDKit did not finish with it in time; the other rows are not affected",
}
"""Statuses of rows that took their process with them, and what to say. Another attempt may end otherwise."""

Rows = Sequence[str]


def run(
    rows: Rows,
    options: Mapping[str, Any],
    *,
    workers: int | None = None,
    advance: Callable[[int], object] = lambda done: None,
) -> ReadBatch:
    """Have all rows read; the answer does not depend on the number of workers.

    Args:
        rows: SMILES.
        options: keyword arguments of `read_batch`.
        workers: processes; 0 does the work in this one, None chooses by the number of rows.
        advance: called with the number of rows of each batch that is done, in order.
    """
    if workers is None:
        workers = cores() if len(rows) > SMALL else 0
    with WorkerPool(min(workers, -(-len(rows) // CHUNK))) as pool:
        return pool.begin(rows, options).finish(advance)


@dataclass(frozen=True)
class Work:
    """Rows that are being read.

    Attributes:
        pieces: each gives the answer to some of the rows, in order, once it is there.
        sizes: how many rows each answers.
    """

    pieces: Sequence[Callable[[], ReadBatch]]
    sizes: Sequence[int]

    def finish(self, advance: Callable[[int], object] = lambda done: None) -> ReadBatch:
        """The answer to all rows; `advance` is told of each piece that is done, in order."""
        batches = []
        for piece, size in zip(self.pieces, self.sizes, strict=True):
            batches.append(piece())
            advance(size)
        return join(batches, self.sizes)


class WorkerPool(AbstractContextManager["WorkerPool"]):
    """Processes that read rows for as long as the block runs; with no workers the work is done in this process.

    Args:
        workers: how many.

    Example:
        >>> with WorkerPool(0) as pool:
        ...     pool.begin(["CCO", "C C"], {"wanted": ["size"]}).finish().issues[0].status
        'whitespace'
    """

    def __init__(self, workers: int) -> None:
        self._members = [ReadingWorker() for _ in range(workers)]
        self._free: SimpleQueue[ReadingWorker] = SimpleQueue()
        for worker in self._members:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(max(1, workers))

    def begin(self, rows: Rows, options: Mapping[str, Any]) -> Work:
        """Have rows read; returns at once, and without workers begins when the answer is asked for."""
        # An empty batch is the answer to no rows at all, and says what arrays there are.
        chunks = [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)] or [rows]
        sizes = [len(chunk) for chunk in chunks]
        if not self._members:
            return Work([partial(read_batch, chunk, **options) for chunk in chunks], sizes)
        return Work([self._threads.submit(self._work, chunk, options).result for chunk in chunks], sizes)

    def _work(self, chunk: Rows, options: Mapping[str, Any]) -> ReadBatch:
        worker = self._free.get()
        try:
            return _read(worker, chunk, options)
        finally:
            self._free.put(worker)

    def __exit__(self, *exception: object) -> None:
        for worker in self._members:
            worker.close()
        self._threads.shutdown(cancel_futures=True)


def _read(worker: ReadingWorker, rows: Rows, options: Mapping[str, Any]) -> ReadBatch:
    """Have a batch read; if its process is lost, find the row that is to blame by halving."""
    try:
        return worker.ask(rows, options)
    except Lost as loss:
        if len(rows) == 1:
            return ReadBatch(read_batch([], **options).arrays, [RowIssue(loss.status, LOST[loss.status])])
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    return join([_read(worker, half, options) for half in halves], [len(half) for half in halves])


class Lost(Exception):
    """A process went away, or was sent away, without an answer; `status` is one of `LOST`."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class ReadingWorker:
    """A process that reads batches, begun when it is first needed and again after each loss."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def ask(self, rows: Rows, options: Mapping[str, Any]) -> ReadBatch:
        """Have a batch read.

        Raises:
            Lost: the process ended, or did not answer in time.
            RuntimeError: the process cannot be started, the options are faulty, or this worker was closed.
        """
        process = self._process = self._process or _start()
        if self._closed:
            _end(process)
            raise RuntimeError("this worker was closed")
        late = threading.Event()

        def dismiss() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(WORKER_SECONDS + ROW_SECONDS * len(rows), dismiss)
        timer.start()
        try:
            send(_pipe(process.stdin), {"smiles": list(rows), "options": dict(options)})
            message, arrays = receive(_pipe(process.stdout))
        except (OSError, EOFError, ValueError):  # ValueError: `close` closed the pipe under our hands
            _end(process)
            self._process = None
            raise Lost("timeout" if late.is_set() else "crash") from None
        finally:
            timer.cancel()
        if "fault" in message:
            raise RuntimeError(f"reading molecules failed in another process:\n{message['fault']}")
        return ReadBatch(arrays, [RowIssue(*issue) for issue in message["issues"]])

    def close(self) -> None:
        """End the process; a batch it is at work on is given up."""
        self._closed = True
        if self._process is not None:
            _end(self._process)


def _start() -> subprocess.Popen[bytes]:
    """A process that has said it is ready, with the import path of this one."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mphil.chem.reader_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
        try:
            receive(_pipe(process.stdout))
        except EOFError:
            _end(process)
            errors.seek(0)
            told = errors.read().decode(errors="replace").strip()
            raise RuntimeError(f"a process for reading molecules did not start: {told[-2000:]}") from None
        except BaseException:
            _end(process)
            raise
    return process


def _pipe(pipe: Any) -> Any:
    assert pipe is not None
    return pipe


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            _pipe(pipe).close()
