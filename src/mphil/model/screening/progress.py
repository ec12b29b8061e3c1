"""Rows so far, rows a second and the time left, for somebody at a terminal; nothing anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

Advance = Callable[[int], object]


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} rows/s")


@contextmanager
def screening_bar(count: Callable[[], int], shown: bool) -> Iterator[Advance]:
    """A bar on stderr while the block runs, if there is a terminal; told how many rows more.

    Args:
        count: says how many rows there are; not asked unless somebody is looking.
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
