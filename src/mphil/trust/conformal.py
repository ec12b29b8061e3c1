r"""Sets of classes instead of one: as large as they must be to hold the true class in all but a stated share of cases.

Split conformal prediction (Vovk et al., 2005; Lei et al., 2018): held-out graphs show how improbable a true class can
look. The promise

.. math:: P\big(y \in C(x)\big) \ge 1 - \alpha

holds for any model and any number of held-out graphs, if new graphs are drawn like the held-out ones. It does **not**
hold under a shift, where `Conformal.coverage` can only be measured. It also asks that the model, and a calibration that
comes before, were not made with the same held-out labels; one temperature hardly matters, curves may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict

from mphil.errors import UsageError
from mphil.task import Kind, Task, as_labels
from mphil.trust.values import Floats, as_probabilities, check_share, class_probabilities, rank, restore

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
