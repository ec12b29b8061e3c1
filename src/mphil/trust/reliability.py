"""How far probabilities can be taken at their word: what was said against what happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mphil.task import Task, as_labels
from mphil.trust.values import Floats, as_probabilities, class_probabilities

if TYPE_CHECKING:
    from torch import Tensor

BINS = 15
"""Of equal width, in which a calibration error is counted."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """What was said against what happened, in bins of equal width from 0 to 1.

    Attributes:
        count: (bins,) predictions in each bin.
        predicted: (bins,) their mean probability, NaN where there are none.
        observed: (bins,) the share that came true, NaN where there are none.
    """

    count: Floats
    predicted: Floats
    observed: Floats

    @property
    def error(self) -> float | None:
        r"""Expected calibration error :math:`\sum_b \frac{n_b}{n} |o_b - p_b|`; None without predictions."""
        filled = self.count > 0
        if not filled.any():
            return None
        gaps = np.abs(self.observed[filled] - self.predicted[filled])
        return float((gaps * self.count[filled]).sum() / self.count.sum())

    @property
    def squared_error(self) -> float | None:
        r"""Mean square gap without what chance adds to it (Kumar, Liang and Ma, 2019, arXiv:1909.10155).

        .. math:: \frac1n \sum_b n_b \left[ (o_b - p_b)^2 - \frac{o_b (1 - o_b)}{n_b - 1} \right]

        The last term estimates the variance of the share :math:`o_b` of :math:`n_b` labels, so that true probabilities
        give 0 on average, at any number of rows; one sample may come out below 0. A bin of one row tells no variance
        and is left out, also of n; None without a larger bin.
        """
        several = self.count > 1
        if not several.any():
            return None
        count, predicted, observed = (value[several] for value in (self.count, self.predicted, self.observed))
        squares = (observed - predicted) ** 2 - observed * (1 - observed) / (count - 1)
        return float((squares * count).sum() / count.sum())


def reliability(
    probabilities: ArrayLike | Tensor,
    y: ArrayLike | Tensor,
    task: Task,
    *,
    target: int | None = None,
    bins: int = 10,
) -> Reliability:
    """The points of a reliability plot.

    A yes-or-no prediction says the probability of yes, and comes true when the label is yes. A multi-class prediction
    says the probability of the likeliest class, and comes true when it is the label.

    Args:
        probabilities: (n, outputs) of the classes, or of the positive label of each task.
        y: (n, tasks) labels, NaN = missing.
        task: what is asked.
        target: one task, or None for all of them together.
        bins: how many.
    """
    said, came_true = _claims(probabilities, y, task)
    columns = slice(None) if target is None else [target]
    values, hits = said[:, columns].ravel(), came_true[:, columns].ravel()
    known = ~np.isnan(hits)
    place = np.minimum((values[known] * bins).astype(np.int64), bins - 1)
    count = np.bincount(place, minlength=bins).astype(np.float64)
    some = np.where(count > 0, count, np.nan)
    sums = (np.bincount(place, weights=weights[known], minlength=bins) for weights in (values, hits))
    predicted, observed = (total / some for total in sums)
    return Reliability(count, predicted, observed)


def expected_calibration_error(
    probabilities: ArrayLike | Tensor, y: ArrayLike | Tensor, task: Task, *, bins: int = BINS
) -> float | None:
    """Mean gap between what was said and what happened (see `reliability`), averaged over the tasks with labels.

    Example:
        >>> task = Task("binary", 1, "roc_auc")
        >>> round(expected_calibration_error([[0.9], [0.9], [0.1]], [[1.0], [0.0], [0.0]], task), 3)
        0.3
    """
    found = (reliability(probabilities, y, task, target=number, bins=bins).error for number in range(task.n_tasks))
    return _mean(found)


def squared_calibration_error(
    probabilities: ArrayLike | Tensor, y: ArrayLike | Tensor, task: Task, *, bins: int = BINS
) -> float | None:
    """Mean square gap without what chance adds (`Reliability.squared_error`), averaged over the tasks with labels.

    Squares, which may be below 0, can be averaged over tables; `root` makes a gap of them at the end.

    Example:
        >>> task = Task("binary", 1, "roc_auc")
        >>> said, labels = [[0.9]] * 10 + [[0.1]] * 10, [[1.0]] * 6 + [[0.0]] * 14
        >>> round(squared_calibration_error(said, labels, task), 3)  # (0.3**2 - 0.24 / 9 + 0.1**2) / 2
        0.037
    """
    found = (
        reliability(probabilities, y, task, target=number, bins=bins).squared_error for number in range(task.n_tasks)
    )
    return _mean(found)


def root(square: float | None) -> float | None:
    """A gap from the estimate of its square; 0 where that came out below 0."""
    return None if square is None else max(square, 0.0) ** 0.5


def _mean(found: Iterable[float | None]) -> float | None:
    """Of what is known; None if nothing is."""
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def log_loss(probabilities: ArrayLike | Tensor, y: ArrayLike | Tensor, task: Task) -> float | None:
    r"""Mean :math:`-\log p_y` over all labels: least when the probabilities are the true ones; None without labels."""
    values = as_probabilities(probabilities, task.n_outputs)
    labels = as_labels(y, task, len(values))
    row, column = np.nonzero(~np.isnan(labels))
    chances = class_probabilities(values, task.kind)[row, column, labels[row, column].astype(np.int64)]
    return float(-np.log(np.maximum(chances, np.finfo(np.float64).tiny)).mean()) if len(row) else None


def _claims(probabilities: ArrayLike | Tensor, y: ArrayLike | Tensor, task: Task) -> tuple[Floats, Floats]:
    """What is said (n, tasks), and whether it came true: 1, 0, or NaN where nobody knows."""
    values = as_probabilities(probabilities, task.n_outputs)
    labels = as_labels(y, task, len(values))
    if task.kind != "multiclass":
        return values, labels
    by_class = class_probabilities(values, task.kind)
    right = (by_class.argmax(-1) == labels).astype(np.float64)
    return by_class.max(-1), np.where(np.isnan(labels), np.nan, right)
