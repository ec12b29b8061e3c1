"""Does the same molecule stand twice? Duplicates and contradictions found and settled, leaks between parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mphil.errors import UnknownName
from mphil.graphs.split import PARTS, Part
from mphil.tables.survey import Survey, without

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


Rule = Literal["keep", "drop", "majority"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, eq=False)
class Settled:
    """Rows after their duplicates were dealt with.

    Attributes:
        survey: what is left of the rows; a merged row has every label that one of its rows had.
        positions: (n,) their places among the rows that there were.
    """

    survey: Survey
    positions: IntArray


def settle_duplicates(survey: Survey, rule: str) -> Settled:
    """Merge the rows of a molecule into the first of them.

    Rows that contradict each other about a label are all kept, all dropped, or merged with the label that most of them
    have; without a majority there is no label, and no row when that was the only one. Of measurements that differ, the
    median takes the place of the majority.

    Args:
        survey: the rows.
        rule: `keep`, `drop` or `majority`, for contradicting rows.

    Raises:
        UnknownName: another rule.
    """
    if rule not in RULES:
        raise UnknownName("rule for contradicting duplicates", rule, RULES)
    keys = survey.keys.array()
    if survey.external is not None:
        keys = 2 * keys + survey.external  # rows of a test set are merged with each other only
    found, y = find_duplicates(keys, survey.y), survey.y
    measured = np.array([target.kind == "continuous" for target in survey.targets], bool)
    contradicting = {group.rows[0] for group in found.conflicts}
    gone: dict[int, str] = {}
    merged: dict[int, int] = {}
    for group in found.groups:
        first, *others = group.rows
        if first in contradicting:
            if rule == "keep":
                continue
            y[first] = _merged(y[list(group.rows)], measured)
            if rule == "drop" or np.isnan(y[first]).all():
                gone |= _contradiction(survey, group, rule)
                continue
        else:
            y[first] = _known(y[list(group.rows)])
        merged |= dict.fromkeys(others, first)
    removed = np.array(sorted({*gone, *merged}), np.int64)
    targets = tuple(replace(target, y=y[:, task]) for task, target in enumerate(survey.targets))
    how = "median" if measured.any() and rule == "majority" else rule
    merged = dict(sorted(merged.items()))
    told = {row: f"same molecule as line {survey.line[into]}" for row, into in merged.items()}
    left = replace(
        without(replace(survey, targets=targets), removed),
        bad=tuple(sorted([*survey.bad, *survey.issues("contradiction", gone)], key=lambda one: one.row)),
        merged=dict(zip(survey.issues("merged", told), survey.row[list(merged.values())].tolist(), strict=True)),
        assumed=(*survey.assumed, *_notes(len(merged), len(found.conflicts), len(gone), how)),
    )
    return Settled(left, np.setdiff1d(np.arange(len(survey)), removed))


def _known(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(tasks,) the label of rows that agree: of those that have one."""
    present = ~np.isnan(y)
    return np.where(present.any(0), np.where(present, y, -np.inf).max(0), np.nan)


def _merged(y: NDArray[np.float64], measured: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(tasks,) the median of measurements, and the label that more rows have than any other."""
    labels = _majority(y)
    for task in np.flatnonzero(measured & ~np.isnan(y).all(0)):
        labels[task] = np.nanmedian(y[:, task])
    return labels


def _majority(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(tasks,) the label that more rows have than any other, NaN without one."""
    labels = np.full(y.shape[1], np.nan)
    for task, column in enumerate(y.T):
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        if len(values) and (counts == counts.max()).sum() == 1:
            labels[task] = values[counts.argmax()]
    return labels


def _contradiction(survey: Survey, group: Group, rule: str) -> dict[int, str]:
    lines = ", ".join(str(survey.line[row]) for row in group.rows[:5])
    why = "dropped" if rule == "drop" else "no label has a majority"
    return dict.fromkeys(group.rows, f"rows of one molecule (lines {lines}) contradict each other: {why}")


def _notes(merged: int, conflicts: int, gone: int, rule: str) -> list[str]:
    rows = "row" if merged == 1 else "rows"
    notes = [f"{merged:,} {rows} merged into another row of the same molecule"] if merged else []
    if conflicts:
        rest = f", and {gone:,} rows without one are dropped" if gone else ""
        dealt = {
            "keep": "all their rows are kept",
            "drop": f"their {gone:,} rows are dropped",
            "median": "the median of their measurements is taken",
            "majority": f"the majority decides{rest}",
        }[rule]
        have = "molecule has" if conflicts == 1 else "molecules have"
        notes.append(f"{conflicts:,} {have} labels that contradict each other: {dealt} (--duplicates)")
    return notes
