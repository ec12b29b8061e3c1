"""What happened in each epoch, for spreadsheets, programs and TensorBoard."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mphil.errors import UsageError
from mphil.files import write_text
from mphil.methods.base import Progress
from mphil.training.trainer import Listener


class FileLog(Listener):
    """`log.csv` and `log.jsonl`, one line an epoch.

    Both are written anew from the full history, so that a resumed run leaves neither gaps nor repeats.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def epoch_done(self, history: list[dict[str, Any]], progress: Progress) -> None:
        rows = [flat(record) for record in history]
        # A method may add a loss term in a later epoch: the columns are those of all rows.
        columns = dict.fromkeys(name for row in rows for name in row)
        table = io.StringIO()
        writer = csv.DictWriter(table, fieldnames=list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self._folder / "log.csv", table.getvalue())
        write_text(self._folder / "log.jsonl", "".join(json.dumps(record) + "\n" for record in history))


class TensorBoardLog(Listener):
    """TensorBoard events under `tensorboard/`, at the step that ends each epoch.

    Args:
        folder: folder of the run.
        step: steps done so far; events beyond it are taken back, for they will be written again.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._writer = summary_writer()(str(folder / "tensorboard"), purge_step=step + 1)

    def epoch_done(self, history: list[dict[str, Any]], progress: Progress) -> None:
        record = history[-1]
        for name, value in flat(record).items():
            if value is not None and name not in ("epoch", "step"):
                self._writer.add_scalar(name, value, record["step"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def summary_writer() -> Any:
    """TensorBoard's writer class, which is an extra."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError("train.tensorboard needs TensorBoard: pip install 'mphil[log]'") from None
    return SummaryWriter


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Nested numbers of an epoch as one row: {"scores": {"id_val": 1}} -> {"scores/id_val": 1}."""
    row: dict[str, Any] = {}
    for key, value in record.items():
        row |= {f"{key}/{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return row
