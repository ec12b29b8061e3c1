"""What a user waiting for rows sees on a terminal; nothing anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


@contextmanager
def row_bar(label: str, total: int, shown: bool) -> Iterator[Callable[[int], object]]:
    """A bar on stderr while the block runs, if it is to be shown and there is a terminal; told how many rows more."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)


@contextmanager
def row_counter() -> Iterator[Callable[[int], None]]:
    """Rows read so far, where nobody knows how many there will be; told the number. Silent without a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda rows: None
        return
    with console.status("reading") as status:
        yield lambda rows: status.update(f"{rows:,} rows read")


Advance = Callable[[int], object]


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} rows/s")


@contextmanager
def screening_bar(count: Callable[[], int], shown: bool) -> Iterator[Advance]:
    """A bar on stderr while the block runs, if there is a terminal; told how many rows more.

    Args:
        count: says how many rows there are; not asked unless a user is looking.
        shown: whether to show it at all.
    """
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda done: None
        return
    columns = (
        TextColumn("predicting"),
        BarColumn(bar_width=None),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        _Speed(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=count())
        yield lambda done: bar.advance(task, done)
