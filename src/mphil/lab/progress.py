"""A whole sweep at a glance: a bar with the time left on a terminal, a line for every cell elsewhere."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mphil.lab.cells import Cell
from mphil.lab.engine import Outcome
from mphil.lab.sweep import Tally, Watcher


class SweepProgress(Watcher):
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
