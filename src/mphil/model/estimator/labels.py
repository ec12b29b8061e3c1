"""What people hand to an estimator as y."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from mphil.model.estimator.inputs import InputError
from mphil.tables.labels import Target, TargetKind
from mphil.tables.survey import above_median
from mphil.task import Task


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels, understood.

    Attributes:
        y: (n, tasks) class numbers or measured numbers, NaN = missing.
        task: what is asked.
        classes: (classes,) what the user calls the classes of each task; empty for numbers.
    """

    y: NDArray[np.float64]
    task: Task
    classes: NDArray[Any]

    @property
    def names(self) -> tuple[str, ...]:
        """What a bundle calls the classes."""
        return tuple(map(str, self.classes.tolist()))

    def strata(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """(n, tasks) what is balanced when rows are held out: classes, of numbers whether they are above the median."""
        y = self.y[rows]
        return np.stack([above_median(column) for column in y.T], axis=1) if self.task.kind == "regression" else y

    def targets(self, rows: NDArray[np.int64]) -> tuple[Target, ...]:
        """The columns, as those of a table, for some of the rows."""
        kinds: dict[str, TargetKind] = {"multiclass": "multiclass", "regression": "continuous"}
        kind = kinds.get(self.task.kind, "binary")
        columns = self.y[rows].T
        titles = ["label"] if len(columns) == 1 else [f"label_{number}" for number in range(len(columns))]
        return tuple(Target(title, kind, self.names, y) for title, y in zip(titles, columns, strict=True))


def read_labels(y: Any, rows: int) -> Labels:
    """Classes of any kind in one column; or several columns of 0 and 1, NaN where a label is missing.

    Raises:
        InputError: there is one class only, or a column holds something else.
        ValueError: scikit-learn's own, for what is no label at all.

    Example:
        >>> labels = read_labels(["yes", "no", "yes"], 3)
        >>> labels.classes.tolist(), labels.y.ravel().tolist()
        (['no', 'yes'], [1.0, 0.0, 1.0])
    """
    if y is None:
        raise InputError("MPHILClassifier requires y to be passed, but the target y is None")
    found = check_array(y, ensure_2d=False, allow_nd=False, dtype=None, ensure_all_finite="allow-nan", input_name="y")
    if len(found) != rows:
        raise InputError(f"X has {rows} rows and y has {len(found)}; give a label for each")
    if found.ndim == 2 and found.shape[1] > 1:
        return _several(found)
    check_array(y, ensure_2d=False, dtype=None, input_name="y")
    column = column_or_1d(found, warn=True)
    check_classification_targets(column)
    classes, codes = np.unique(column, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y holds one class only, {classes[0]!r}; there is nothing to tell apart")
    task = Task("binary", 1, "roc_auc") if len(classes) == 2 else Task("multiclass", len(classes), "accuracy")
    return Labels(codes.astype(np.float64)[:, None], task, classes)


def read_numbers(y: Any, rows: int) -> Labels:
    """One column of numbers; or several, NaN where one is missing.

    Raises:
        InputError: all numbers are alike, or there are more or fewer than rows.
        ValueError: scikit-learn's own, for what is no number at all.

    Example:
        >>> read_numbers([1.5, 2, 4], 3).y.ravel().tolist()
        [1.5, 2.0, 4.0]
    """
    if y is None:
        raise InputError("MPHILRegressor requires y to be passed, but the target y is None")
    found = check_array(
        y, ensure_2d=False, allow_nd=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y"
    )
    if len(found) != rows:
        raise InputError(f"X has {rows} rows and y has {len(found)}; give a number for each")
    if found.ndim == 1 or found.shape[1] == 1:
        found = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)[:, None]
    if not any(len(np.unique(column[~np.isnan(column)])) > 1 for column in found.T):
        raise InputError(f"all numbers of y ({rows} sample(s)) are alike; there is nothing to learn")
    tasks = found.shape[1]
    return Labels(found, Task("regression", tasks, "rmse" if tasks == 1 else "r2"), np.empty(0))


def _several(y: NDArray[Any]) -> Labels:
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("several columns of y are learned together when each holds 0, 1 or NaN, no text") from None
    strange = np.argwhere(~np.isnan(values) & (values != 0) & (values != 1))
    if len(strange):
        row, column = strange[0]
        raise InputError(
            f"y holds {values[row, column]:g} in row {row}, column {column}; several columns are learned together when "
            "each holds 0, 1, or NaN where the label is missing"
        )
    return Labels(values, Task("multitask", values.shape[1], "roc_auc"), np.array([0, 1]))
