"""What happened in each epoch, for spreadsheets, programs, TensorBoard, W&B and MLflow."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from mphil.errors import UsageError
from mphil.files import write_text
from mphil.methods.base import Progress
from mphil.training.callbacks import Callback

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
