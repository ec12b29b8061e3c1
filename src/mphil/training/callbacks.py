"""Who is told about training while it runs: bars and lines for people, logs for programs, objects of your own."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from mphil.errors import UsageError
from mphil.files import write_text
from mphil.methods.base import Progress
from mphil.nn import world


class Callback:
    """Told of every step and epoch: a progress bar, a log, or an object of your own given to `mphil.train`.

    An exception in a callback ends the training and is passed on; the last checkpoint is untouched, so the run can be
    resumed from it.

    Example:
        >>> class Printer(Callback):
        ...     def on_epoch(self, history, progress):
        ...         print(history[-1]["epoch"], history[-1]["scores"])
    """

    def on_step(self, progress: Progress, losses: Mapping[str, float]) -> None:
        """A batch has been trained on; `progress.step` counts it."""

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        """An epoch of the main stage has been scored; the last of `history` is its record."""


LINE_SECONDS = 5.0


class TrainingBar(Callback):
    """Shows the epoch, time spent, time left and validation scores.

    Args:
        bar: where to show them.
        label: what is being trained.
        start: where training stands: what was done before must not count as speed.
    """

    def __init__(self, bar: RichProgress, label: str, start: Progress) -> None:
        self._bar, self._label, self._stage = bar, label, start.stage
        self._task = bar.add_task(
            self._title(start), completed=start.step, total=start.total_steps, epoch=_epoch(start), note=""
        )

    def on_step(self, progress: Progress, losses: Mapping[str, float]) -> None:
        if progress.stage != self._stage:
            self._stage = progress.stage
            self._bar.reset(self._task, total=progress.total_steps, description=self._title(progress))
        self._bar.update(self._task, completed=progress.step, epoch=_epoch(progress))

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        scores = history[-1]["scores"]
        shown = [f"{part} {scores[part]:.3f}" for part in ("id_val", "ood_val") if scores[part] is not None]
        self._bar.update(self._task, note=" ".join(shown))

    def _title(self, progress: Progress) -> str:
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

    def on_step(self, progress: Progress, losses: Mapping[str, float]) -> None:
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            said = f"{self._label}: epoch {_epoch(progress)}{self._scores}"
            self._console.print(said, markup=False, highlight=False, soft_wrap=True)

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        scores = history[-1]["scores"]
        shown = [f", {part} {scores[part]:.3f}" for part in ("id_val", "ood_val") if scores[part] is not None]
        self._scores = "".join(shown)


def _epoch(progress: Progress) -> str:
    return f"{min(progress.epoch + 1, progress.total_epochs)}/{progress.total_epochs}"


@contextmanager
def training_bar(label: str, start: Progress) -> Iterator[Callback]:
    """A bar on stderr while the block runs, or a line every few seconds when it is no terminal; nothing if not ours."""
    console = Console(stderr=True)
    if not console.is_terminal and world.rank() == 0:
        yield ProgressLines(console, label)
        return
    bar = RichProgress(
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


MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
EXTRAS = {"tensorboard": "log", "wandb": "wandb", "mlflow": "mlflow"}


class FileLog(Callback):
    """`log.csv` and `log.jsonl`, one line an epoch.

    Both are written anew from the full history, so that a resumed run leaves neither gaps nor repeats.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        rows = [flat(record) for record in history]
        # A method may add a loss term in a later epoch: the columns are those of all rows.
        columns = dict.fromkeys(name for row in rows for name in row)
        table = io.StringIO()
        writer = csv.DictWriter(table, fieldnames=list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self._folder / "log.csv", table.getvalue())
        write_text(self._folder / "log.jsonl", "".join(json.dumps(record) + "\n" for record in history))


class TensorBoardLog(Callback):
    """TensorBoard events under `tensorboard/`, at the step that ends each epoch.

    Args:
        folder: folder of the run.
        step: steps done so far; events beyond it are taken back, for they will be written again.
    """

    def __init__(self, folder: Path, step: int) -> None:
        writer = _package("tensorboard").SummaryWriter
        self._writer = writer(str(folder / "tensorboard"), purge_step=step + 1)

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        for name, value in metrics(history[-1]).items():
            self._writer.add_scalar(name, value, history[-1]["step"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandbLog(Callback):
    """A run of Weights & Biases; `WANDB_MODE`, `WANDB_PROJECT` and its other variables are its own business.

    Args:
        folder: folder of the run; which run of W&B it is stands in `wandb-run.txt`, so that a resumed run goes on.
        settings: the settings of the run.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        wandb = _package("wandb")
        known = folder / "wandb-run.txt"
        if not known.exists():
            write_text(known, uuid4().hex)
        project = os.environ.get("WANDB_PROJECT", "mphil")
        self._run = wandb.init(
            project=project, id=known.read_text(), resume="allow", dir=folder, name=folder.name, config=dict(settings)
        )

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        self._run.log(metrics(history[-1]), step=history[-1]["step"])

    def close(self) -> None:
        self._run.finish()


class MLflowLog(Callback):
    """A run of MLflow, in the store that `MLFLOW_TRACKING_URI` names or else in `mlflow.db`.

    An epoch that is repeated because the run was cut is logged twice, with the same scores.

    Args:
        folder: folder of the run; which run of MLflow it is stands in `mlflow-run.txt`, so that a resumed run goes on.
        settings: the settings of the run.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        mlflow = _package("mlflow")
        database = f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", database))
        known = folder / "mlflow-run.txt"
        if not known.exists():
            write_text(known, self._new_run(folder.name, settings))
        self._run = known.read_text()

    def _new_run(self, name: str, settings: Mapping[str, Any]) -> str:
        wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", "mphil")
        experiment = self._client.get_experiment_by_name(wanted)
        number = self._client.create_experiment(wanted) if experiment is None else experiment.experiment_id
        run = str(self._client.create_run(number, run_name=name).info.run_id)
        for key, value in settings.items():
            self._client.log_param(run, key, value)
        return run

    def on_epoch(self, history: list[dict[str, Any]], progress: Progress) -> None:
        for name, value in metrics(history[-1]).items():
            self._client.log_metric(self._run, name, value, step=history[-1]["step"])

    def close(self) -> None:
        self._client.set_terminated(self._run)


def check_loggers(names: Iterable[str], folder: Path | None) -> None:
    """Refuse loggers that are not installed, or that have no run to write about."""
    for name in names:
        if folder is None:
            raise UsageError(f"train.loggers: {name} logs runs that have a folder; give one with out=, or --out")
        _package(name)


def open_logger(
    name: str, folder: Path, step: int, settings: Mapping[str, Any]
) -> TensorBoardLog | WandbLog | MLflowLog:
    """The logger of this name, for a run that stands at this step."""
    if name == "tensorboard":
        return TensorBoardLog(folder, step)
    return WandbLog(folder, settings) if name == "wandb" else MLflowLog(folder, settings)


def _package(logger: str) -> Any:
    """The package of a logger, which is an extra."""
    try:
        return importlib.import_module(MODULES[logger])
    except ImportError:
        raise UsageError(f"train.loggers: {logger} is not installed: pip install 'mphil[{EXTRAS[logger]}]'") from None


def metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch that are defined."""
    return {name: value for name, value in flat(record).items() if value is not None and name not in ("epoch", "step")}


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Nested numbers of an epoch as one row: {"scores": {"id_val": 1}} -> {"scores/id_val": 1}."""
    row: dict[str, Any] = {}
    for key, value in record.items():
        row |= {f"{key}/{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return row
