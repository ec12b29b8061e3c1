r"""Sets of classes and intervals of numbers, as large as they must be to hold the truth in a stated share of cases.

Split conformal prediction (Vovk et al., 2005; Lei et al., 2018): held-out graphs show how improbable a true class can
look. The promise

.. math:: P\big(y \in C(x)\big) \ge 1 - \alpha

holds for any model and any number of held-out graphs, if new graphs are drawn like the held-out ones. It does **not**
hold under a shift, where `Conformal.coverage` can only be measured. It also asks that the model, and a calibration that
comes before, were not made with the same held-out labels; one temperature hardly matters, curves may.

Split conformal prediction for regression (Lei et al., 2018). Of held-out graphs with errors
:math:`r_i = |y_i - \hat y_i|` the interval is :math:`\hat y \pm q`, where q is the error in place
:math:`\lceil (n+1)(1-\alpha) \rceil`. Where several models answer, their spread :math:`s` tells hard graphs from easy
ones: errors are divided by :math:`s + \beta`, and the interval is :math:`\hat y \pm q (s + \beta)`. The promise holds
for graphs drawn like the held-out ones; under a shift it can only be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict

from mphil.errors import DataError, UsageError
from mphil.task import Kind, Task, as_labels
from mphil.trust.values import Floats, as_probabilities, as_rows, check_share, class_probabilities, rank, restore

if TYPE_CHECKING:
    from torch import Tensor


Sets = NDArray[np.bool_]


@dataclass(frozen=True)
class Coverage:
    """How often sets held the true class; figures are None without labels.

    Attributes:
        labels: how many there are; missing ones do not count. Those of several tasks count together.
        covered: share of labels that are in their set.
        by_class: the same for the labels of each class.
        size: mean number of classes in a set.
        single: share of sets with one class: an answer.
        empty: share of sets without any: no class is plausible.
    """

    labels: int
    covered: float | None
    by_class: tuple[float | None, ...]
    size: float | None
    single: float | None
    empty: float | None


@dataclass(frozen=True)
class Conformal:
    """Thresholds on the improbability 1 - p of a class.

    Attributes:
        alpha: share of true classes that may be missed.
        per_class: keep the promise for each class by itself (class-conditional, or Mondrian), which protects a rare
            class, instead of for all labels of a task together.
        kind: kind of the task.
        thresholds: (tasks, classes); a class with 1 - p up to its threshold is in the set. None = always in the set,
            since there are fewer held-out labels than the promise needs, or none at all.
        labels: (tasks, classes) held-out labels behind each threshold.

    Example:
        >>> task = Task("binary", 1, "roc_auc")
        >>> held_out, labels = np.linspace(0.05, 0.95, 10)[:, None], [[0.0]] * 5 + [[1.0]] * 5
        >>> conformal = Conformal.fit(held_out, labels, task, alpha=0.2)
        >>> conformal.sets([[0.97], [0.03]])[:, 0].tolist()
        [[False, True], [True, False]]
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    alpha: float
    per_class: bool
    kind: Kind
    thresholds: tuple[tuple[float | None, ...], ...]
    labels: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        check_share("alpha", self.alpha)
        widths = [[len(row) for row in table] for table in (self.thresholds, self.labels)]
        if not widths[0] or widths[0] != widths[1] or len(set(widths[0])) > 1 or widths[0][0] < 2:
            raise UsageError("thresholds and labels must have a row for each task and a column for each class")
        if self.kind == "regression":
            raise UsageError("a regression has intervals, no sets of classes")
        if (self.kind != "multitask" and len(widths[0]) > 1) or (self.kind != "multiclass" and widths[0][0] > 2):
            raise UsageError(f"a {self.kind} task has no thresholds for {len(widths[0])} tasks, {widths[0][0]} classes")

    @classmethod
    def fit(
        cls,
        probabilities: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        task: Task,
        *,
        alpha: float = 0.1,
        per_class: bool = False,
    ) -> Conformal:
        r"""Thresholds from held-out graphs: of n scores, the one in place :math:`\lceil (n+1)(1-\alpha) \rceil`.

        Args:
            probabilities: (n, outputs) of the classes, or of the positive label of each task.
            y: (n, tasks) labels, NaN = missing.
            task: what is asked.
            alpha: share of true classes that may be missed.
            per_class: for each class by itself.
        """
        check_share("alpha", alpha)
        values = as_probabilities(probabilities, task.n_outputs)
        labels = as_labels(y, task, len(values))
        improbable = 1 - class_probabilities(values, task.kind)
        thresholds, counts = [], []
        for column, truth in zip(improbable.swapaxes(0, 1), labels.T, strict=True):
            known = ~np.isnan(truth)
            true = truth[known].astype(np.int64)
            scores = column[known][np.arange(len(true)), true]
            groups = [scores[true == c] if per_class else scores for c in range(task.n_classes)]
            thresholds.append(tuple(_threshold(group, alpha) for group in groups))
            counts.append(tuple(map(len, groups)))
        return cls(alpha, per_class, task.kind, tuple(thresholds), tuple(counts))

    @property
    def always(self) -> Sets:
        """(tasks, classes) which classes are in every set, for lack of held-out labels: there a set says nothing."""
        return np.array([[threshold is None for threshold in row] for row in self.thresholds])

    def sets(self, probabilities: ArrayLike | Tensor) -> Sets:
        """Which classes are plausible: (n, outputs) -> (n, tasks, classes)."""
        limits = np.array([[np.inf if limit is None else limit for limit in row] for row in self.thresholds])
        outputs = limits.shape[1] if self.kind == "multiclass" else limits.shape[0]
        values = as_probabilities(probabilities, outputs)
        found: Sets = 1 - class_probabilities(values, self.kind) <= limits
        return found

    def coverage(self, probabilities: ArrayLike | Tensor, y: ArrayLike | Tensor) -> Coverage:
        """How often the sets hold the true class, and how large they are, where there are labels."""
        sets = self.sets(probabilities)
        tasks, classes = sets.shape[1:]
        task = Task(self.kind, {"multiclass": classes, "binary": 1, "multitask": tasks}[self.kind], "accuracy")
        labels = as_labels(y, task, len(sets))
        row, column = np.nonzero(~np.isnan(labels))
        true = labels[row, column].astype(np.int64)
        chosen = sets[row, column]
        hit, size = chosen[np.arange(len(true)), true], chosen.sum(1)
        return Coverage(
            labels=len(true),
            covered=_mean(hit),
            by_class=tuple(_mean(hit[true == c]) for c in range(classes)),
            size=_mean(size),
            single=_mean(size == 1),
            empty=_mean(size == 0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Conformal:
        """What `to_dict` gave, checked."""
        return restore(cls, values)


def _threshold(scores: Floats, alpha: float) -> float | None:
    """The finite-sample quantile of the scores (n,); None where n is too small for any."""
    place = rank(len(scores), alpha)
    return None if place > len(scores) else float(np.sort(scores)[place - 1])


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


@dataclass(frozen=True)
class IntervalCoverage:
    """How often intervals held the true number; figures are None without labels.

    Attributes:
        labels: how many there are; those of several tasks count together.
        covered: share of labels inside their interval.
        by_task: the same for each task.
        width: mean width of the intervals of each task, in its unit; None where it has no interval.
    """

    labels: int
    covered: float | None
    by_task: tuple[float | None, ...]
    width: tuple[float | None, ...]


@dataclass(frozen=True)
class Intervals:
    """Half-widths of intervals, in the unit of each task.

    Attributes:
        alpha: share of true numbers that may be missed.
        quantiles: (tasks,) q; None = no interval, since there are fewer held-out labels than the promise needs.
        offsets: (tasks,) beta; None where all intervals of a task are equally wide.
        labels: (tasks,) held-out labels behind each.

    Example:
        >>> held_out = np.arange(9.0)[:, None]
        >>> intervals = Intervals.fit(held_out, held_out + [[1.0]], alpha=0.1)
        >>> intervals.around([[5.0]]).tolist()
        [[[4.0, 6.0]]]
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    alpha: float
    quantiles: tuple[float | None, ...]
    offsets: tuple[float | None, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        check_share("alpha", self.alpha)
        if not self.quantiles or not len(self.quantiles) == len(self.offsets) == len(self.labels):
            raise UsageError("quantiles, offsets and labels must have a value for each task")
        if any(value is not None and value < 0 for value in self.quantiles):
            raise UsageError("a quantile of errors cannot be below 0")
        if any(value is not None and value <= 0 for value in self.offsets):
            raise UsageError("an offset must be above 0")

    @classmethod
    def fit(
        cls, predicted: ArrayLike, y: ArrayLike, *, alpha: float = 0.1, spread: ArrayLike | None = None
    ) -> Intervals:
        """From held-out graphs.

        Args:
            predicted: (n, tasks) in the unit of each task.
            y: (n, tasks) measured, NaN = missing.
            alpha: share of true numbers that may be missed.
            spread: (n, tasks) how far apart the models are that answered; None when one answers alone.
        """
        check_share("alpha", alpha)
        values, labels, apart = _checked(predicted, y, spread)
        quantiles, offsets, counts = [], [], []
        for task in range(values.shape[1]):
            known = ~np.isnan(labels[:, task])
            errors = np.abs(values[known, task] - labels[known, task])
            offset = None
            if apart is not None and known.any() and (apart[known, task] > 0).any():
                offset = float(np.median(apart[known, task])) or float(apart[known, task].mean())
                errors = errors / (apart[known, task] + offset)
            place = rank(len(errors), alpha)
            quantiles.append(None if place > len(errors) else float(np.sort(errors)[place - 1]))
            offsets.append(offset)
            counts.append(len(errors))
        return cls(alpha, tuple(quantiles), tuple(offsets), tuple(counts))

    def around(self, predicted: ArrayLike, spread: ArrayLike | None = None) -> Floats:
        """(n, tasks, 2) lower and upper ends; infinite where there is no interval."""
        values = as_rows(predicted, len(self.quantiles), "predictions")
        half = np.tile([np.inf if q is None else q for q in self.quantiles], (len(values), 1))
        for task, offset in enumerate(self.offsets):
            if offset is not None:
                if spread is None:
                    raise UsageError("these intervals go by the spread of several models, and there is none")
                half[:, task] *= as_rows(spread, len(self.quantiles), "spreads")[:, task] + offset
        return np.stack([values - half, values + half], axis=-1)

    def coverage(self, predicted: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> IntervalCoverage:
        """How often the intervals hold the measured number, and how wide they are, where there are labels."""
        _, labels, _ = _checked(predicted, y, spread)
        ends = self.around(predicted, spread)
        known = ~np.isnan(labels)
        inside = (ends[..., 0] <= labels) & (labels <= ends[..., 1])
        width = np.where(known, ends[..., 1] - ends[..., 0], np.nan)
        tasks = range(labels.shape[1])
        return IntervalCoverage(
            labels=int(known.sum()),
            covered=float(inside[known].mean()) if known.any() else None,
            by_task=tuple(float(inside[known[:, t], t].mean()) if known[:, t].any() else None for t in tasks),
            width=tuple(
                float(width[known[:, t], t].mean()) if known[:, t].any() and self.quantiles[t] is not None else None
                for t in tasks
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Intervals:
        """What `to_dict` gave, checked."""
        return restore(cls, values)


def _checked(predicted: ArrayLike, y: ArrayLike, spread: ArrayLike | None) -> tuple[Floats, Floats, Floats | None]:
    """Predictions, labels and spreads of one shape (n, tasks)."""
    values = as_rows(predicted, None, "predictions")
    labels = np.asarray(y, np.float64)
    if labels.shape != values.shape:
        raise DataError(f"labels have shape {labels.shape}, predictions {values.shape}; give one for each")
    return values, labels, None if spread is None else as_rows(spread, values.shape[1], "spreads")
