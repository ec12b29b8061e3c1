"""Scores of predictions: higher is better, missing labels are left out, None means undefined.

Accuracy, ROC-AUC and average precision are pure functions of two vectors; `score` applies the one that a task asks
for to each of its columns and averages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mphil.errors import DataError
from mphil.task import Task, as_labels

Vector = NDArray[Any]


def score(logits: Tensor, y: Tensor, task: Task) -> float | None:
    """The task's metric, averaged over the columns of `y` for which it is defined.

    ROC-AUC and average precision leave out columns whose labels are all of one class, as GOOD and OGB do.

    Args:
        logits: (n_graphs, n_outputs).
        y: (n_graphs, n_tasks), NaN = missing.
        task: kind of the labels and name of the metric.

    Returns:
        The mean, or None when no column defines the metric.

    Raises:
        DataError: a logit is NaN, a label is not a class of the task, or the shapes do not fit.

    Example:
        >>> import torch
        >>> score(torch.tensor([[2.0], [-1.0]]), torch.tensor([[1.0], [0.0]]), Task("binary", 1, "roc_auc"))
        1.0
    """
    outputs, labels = logits.detach().cpu().double().numpy(), y.detach().cpu().double().numpy()
    _check(outputs, labels, task)
    columns = outputs.argmax(1)[:, None] if task.kind == "multiclass" else outputs
    scores = []
    for column, truth in zip(columns.T, labels.T, strict=True):
        labelled = ~np.isnan(truth)
        value = _column_score(column[labelled], truth[labelled], task)
        if value is not None:
            scores.append(value)
    return float(np.mean(scores)) if scores else None


def accuracy(predicted: Vector, labels: Vector) -> float | None:
    """Share of predicted classes (n,) that equal the labels (n,); None for no rows."""
    return float(np.mean(predicted == labels)) if len(labels) else None


def roc_auc(scores: Vector, labels: Vector) -> float | None:
    r"""Chance that a positive scores above a negative, ties counting half (Mann-Whitney).

    :math:`(\sum_{i: y_i = 1} r_i - P (P + 1) / 2) / (P N)` with the mean rank :math:`r` among equal scores.

    Args:
        scores: (n,) without NaN.
        labels: (n,) of 0 and 1.

    Returns:
        The area, or None when one of the classes is absent.
    """
    positives = float(labels.sum())
    negatives = len(labels) - positives
    if not positives or not negatives:
        return None
    counts, hits = _by_distinct_score(scores, labels)
    ranks = counts.cumsum() - (counts - 1) / 2
    return float((hits @ ranks - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(scores: Vector, labels: Vector) -> float | None:
    r"""Precision at every distinct score, weighted by the recall gained there: :math:`\sum_k (R_k - R_{k-1}) P_k`.

    Args:
        scores: (n,) without NaN.
        labels: (n,) of 0 and 1.

    Returns:
        The sum, or None without a positive label.
    """
    positives = float(labels.sum())
    if not positives:
        return None
    counts, hits = (values[::-1] for values in _by_distinct_score(scores, labels))
    precision = hits.cumsum() / counts.cumsum()
    return float(hits @ precision / positives)


def _by_distinct_score(scores: Vector, labels: Vector) -> tuple[Vector, Vector]:
    """Rows and positives at each distinct score, in ascending order: two (n_distinct,) vectors."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return counts, np.bincount(place, weights=labels, minlength=len(counts))


def _column_score(column: Vector, labels: Vector, task: Task) -> float | None:
    if task.metric == "accuracy":
        return accuracy(column if task.kind == "multiclass" else column > 0, labels)
    if not 0 < labels.sum() < len(labels):
        return None
    return roc_auc(column, labels) if task.metric == "roc_auc" else average_precision(column, labels)


def _check(outputs: Vector, labels: Vector, task: Task) -> None:
    if outputs.shape != (len(labels), task.n_outputs):
        wanted = (len(labels), task.n_outputs)
        raise DataError(f"logits have shape {outputs.shape}, a {task.kind} task needs {wanted}")
    as_labels(labels, task, len(labels))
    diverged = np.argwhere(np.isnan(outputs))
    if len(diverged):
        row, column = diverged[0]
        raise DataError(f"the model gives NaN for row {row}, output {column}; train again with a smaller learning rate")
