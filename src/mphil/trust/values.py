"""What this package is given, checked and brought into one shape: rows, tasks, classes.

A model gives a logit a class, or for a yes-or-no task one logit alone. The latter is read as the two class logits
:math:`(-z/2, z/2)`, whose softmax is its sigmoid, and which change places when the labels do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import TypeAdapter, ValidationError

from mphil.errors import DataError, IntegrityError, UsageError
from mphil.task import Kind

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
T = TypeVar("T")
_ROUNDING = 1e-6


def as_rows(values: ArrayLike | Tensor, width: int | None, what: str) -> Floats:
    """(n, width) numbers; any width when it is None.

    Raises:
        DataError: the shape is another one, or a number is NaN or infinite.
    """
    rows = np.asarray(values, np.float64)
    if rows.ndim != 2 or width not in (None, rows.shape[1]):
        raise DataError(f"{what} have shape {rows.shape}, not (rows, {'columns' if width is None else width})")
    strange = np.argwhere(~np.isfinite(rows))
    if len(strange):
        row, column = strange[0]
        raise DataError(f"{what}: {rows[row, column]} in row {row}, column {column}; only finite numbers can be judged")
    return rows


def as_probabilities(values: ArrayLike | Tensor, width: int) -> Floats:
    """(n, width) numbers from 0 to 1, rounding forgiven."""
    rows = as_rows(values, width, "probabilities")
    beyond = np.argwhere((rows < -_ROUNDING) | (rows > 1 + _ROUNDING))
    if len(beyond):
        row, column = beyond[0]
        raise DataError(f"{rows[row, column]:g} in row {row}, column {column} is no probability; give logits a softmax")
    return rows.clip(0, 1)


def as_scores(values: ArrayLike | Tensor, what: str = "scores") -> Floats:
    """(n,) numbers; infinity is allowed, NaN is not."""
    scores = np.asarray(values, np.float64)
    if scores.ndim != 1:
        raise DataError(f"{what} have shape {scores.shape}, not (rows,)")
    if np.isnan(scores).any():
        raise DataError(f"{what}: NaN in row {int(np.isnan(scores).argmax())}; a row without a score has no verdict")
    return scores


def class_logits(logits: Floats, kind: Kind) -> Floats:
    """Logits (n, outputs) -> (n, tasks, classes).

    Raises:
        UsageError: a regression has no classes.
    """
    if kind == "regression":
        raise UsageError("a regression has no classes; this score is made of the logits of classes")
    if kind == "multiclass":
        return logits[:, None, :]
    pair: Floats = logits[..., None] * np.array([-0.5, 0.5])
    return pair


def class_probabilities(probabilities: Floats, kind: Kind) -> Floats:
    """Probabilities of the classes, or of the positive label (n, outputs) -> of every class (n, tasks, classes)."""
    if kind == "multiclass":
        return probabilities[:, None, :]
    return np.stack([1 - probabilities, probabilities], axis=-1)


def log_sum_exp(values: Floats) -> Floats:
    r""":math:`\log \sum_c e^{v_c}` over the last dimension."""
    top: Floats = values.max(-1, keepdims=True)
    total: Floats = np.log(np.exp(values - top).sum(-1)) + top[..., 0]
    return total


def softmax(values: Floats) -> Floats:
    r""":math:`e^{v_c} / \sum_{c'} e^{v_{c'}}` over the last dimension."""
    return np.exp(values - log_sum_exp(values)[..., None])


def rank(n: int, above: float) -> int:
    r"""Place :math:`\lceil (n + 1)(1 - q) \rceil` of the finite-sample quantile among n sorted values, counted from 1.

    The chance that a new value of the same kind is above the value in that place is at most q = `above`, whose decimal
    digits are taken as they are written. The place may be n + 1: so few values promise nothing.

    Example:
        >>> rank(9, 0.1), rank(8, 0.1), rank(99, 0.07)
        (9, 9, 93)
    """
    return n + 1 - math.floor((n + 1) * Fraction(str(above)))


def check_share(name: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise UsageError(f"{name} must be between 0 and 1, not {value}")


def restore(kind: type[T], values: Mapping[str, Any]) -> T:
    """A frozen dataclass of this package from what its `to_dict` gave, every field checked.

    Raises:
        IntegrityError: a field is missing, unknown, or cannot be so.
    """
    try:
        return TypeAdapter(kind).validate_python(values)
    except (ValidationError, UsageError) as error:
        if isinstance(error, UsageError):
            what = str(error)
        else:
            problem = error.errors()[0]
            what = f"{'.'.join(map(str, problem['loc'])) or 'value'}: {problem['msg']}"
        raise IntegrityError(f"stored {kind.__name__.lower()} cannot be used ({what}); make the bundle again") from None
