"""What people hand to an estimator: SMILES, RDKit molecules or PyG graphs in whatever holds them, and y."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from mphil.chem.parse import is_molecule, spelling
from mphil.errors import MphilError
from mphil.graphs.batch import is_graph
from mphil.graphs.store import GraphStore
from mphil.tables.cell_values import Target, TargetKind
from mphil.tables.survey import above_median
from mphil.task import Task

ACCEPTED = "estimators of mphil take SMILES, RDKit molecules or PyG graphs, one a row"
SHOWN = 5
"""Rows that a message names one by one."""

OnBad = Literal["raise", "skip"]


class InputError(MphilError, ValueError):
    """Something is wrong with what was given; also a ValueError, which is what users of scikit-learn catch."""

    exit_code = 3


class UnreadableRows(UserWarning):
    """Some rows hold no molecule that can be read: they are left out of training, or get no answer."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Errors of the library leave the block as `InputError`."""
    try:
        yield
    except InputError:
        raise
    except MphilError as error:
        raise InputError(str(error)) from error


@dataclass(frozen=True)
class Rows:
    """The rows of X.

    Attributes:
        kind: what they are.
        values: (n,) SMILES, or graphs.
    """

    kind: Literal["molecules", "graphs"]
    values: list[Any]

    def __len__(self) -> int:
        return len(self.values)

    def store(self) -> GraphStore:
        """Rows that are graphs, as a store."""
        return GraphStore.from_pyg(self.values)


def read_rows(X: Any) -> Rows:
    """Make rows of X: a list, an array, a column of a table.

    A molecule may be text or an object of RDKit; a row with nothing in it (None, NaN) counts as a molecule that cannot
    be read.

    Raises:
        InputError: X is empty, or something else.

    Example:
        >>> read_rows(["CCO", "C"]).kind
        'molecules'
    """
    values = _values(X)
    if not values:
        raise InputError(f"X has no rows (0 sample(s)); {ACCEPTED}, and at least one is needed")
    if all(is_graph(value) for value in values):
        return Rows("graphs", values)
    return Rows("molecules", [_text(row, value) for row, value in enumerate(values)])


def tell(problems: Mapping[int, str], rows: int, on_bad: OnBad, consequence: str, *, depth: int) -> None:
    """Say which rows cannot be read: as an error, or as a warning with what becomes of them.

    Args:
        problems: row, from 0, to what is wrong with it.
        rows: how many rows there are.
        on_bad: which of the two.
        consequence: what a warning says of these rows, such as `they are left out`.
        depth: calls between the user's line, which a warning points at, and this one.
    """
    if not problems:
        return
    named = ", ".join(map(str, sorted(problems)[:SHOWN])) + (", ..." if len(problems) > SHOWN else "")
    first = min(problems)
    what = f"{len(problems)} of {rows} rows cannot be read: {named} (row {first}: {problems[first]})"
    if on_bad == "raise":
        raise InputError(f"{what}; correct them, or use on_bad='skip'")
    warnings.warn(f"{what}; {consequence}", UnreadableRows, stacklevel=depth + 1)


def _values(X: Any) -> list[Any]:
    if isinstance(X, str) or is_graph(X) or is_molecule(X) or not hasattr(X, "__len__"):
        raise InputError(f"X is a {type(X).__name__}; {ACCEPTED}: put it into a list")
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) != 1:
        if len(shape) != 2 or shape[1] != 1 or not hasattr(X, "__array__"):
            raise InputError(f"X is a matrix of shape {tuple(shape)}; {ACCEPTED}")
        return list(np.asarray(X, dtype=object)[:, 0])
    return list(X)


def _text(row: int, value: Any) -> str:
    if isinstance(value, str):
        return value
    if is_molecule(value):
        return spelling(value)
    if value is None or (isinstance(value, float) and value != value):
        return ""
    kind = type(value).__name__
    among = "a graph among molecules" if is_graph(value) else f"a {kind}"
    raise InputError(f"row {row} of X is {among}; {ACCEPTED}")


def groups_of(groups: Sequence[Any] | None, rows: int) -> list[str] | None:
    """(n,) the domain of each row as text."""
    if groups is None:
        return None
    if len(groups) != rows:
        raise InputError(f"{len(groups)} groups for {rows} rows; give one for each")
    return [str(group) for group in groups]


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
