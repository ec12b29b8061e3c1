"""Which whole groups of rows make up two held-out parts, so that sizes and classes come out as wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

HELD_PARTS = 2
LEAST_OF_CLASS = 10
"""Rows of every class that a held-out part gets before it is filled up; fewer when its share of them is less."""

KEPT_OF_CLASS = 1 / 3
"""Share of the rows of every class that is never held out."""


@dataclass
class Dealing:
    """Groups on their way into two held-out parts; what is in neither is for training.

    Attributes:
        sizes: (groups,) rows of each group.
        counts: (groups, classes) rows of each class.
        wanted: rows that each held-out part should have.
        most: rows that both parts may take together.
        home: (groups,) where each group is, as `deal` returns it.
        filled: (2,) rows of each held-out part.
        classes: (2, classes) rows of each class in them.
    """

    sizes: IntArray
    counts: IntArray
    wanted: int
    most: int
    home: IntArray = field(init=False)
    filled: IntArray = field(init=False)
    classes: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.home = np.zeros(len(self.sizes), np.int64)
        self._total = self.counts.sum(0)
        self._kept = np.ceil(KEPT_OF_CLASS * self._total).astype(np.int64)
        self._left = self._total.copy()
        self.filled = np.zeros(HELD_PARTS, np.int64)
        self.classes = np.zeros((HELD_PARTS, self.counts.shape[1]), np.int64)

    def deal(self) -> IntArray:
        """Fill both parts: first so that every class is there, then up to their size.

        Groups of more than half a part go to training, unless the others leave a part less than half full: then it
        gets the smallest of them. Apart from that, groups are taken in the order in which they are given.

        Returns:
            (groups,) 0 = training, 1 and 2 = held out.
        """
        small = self.sizes <= max(1, self.wanted // 2)
        order = np.argsort(np.where(small, 0, self.sizes), kind="stable")
        rarest_first = np.argsort(self._total, kind="stable").tolist()
        for most in (1, LEAST_OF_CLASS):
            for column in rarest_first:
                self._add_class(order[small[order] & (self.counts[order, column] > 0)].tolist(), column, most)
        for group in order.tolist():
            part = int(np.argmin(self.filled))
            if self.filled[part] >= self.wanted:
                break
            if self._fits(group, part):
                self._put(group, part)
        for part in np.argsort(self.filled, kind="stable").tolist():
            free = next((group for group in order.tolist() if self._may_leave(group)), None)
            if 2 * self.filled[part] < self.wanted and free is not None:
                self._put(free, part)
        return self.home

    def _add_class(self, order: Sequence[int], column: int, most: int) -> None:
        """Put groups with a class into the part that has less of it, until both have their share, or so many rows."""
        share = int(self._total[column]) * self.wanted // int(self.sizes.sum())
        for group in order:
            part = int(np.argmin(self.classes[:, column]))
            if self.classes[part, column] >= max(1, min(most, share)):
                return
            if self._fits(group, part):
                self._put(group, part)

    def _fits(self, group: int, part: int) -> bool:
        return bool(self.filled[part] + self.sizes[group] <= self.wanted) and self._may_leave(group)

    def _may_leave(self, group: int) -> bool:
        """Whether the group is still in training, and training has enough rows of every class without it."""
        enough = bool((self._left - self.counts[group] >= self._kept)[self.counts[group] > 0].all())
        return not self.home[group] and enough and bool(self.filled.sum() + self.sizes[group] <= self.most)

    def _put(self, group: int, part: int) -> None:
        self.home[group] = part + 1
        self.filled[part] += self.sizes[group]
        self.classes[part] += self.counts[group]
        self._left -= self.counts[group]


def class_counts(group: IntArray, labels: NDArray[np.floating[Any]]) -> IntArray:
    """(groups, classes) rows of every class of every task in each group.

    Args:
        group: (n,) group numbers, from 0 on without gaps.
        labels: (n, tasks), NaN = missing.
    """
    columns = [
        np.bincount(group[column == value], minlength=int(group.max()) + 1)
        for column in labels.T
        for value in np.unique(column[~np.isnan(column)])
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((int(group.max()) + 1, 0), np.int64)
