"""Does the same molecule stand on both sides? Duplicates, labels that contradict each other, leaks between parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mphil.graphs.split import PARTS, Part

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Rows that hold the same molecule: positions in ascending order."""

    rows: tuple[int, ...]


@dataclass(frozen=True)
class Duplicates:
    """Molecules that occur more than once.

    Attributes:
        groups: all of them, by first row.
        conflicts: those whose rows disagree about a label that both have.
    """

    groups: tuple[Group, ...]
    conflicts: tuple[Group, ...]

    @property
    def rows(self) -> int:
        """Rows that would go if each molecule were kept once."""
        return sum(len(group.rows) - 1 for group in self.groups)


@dataclass(frozen=True)
class Leaks:
    """Molecules that stand in more than one part of a split.

    Attributes:
        molecules: how many.
        rows: their rows, in all parts.
        between: pair of parts to the molecules they share; only pairs that share any.
    """

    molecules: int
    rows: int
    between: Mapping[tuple[Part, Part], int]


def find_duplicates(keys: IntArray, y: NDArray[np.float64]) -> Duplicates:
    """Group the rows by what they hold.

    Args:
        keys: (n,) equal numbers for equal molecules.
        y: (n, n_tasks) labels, NaN = missing.

    Example:
        >>> found = find_duplicates(np.array([7, 3, 7]), np.array([[0.0], [1.0], [1.0]]))
        >>> found.groups, len(found.conflicts)
        ((Group(rows=(0, 2)),), 1)
    """
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=keys[order[:1]] - 1))
    sizes = np.diff(starts, append=len(order))
    groups, conflicts = [], []
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        rows = order[start : start + size]
        group = Group(tuple(rows.tolist()))
        groups.append(group)
        if _disagree(y[rows]):
            conflicts.append(group)
    return Duplicates(_by_first_row(groups), _by_first_row(conflicts))


def find_leaks(keys: IntArray, part: IntArray) -> Leaks:
    """Count the molecules that two parts share.

    Args:
        keys: (n,) equal numbers for equal molecules.
        part: (n,) position in `PARTS`, -1 = in none.
    """
    used = part >= 0
    pairs = np.unique(np.stack([keys[used], part[used]], axis=1), axis=0)  # each molecule once in each part
    molecules, parts_of = np.unique(pairs[:, 0], return_counts=True)
    shared = molecules[parts_of > 1]
    members = [set(pairs[pairs[:, 1] == code, 0].tolist()) & set(shared.tolist()) for code in range(len(PARTS))]
    between = {
        (PARTS[a], PARTS[b]): len(members[a] & members[b])
        for a, b in combinations(range(len(PARTS)), 2)
        if members[a] & members[b]
    }
    return Leaks(len(shared), int(np.isin(keys[used], shared).sum()), between)


def _disagree(y: NDArray[np.float64]) -> bool:
    known = ~np.isnan(y)
    low, high = np.where(known, y, np.inf).min(0), np.where(known, y, -np.inf).max(0)
    return bool((low < high).any())


def _by_first_row(groups: list[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda group: group.rows[0]))
