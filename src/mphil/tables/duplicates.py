"""One row for every molecule: duplicates that agree are merged, those that contradict each other are dealt with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mphil.errors import UnknownName
from mphil.tables.audit import Group, find_duplicates
from mphil.tables.survey import BadRow, IntArray, MergedRow, Survey, without

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
    names = [""] * len(survey) if survey.ids is None else survey.ids.values()
    gone: dict[int, BadRow] = {}
    merged: dict[int, int] = {}
    for group in found.groups:
        first, *others = group.rows
        if first in contradicting:
            if rule == "keep":
                continue
            y[first] = _merged(y[list(group.rows)], measured)
            if rule == "drop" or np.isnan(y[first]).all():
                gone |= _contradiction(survey, names, group, rule)
                continue
        else:
            y[first] = _known(y[list(group.rows)])
        merged |= dict.fromkeys(others, first)
    removed = np.array(sorted({*gone, *merged}), np.int64)
    targets = tuple(replace(target, y=y[:, task]) for task, target in enumerate(survey.targets))
    how = "median" if measured.any() and rule == "majority" else rule
    number, line = survey.row.tolist(), survey.line.tolist()
    left = replace(
        without(replace(survey, targets=targets), removed),
        bad=tuple(sorted([*survey.bad, *gone.values()], key=lambda bad: bad.row)),
        merged=tuple(MergedRow(number[row], line[row], names[row], number[merged[row]]) for row in sorted(merged)),
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


def _contradiction(survey: Survey, names: Sequence[str], group: Group, rule: str) -> dict[int, BadRow]:
    lines = ", ".join(str(survey.line[row]) for row in group.rows[:5])
    why = "dropped" if rule == "drop" else "no label has a majority"
    message = f"rows of one molecule (lines {lines}) contradict each other: {why}"
    return {
        row: BadRow(int(survey.row[row]), int(survey.line[row]), "contradiction", message, names[row])
        for row in group.rows
    }


def _notes(merged: int, conflicts: int, gone: int, rule: str) -> list[str]:
    notes = [f"{merged:,} rows merged into another row of the same molecule"] if merged else []
    if conflicts:
        dealt = {
            "keep": "all their rows are kept",
            "drop": f"their {gone:,} rows are dropped",
            "median": "the median of their measurements is taken",
            "majority": f"the majority decides, and {gone:,} rows without one are dropped",
        }[rule]
        notes.append(f"{conflicts:,} molecules have labels that contradict each other: {dealt} (--duplicates)")
    return notes
