"""Files on their way through the model: one after the other, in the background, each with answers to fetch."""

from __future__ import annotations

import logging
import secrets
import threading
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from mphil.errors import DataError, MphilError
from mphil.files import cores
from mphil.limits import MAX_JOBS, MAX_UNPACKED_BYTES, MAX_UPLOAD_ROWS
from mphil.model.predictor import Predictor
from mphil.model.screening import Summary, screen_file
from mphil.serve.requests import Refusal
from mphil.serve.results import Results, Scratch, name_column, open_results
from mphil.tables.binary_files import parquet_file, unpacked_bytes
from mphil.tables.delimited import open_bytes
from mphil.tables.pass_through import open_source
from mphil.tables.pool import WorkerPool

State = Literal["uploading", "waiting", "running", "done", "failed"]

SUFFIXES = (".csv", ".tsv", ".tab", ".smi", ".smiles", ".ism", ".sdf", ".sd", ".parquet", ".xlsx")
"""Ends of file names that say how a file is to be read."""

PARQUET, ZIP = b"PAR1", b"PK\x03\x04"
LONGEST_NAME = 120
COMMAND = "`mphil predict BUNDLE FILE` takes files of any size"

_log = logging.getLogger(__name__)


class JobStopped(Exception):
    """Nobody wants the answers any more."""


class Job:
    """A file that a user sent.

    Args:
        folder: where its files are kept.
        name: what the sender calls it; only ever shown.
        column: of the molecules, or None when it is to be found.

    Attributes:
        id: names it, and cannot be guessed.
        name: for the reader.
        column: as given.
        source: what was sent.
        answers: the CSV file that is made of it.
        state: how far it is.
        done: rows that are answered.
        expected: about how many rows there are, once that is known.
        summary: what became of the rows, at the end.
        results: the answers by pages, at the end.
        error: what went wrong.
    """

    def __init__(self, folder: Path, name: str, column: str | None) -> None:
        self.id = secrets.token_urlsafe(16)
        self.name, self.column = shown_name(name), column or None
        self.source, self.answers = folder / f"{self.id}{suffix_of(name)}", folder / f"{self.id}.answers.csv"
        self.state: State = "uploading"
        self.done = 0
        self.expected: int | None = None
        self.summary: Summary | None = None
        self.results: Results | None = None
        self.error = ""
        self._stopped = threading.Event()

    @property
    def finished(self) -> bool:
        """Whether nothing will happen to it any more."""
        return self.state in ("done", "failed")

    def stop(self) -> None:
        """Make the work on it end soon."""
        self._stopped.set()

    def run(self, predictor: Predictor, pool: WorkerPool) -> None:
        """Answer all rows; whatever goes wrong is told by `state` and `error`."""
        try:
            self._advance(0)
            self.state = "running"
            self._screen(predictor, pool)
            self.state = "done"
        except JobStopped:
            self.state, self.error = "failed", "it was cancelled"
        except (MphilError, OSError) as error:
            self.state, self.error = "failed", str(error).replace(str(self.source), self.name)
        except Exception:
            self.state, self.error = "failed", "a fault in the program; the terminal of the server says more"
            if not self._stopped.is_set():
                _log.exception("%s could not be predicted", self.id)
        finally:
            self.source.unlink(missing_ok=True)
            if self._stopped.is_set():
                self.answers.unlink(missing_ok=True)

    def _screen(self, predictor: Predictor, pool: WorkerPool) -> None:
        reading = predictor.bundle.config.molecules
        assert reading is not None
        check_unpacked(self.source)
        source = open_source(self.source, column=self.column, usual=reading.column)
        self.expected = source.count()
        if self.expected > MAX_UPLOAD_ROWS:
            raise DataError(
                f"{self.name}: about {self.expected:,} rows, at most {MAX_UPLOAD_ROWS:,} are taken; {COMMAND}"
            )
        summary = screen_file(
            predictor,
            self.source,
            self.answers,
            column=source.column,
            workers=pool,
            progress=False,
            watch=self._advance,
        )
        molecule = source.table.columns.index(source.column)
        self.results = open_results(
            self.answers,
            molecule=molecule,
            name=name_column(source.table.columns, molecule),
            columns=list(predictor.predict([]).columns()),
            lines=array("q", (line for chunk in source.table.chunks(columns=[source.column]) for line in chunk.lines)),
        )
        self.summary = summary

    def _advance(self, rows: int) -> None:
        if self._stopped.is_set():
            raise JobStopped
        self.done += rows
        if self.done > MAX_UPLOAD_ROWS:
            raise DataError(f"{self.name}: more than {MAX_UPLOAD_ROWS:,} rows; {COMMAND}")


