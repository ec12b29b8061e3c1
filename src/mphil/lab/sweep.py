"""A sweep: cells of a suite without a record are carried out and shown, and each record is safe before the next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mphil.lab.cells import Cell
from mphil.lab.engine import Engine, Outcome
from mphil.lab.records import FAILED, Record, RecordFile, read_folder


@dataclass
class Tally:
    """How far a sweep is.

    Attributes:
        total: cells of the suite, each counted once.
        before: those that had a record when the sweep began, in this suite or another.
        run, refused: those that got one.
        failed: records of what went wrong.
        busy: cells that another sweep is at work on.
        seconds: time spent so far.
        left_out: a sentence about every record in the folder that was not used.
    """

    total: int
    before: int = 0
    run: int = 0
    refused: int = 0
    failed: list[Record] = field(default_factory=list)
    busy: list[Cell] = field(default_factory=list)
    seconds: float = 0.0
    left_out: Sequence[str] = ()

    @property
    def ended(self) -> int:
        return self.before + self.run + self.refused + len(self.failed) + len(self.busy)

    @property
    def seconds_left(self) -> float | None:
        """At the speed so far; None before anything has ended."""
        done = self.ended - self.before
        return self.seconds / done * (self.total - self.ended) if done else None


class SweepCallback:
    """Callbacks of a sweep; each does nothing until a subclass says what."""

    def begun(self, tally: Tally) -> None:
        """The cells are known, nothing has been started."""

    def started(self, cell: Cell) -> None:
        """A cell is handed to the engine."""

    def ended(self, outcome: Outcome, tally: Tally) -> None:
        """A cell has ended, and what is to be kept of it is on disk."""


def unique(cells: Sequence[Cell]) -> list[Cell]:
    """Every run once: two rows of a table may be the same run."""
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(cell.id, cell)
    return list(first.values())


def sweep(
    cells: Sequence[Cell], engine: Engine, out: Path, callback: SweepCallback | None = None, *, keep: bool = False
) -> Tally:
    """Carry out the cells that have no record in the folder, whichever suite it was made for.

    A failed cell is noted in `SUITE.failed.jsonl`, disturbs no other, and is tried again by the next sweep. A sweep
    that is cut anywhere is taken up by the same call: a record is written once, and a run goes on from its checkpoint.

    Args:
        cells: what is wanted, all of one suite.
        engine: where it is done.
        out: folder of the records.
        callback: who is told what happens.
        keep: leave the files of a run, with the weights, when its record is safe.
    """
    callback, wanted = callback or SweepCallback(), unique(cells)
    records, left_out = read_folder(out)
    recorded = {record["cell"] for record in records}
    due = [cell for cell in wanted if cell.id not in recorded]
    tally, began = Tally(len(wanted), before=len(wanted) - len(due), left_out=left_out), time.monotonic()
    callback.begun(tally)
    for cell in wanted:
        if cell.id in recorded and not keep:
            engine.clear(cell)
    with closing(engine.run(_still_due(due, out, tally, callback))) as outcomes:
        for outcome in outcomes:
            if outcome.state == "failed" and outcome.cell.id in _records(outcome.cell, out).cells():
                # Another sweep had it first, recorded it and cleared its files while our worker waited for them.
                outcome = Outcome(outcome.cell, "busy", {})
            _settle(outcome, engine, out, tally, keep)
            tally.seconds = time.monotonic() - began
            callback.ended(outcome, tally)
    return tally


def _still_due(cells: Sequence[Cell], out: Path, tally: Tally, callback: SweepCallback) -> Iterator[Cell]:
    """The cells, without those that another sweep has recorded in the meantime."""
    for cell in cells:
        if cell.id in _records(cell, out).cells():
            tally.before += 1
            continue
        callback.started(cell)
        yield cell


def _records(cell: Cell, out: Path) -> RecordFile:
    """Where the record of a cell goes."""
    return RecordFile(out / f"{cell.suite}.jsonl")


def _settle(outcome: Outcome, engine: Engine, out: Path, tally: Tally, keep: bool) -> None:
    """Put an outcome on disk, then count it."""
    cell = outcome.cell
    if outcome.state == "busy":
        tally.busy.append(cell)
    elif outcome.state == "failed":
        RecordFile(out / f"{cell.suite}{FAILED}").append(outcome.record, once=False)
        tally.failed.append(outcome.record)
    else:
        _records(cell, out).append(outcome.record)
        if not keep:
            engine.clear(cell)
        if outcome.state == "run":
            tally.run += 1
        else:
            tally.refused += 1


class SweepProgress(SweepCallback):
    """Tells on stderr what happens; used as a context."""

    def __init__(self, suite: str) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn(suite),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(suite, total=None, left="")

    def __enter__(self) -> SweepProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def begun(self, tally: Tally) -> None:
        self._bar.update(self._task, total=tally.total, completed=tally.ended)
        self._say(f"{tally.total} cells, {tally.before} of them recorded before")

    def started(self, cell: Cell) -> None:
        if not self._console.is_terminal:
            self._say(f"start  {cell.title}")

    def ended(self, outcome: Outcome, tally: Tally) -> None:
        left = f"about {duration(tally.seconds_left)} left" if tally.seconds_left else ""
        self._bar.update(self._task, completed=tally.ended, left=left)
        self._say(f"[{tally.ended}/{tally.total}] {outcome.cell.title}: {describe(outcome)}; {left or 'all done'}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)


def describe(outcome: Outcome) -> str:
    """An outcome in a few words; test scores are for the report."""
    record = outcome.record
    if outcome.state == "run":
        chosen = record["selections"].get(outcome.cell.selection) or record["last"]
        score = chosen["scores"].get("ood_val")
        told = "no OOD validation score" if score is None else f"OOD validation {100 * score:.1f}"
        return f"{told}, {duration(record['seconds'])}"
    if outcome.state == "busy":
        return "another sweep is at work on it"
    return f"{outcome.state}: {record.get('reason') or record.get('error')}"


def duration(seconds: float | None) -> str:
    """Time as people say it.

    Example:
        >>> duration(7), duration(600), duration(9000)
        ('7 s', '10 min', '2 h 30 min')
    """
    seconds = seconds or 0.0
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
