"""What is asked of a graph: the only thing a method knows about a dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mphil.errors import DataError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["multiclass", "binary", "multitask", "regression"]
Metric = Literal["accuracy", "roc_auc", "average_precision", "rmse", "mae", "r2", "spearman"]
MEASURES: tuple[Metric, ...] = ("rmse", "mae", "r2", "spearman")
"""Metrics of a regression; the others are of classes."""
LOWER_IS_BETTER: frozenset[str] = frozenset({"rmse", "mae"})
"""Metrics that are errors; of all others, higher is better."""


@dataclass(frozen=True)
class Task:
    """A classification or regression task.

    Labels are always a float tensor of shape (n_graphs, n_tasks); NaN means missing. A multi-class label is the
    class number, a binary label is 0 or 1, that of a regression a number in its own unit.

    Attributes:
        kind: `multiclass` (one task, several classes), `binary` (one task, two classes), `multitask` (several
            binary tasks) or `regression` (one or more measured numbers).
        n_outputs: outputs of a model for a graph: logits of the classes, 1, or one for each task.
        metric: how predictions are scored.
        means: of a regression, what an output of 0 means in each task; 0 when left out.
        scales: of a regression, how much an output of 1 is above it; 1 when left out.
    """

    kind: Kind
    n_outputs: int
    metric: Metric
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, get_args(Kind)), ("metric", self.metric, get_args(Metric))):
            if value not in known:
                raise UsageError(f"task {what} {value!r} is not supported; use {', '.join(known)}")
        least = {"multiclass": 2, "binary": 1, "multitask": 1, "regression": 1}[self.kind]
        if self.n_outputs < least or (self.kind == "binary" and self.n_outputs != 1):
            raise UsageError(f"a {self.kind} task cannot have {self.n_outputs} outputs")
        if self.kind == "multiclass" and self.metric != "accuracy":
            raise UsageError(f"metric {self.metric} is defined for binary tasks; use accuracy for multiclass")
        if (self.kind == "regression") != (self.metric in MEASURES):
            right = MEASURES if self.kind == "regression" else [m for m in get_args(Metric) if m not in MEASURES]
            raise UsageError(f"metric {self.metric} does not go with a {self.kind} task; use {', '.join(right)}")
        self._check_scaling()

    def _check_scaling(self) -> None:
        if self.kind != "regression" and (self.means or self.scales):
            raise UsageError(f"a {self.kind} task has classes, which have no mean and no scale")
        for what, values in (("means", self.means), ("scales", self.scales)):
            if values and (len(values) != self.n_outputs or not np.isfinite(values).all()):
                raise UsageError(f"{what} of {self.n_outputs} tasks must be as many finite numbers, not {values}")
        if any(scale <= 0 for scale in self.scales):
            raise UsageError(f"scales must be above 0, not {self.scales}")

    @property
    def n_tasks(self) -> int:
        """Columns of the label tensor."""
        return self.n_outputs if self.kind in ("multitask", "regression") else 1

    @property
    def n_classes(self) -> int:
        """Classes of each task; 0 for a regression."""
        return {"multiclass": self.n_outputs, "regression": 0}.get(self.kind, 2)

    @property
    def learned(self) -> str:
        """The name of its term among the losses, `classification` or `regression`."""
        return "regression" if self.kind == "regression" else "classification"

    @property
    def lower_is_better(self) -> bool:
        """Whether its metric is an error."""
        return self.metric in LOWER_IS_BETTER

    def to_units(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, tasks) outputs of a regression model -> predictions in the unit of each task.

        Example:
            >>> Task("regression", 1, "rmse", (6.0,), (2.0,)).to_units(np.array([[0.5]])).tolist()
            [[7.0]]
        """
        found: NDArray[np.float64] = outputs * np.array(self.scales or 1.0) + np.array(self.means or 0.0)
        return found

    def from_units(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, tasks) numbers in the unit of each task -> outputs of a regression model: undoes `to_units`."""
        found: NDArray[np.float64] = (y - np.array(self.means or 0.0)) / np.array(self.scales or 1.0)
        return found

    def standardised(self, y: ArrayLike | Tensor) -> Task:
        """This regression with the means and standard deviations of (n, tasks) training labels, NaN = missing.

        A task with fewer than two different labels keeps the scale 1.

        Example:
            >>> Task("regression", 1, "rmse").standardised([[1.0], [3.0], [np.nan]])
            Task(kind='regression', n_outputs=1, metric='rmse', means=(2.0,), scales=(1.0,))
        """
        columns = [column[~np.isnan(column)] for column in as_labels(y, self, len(np.asarray(y))).T]
        means = tuple(float(column.mean()) if len(column) else 0.0 for column in columns)
        deviations = [float(column.std()) if len(column) else 0.0 for column in columns]
        return replace(self, means=means, scales=tuple(deviation or 1.0 for deviation in deviations))


def as_labels(y: ArrayLike | Tensor, task: Task, rows: int) -> NDArray[np.float64]:
    """(rows, n_tasks) classes or measured numbers, NaN where a label is missing.

    Raises:
        DataError: the shape is another one, or a label is not a class of the task, or infinite.
    """
    labels = np.asarray(y, np.float64)
    if labels.shape != (rows, task.n_tasks):
        raise DataError(f"labels have shape {labels.shape}, a {task.kind} task needs {(rows, task.n_tasks)}")
    if task.kind == "regression":
        if np.isinf(labels).any():
            row, column = np.argwhere(np.isinf(labels))[0]
            raise DataError(f"label {labels[row, column]} in row {row}, column {column} is not a finite number")
        return labels
    foreign = np.argwhere(~np.isnan(labels) & ~np.isin(labels, np.arange(task.n_classes)))
    if len(foreign):
        row, column = foreign[0]
        raise DataError(
            f"label {labels[row, column]:g} in row {row}, column {column} is not a class; "
            f"use 0 to {task.n_classes - 1}, or NaN where it is missing"
        )
    return labels