class Jobs(AbstractContextManager["Jobs"]):
    """The files that are kept, all gone at the end.

    Args:
        predictor: answers for them, and for nobody else meanwhile.
        workers: processes that read molecules.
    """

    def __init__(self, predictor: Predictor, *, workers: int | None = None) -> None:
        self._predictor = predictor
        self._folder = Scratch()
        self._pool = WorkerPool(workers or cores())
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mphil-jobs")
        self._jobs: dict[str, Job] = {}
        # A process takes a second to begin; the first file need not wait for it.
        self._thread.submit(self._warm_up)

    def _warm_up(self) -> None:
        self._pool.begin([""], self._predictor.reading).finish()

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def add(self, name: str, column: str | None) -> Job:
        """Room for another file.

        Raises:
            Refusal: too many are being worked on.
        """
        if len(self._jobs) >= MAX_JOBS:
            oldest = next((job for job in self if job.finished), None)
            if oldest is None:
                raise Refusal(503, f"{MAX_JOBS} files are being predicted already", "try again when one is finished")
            self.remove(oldest.id)
        job = Job(self._folder.path, name, column)
        self._jobs[job.id] = job
        return job

    def start(self, job: Job) -> None:
        """Begin with a file that has arrived, as soon as those before it are done."""
        job.state = "waiting"
        self._thread.submit(job.run, self._predictor, self._pool)

    def ahead(self, job: Job) -> int:
        """How many files come before this one."""
        if job.state != "waiting":
            return 0
        waiting = [other for other in self if other.state in ("waiting", "running")]
        return waiting.index(job)

    def __getitem__(self, identifier: str) -> Job:
        """Look a file up.

        Raises:
            Refusal: it is not kept.
        """
        if identifier not in self._jobs:
            remedy = f"send the file again; the last {MAX_JOBS} are kept for as long as the server runs"
            raise Refusal(404, "there is no such job", remedy)
        return self._jobs[identifier]

    def remove(self, identifier: str) -> None:
        """Forget a file, its answers, and the work on it."""
        job = self[identifier]
        del self._jobs[identifier]
        job.stop()
        if job.state in ("uploading", "done", "failed"):
            job.source.unlink(missing_ok=True)
            job.answers.unlink(missing_ok=True)

    def __exit__(self, *exception: object) -> None:
        for job in self:
            job.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._pool.__exit__(*exception)
        self._thread.shutdown()
        self._folder.close()


def check_unpacked(path: Path) -> None:
    """Refuse a file that is small only because it is packed.

    Raises:
        DataError: it unpacks to more than is taken.
    """
    size = 0
    with open_bytes(path) as content:
        packed = content.read(4)
        while packed not in (PARQUET, ZIP) and size <= MAX_UNPACKED_BYTES and (block := content.read(1 << 20)):
            size += len(block)
    if packed == ZIP:
        size = unpacked_bytes(path)
    elif packed == PARQUET:
        with parquet_file(path) as file:
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    if size > MAX_UNPACKED_BYTES:
        raise DataError(f"{path}: it unpacks to more than {MAX_UNPACKED_BYTES:,} bytes; {COMMAND}")


def suffix_of(name: str) -> str:
    """The end of a file name as far as it says how to read the file; nothing else of the name reaches the disk.

    Example:
        >>> [suffix_of(name) for name in ("../../etc/passwd", "a.SDF", "b.smi.gz", "c.exe")]
        ['.csv', '.sdf', '.smi.gz', '.csv']
    """
    name = name.lower()
    zipped = ".gz" if name.endswith(".gz") else ""
    stem = name.removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if stem.endswith(suffix)), ".csv") + zipped


def shown_name(name: str) -> str:
    """What a sender calls a file, fit to be shown: no folders, no control characters, not too long."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = "".join(c for c in last if c.isprintable()).strip()
    return clean[:LONGEST_NAME] or "molecules"
