"""Scores of predictions, where missing labels are left out and None means undefined, and the epoch that they choose.

Each metric is a pure function of two vectors; `score` applies the one that a task asks for to each of its columns and
averages. Higher is better, but for errors (see `Task.lower_is_better`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mphil.benchmarks.catalogue import Benchmark
from mphil.errors import DataError, UnknownName, UsageError
from mphil.graphs.loader import Loader
from mphil.graphs.split import PARTS, Part
from mphil.graphs.store import Batch, GraphBatch
from mphil.methods.base import Method, evaluating
from mphil.task import Kind, Task, as_labels

Selection = Literal["ood_val", "id_val", "last"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
History = Sequence[Mapping[str, Any]]
"""A record per epoch, `{"epoch": 3, "scores": {"id_val": 0.9, "ood_val": None}}`; None = undefined."""


def best_epoch(
    history: History, rule: Selection, window: int = 1, min_epochs: int = 0, *, lower: bool = False
) -> int | None:
    """The epoch with the best score on the part the rule names, the earliest of equals; `last` takes the last.

    Args:
        history: a record per epoch.
        rule: the part to choose on.
        window: the score of an epoch is the mean over it and those before it, so many in all; it has none where they
            are fewer, or where one of them has none.
        min_epochs: number of the first epoch that may be chosen.
        lower: the score is an error, of which the lowest is best.

    Returns:
        The epoch's number, or None when no epoch has a score.

    Example:
        >>> history = [{"epoch": n, "scores": {"id_val": score}} for n, score in enumerate([0.9, 0.1, 0.7, 0.8], 1)]
        >>> best_epoch(history, "id_val"), best_epoch(history, "id_val", window=2)
        (1, 4)
    """
    if rule not in SELECTIONS:
        raise UnknownName("selection", rule, SELECTIONS)
    if rule == "last":
        return int(history[-1]["epoch"]) if history else None
    scores = [record["scores"].get(rule) for record in history]
    smoothed: dict[int, float] = {}
    for end in range(window, len(history) + 1):
        recent = scores[end - window : end]
        epoch = int(history[end - 1]["epoch"])
        if None not in recent and epoch >= min_epochs:
            smoothed[epoch] = math.fsum(recent) / window
    best = min if lower else max
    return best(smoothed, key=smoothed.__getitem__) if smoothed else None


def last_scores(history: History, epochs: int = 5) -> dict[str, float | None]:
    """The score of each part as the mean over the last epochs, which no choice can flatter; None where one has none."""
    recent = [record["scores"] for record in history[-epochs:]]
    columns = {part: [scores[part] for scores in recent] for part in (recent[-1] if recent else ())}
    return {part: None if None in values else math.fsum(values) / len(values) for part, values in columns.items()}


Vector = NDArray[Any]


def score(logits: Tensor, y: Tensor, task: Task) -> float | None:
    """The task's metric, averaged over the columns of `y` for which it is defined.

    ROC-AUC and average precision leave out columns whose labels are all of one class, as GOOD and OGB do. A regression
    is scored in the unit of its labels.

    Args:
        logits: (n_graphs, n_outputs) outputs of a model.
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
    if task.kind == "regression":
        outputs = task.to_units(outputs)
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


def rmse(predicted: Vector, labels: Vector) -> float | None:
    """Root of the mean squared error of predictions (n,); None for no rows."""
    return float(np.sqrt(np.mean((predicted - labels) ** 2))) if len(labels) else None


def mae(predicted: Vector, labels: Vector) -> float | None:
    """Mean absolute error of predictions (n,); None for no rows."""
    return float(np.mean(np.abs(predicted - labels))) if len(labels) else None


def r2(predicted: Vector, labels: Vector) -> float | None:
    r"""Explained share of the variance, :math:`1 - \sum_i (y_i - \hat y_i)^2 / \sum_i (y_i - \bar y)^2`.

    Returns:
        1 for perfect predictions (n,), 0 for those that are no better than the mean label, less for worse ones; None
        when all labels are alike.
    """
    if not len(labels) or np.ptp(labels) == 0:
        return None
    return float(1 - ((predicted - labels) ** 2).sum() / ((labels - labels.mean()) ** 2).sum())


def spearman(predicted: Vector, labels: Vector) -> float | None:
    """Correlation of the ranks of predictions (n,) and labels (n,), equal values sharing their mean rank.

    Returns:
        -1 to 1; 0 when all predictions are alike, None when all labels are.
    """
    if not len(labels) or np.ptp(labels) == 0:
        return None
    ranks = [_ranks(values) - (len(labels) + 1) / 2 for values in (predicted, labels)]
    product = float(ranks[0] @ ranks[0]) * float(ranks[1] @ ranks[1])
    return float(ranks[0] @ ranks[1] / np.sqrt(product)) if product else 0.0


def _ranks(values: Vector) -> Vector:
    """(n,) ranks from 1, the mean rank among equal values."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Vector = (counts.cumsum() - (counts - 1) / 2)[place]
    return ranks


def _by_distinct_score(scores: Vector, labels: Vector) -> tuple[Vector, Vector]:
    """Rows and positives at each distinct score, in ascending order: two (n_distinct,) vectors."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return counts, np.bincount(place, weights=labels, minlength=len(counts))


REGRESSION_METRICS: dict[str, Callable[[Vector, Vector], float | None]] = {
    "rmse": rmse,
    "mae": mae,
    "r2": r2,
    "spearman": spearman,
}


def _column_score(column: Vector, labels: Vector, task: Task) -> float | None:
    if task.kind == "regression":
        return REGRESSION_METRICS[task.metric](column, labels)
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


def gather(method: Method, batches: Iterable[GraphBatch], output: Callable[[Batch], Tensor]) -> Tensor:
    """Apply `output` to every batch in evaluation mode and join the results on the CPU."""
    device = next(method.parameters()).device
    with evaluating(method):
        return torch.cat([output(batch.to(device)).cpu() for batch in batches])


def predict_logits(method: Method, batches: Iterable[GraphBatch]) -> Tensor:
    """(n_graphs, n_outputs) logits, in the order of the batches."""
    return gather(method, batches, method.predict)


def probabilities(logits: Tensor, kind: Kind) -> Tensor:
    """Class probabilities for multi-class logits, probabilities of the positive label otherwise.

    Raises:
        UsageError: a regression has no classes.
    """
    if kind == "regression":
        raise UsageError("a regression predicts numbers, not classes with probabilities")
    return logits.softmax(1) if kind == "multiclass" else logits.sigmoid()


def score_parts(
    method: Method, benchmark: Benchmark, batch_size: int, parts: tuple[Part, ...] = PARTS
) -> dict[str, float | None]:
    """The metric of each part; None where a part is empty or has no label to score."""
    scores: dict[str, float | None] = dict.fromkeys(parts)
    for part in parts:
        graphs = benchmark.split[part]
        if len(graphs):
            logits = predict_logits(method, Loader(benchmark.store, graphs, batch_size))
            scores[part] = score(logits, benchmark.store.y[graphs], benchmark.task)
    return scores
