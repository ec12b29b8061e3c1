"""A progress bar for people; a line now and then for a log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mphil.methods.base import Progress as TrainProgress
from mphil.nn import world
from mphil.training.callbacks import Callback

LINE_SECONDS = 5.0


class TrainingBar(Callback):
    """Shows the epoch, time spent, time left and validation scores.

    Args:
        bar: where to show them.
        label: what is being trained.
        start: where training stands: what was done before must not count as speed.
    """

    def __init__(self, bar: Progress, label: str, start: TrainProgress) -> None:
        self._bar, self._label, self._stage = bar, label, start.stage
        self._task = bar.add_task(
            self._title(start), completed=start.step, total=start.total_steps, epoch=_epoch(start), note=""
        )

    def on_step(self, progress: TrainProgress, losses: Mapping[str, float]) -> None:
        if progress.stage != self._stage:
            self._stage = progress.stage
            self._bar.reset(self._task, total=progress.total_steps, description=self._title(progress))
        self._bar.update(self._task, completed=progress.step, epoch=_epoch(progress))

    def on_epoch(self, history: list[dict[str, Any]], progress: TrainProgress) -> None:
        scores = history[-1]["scores"]
        shown = [f"{part} {scores[part]:.3f}" for part in ("id_val", "ood_val") if scores[part] is not None]
        self._bar.update(self._task, note=" ".join(shown))

    def _title(self, progress: TrainProgress) -> str:
        return self._label if progress.stage == "main" else f"{self._label}, {progress.stage}"


class ProgressLines(Callback):
    """A line on stderr every few seconds, for output that goes to a file or a pipe.

    Args:
        console: where to write.
        label: what is being trained.
        every: seconds between lines, at least.
    """

    def __init__(self, console: Console, label: str, every: float = LINE_SECONDS) -> None:
        self._console, self._label, self._every = console, label, every
        self._last, self._scores = time.monotonic(), ""

    def on_step(self, progress: TrainProgress, losses: Mapping[str, float]) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            said = f"{self._label}: epoch {_epoch(progress)}{self._scores}"
            self._console.print(said, markup=False, highlight=False, soft_wrap=True)

    def on_epoch(self, history: list[dict[str, Any]], progress: TrainProgress) -> None:
        scores = history[-1]["scores"]
        shown = [f", {part} {scores[part]:.3f}" for part in ("id_val", "ood_val") if scores[part] is not None]
        self._scores = "".join(shown)


def _epoch(progress: TrainProgress) -> str:
    return f"{min(progress.epoch + 1, progress.total_epochs)}/{progress.total_epochs}"


@contextmanager
def training_bar(label: str, start: TrainProgress) -> Iterator[Callback]:
    """A bar on stderr while the block runs, or a line every few seconds when it is no terminal; nothing if not ours."""
    console = Console(stderr=True)
    if not console.is_terminal and world.rank() == 0:
        yield ProgressLines(console, label)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),  # gives way first: at 80 columns all the numbers still fit
        TextColumn("epoch {task.fields[epoch]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        disable=world.rank() > 0,
    )
    with bar:
        yield TrainingBar(bar, label, start)
