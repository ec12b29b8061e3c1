"""What is asked of a graph: the only thing a method knows about a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mphil.errors import DataError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["multiclass", "binary", "multitask"]
Metric = Literal["accuracy", "roc_auc", "average_precision"]


@dataclass(frozen=True)
class Task:
    """A classification task.

    Labels are always a float tensor of shape (n_graphs, n_tasks); NaN means missing. A multi-class label is the
    class number, a binary label is 0 or 1.

    Attributes:
        kind: `multiclass` (one task, several classes), `binary` (one task, two classes) or `multitask` (several
            binary tasks).
        n_outputs: logits a model gives for a graph: classes, 1, or tasks.
        metric: how predictions are scored.
    """

    kind: Kind
    n_outputs: int
    metric: Metric

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, get_args(Kind)), ("metric", self.metric, get_args(Metric))):
            if value not in known:
                raise UsageError(f"task {what} {value!r} is not supported; use {', '.join(known)}")
        least = {"multiclass": 2, "binary": 1, "multitask": 1}[self.kind]
        if self.n_outputs < least or (self.kind == "binary" and self.n_outputs != 1):
            raise UsageError(f"a {self.kind} task cannot have {self.n_outputs} outputs")
        if self.kind == "multiclass" and self.metric != "accuracy":
            raise UsageError(f"metric {self.metric} is defined for binary tasks; use accuracy for multiclass")

    @property
    def n_tasks(self) -> int:
        """Columns of the label tensor."""
        return self.n_outputs if self.kind == "multitask" else 1

    @property
    def n_classes(self) -> int:
        """Classes of each task."""
        return self.n_outputs if self.kind == "multiclass" else 2


def as_labels(y: ArrayLike | Tensor, task: Task, rows: int) -> NDArray[np.float64]:
    """(rows, n_tasks) classes, NaN where a label is missing.

    Raises:
        DataError: the shape is another one, or a label is not a class of the task.
    """
    labels = np.asarray(y, np.float64)
    if labels.shape != (rows, task.n_tasks):
        raise DataError(f"labels have shape {labels.shape}, a {task.kind} task needs {(rows, task.n_tasks)}")
    foreign = np.argwhere(~np.isnan(labels) & ~np.isin(labels, np.arange(task.n_classes)))
    if len(foreign):
        row, column = foreign[0]
        raise DataError(
            f"label {labels[row, column]:g} in row {row}, column {column} is not a class; "
            f"use 0 to {task.n_classes - 1}, or NaN where it is missing"
        )
    return labels
