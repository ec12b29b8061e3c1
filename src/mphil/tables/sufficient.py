"""Parts that are too small to choose an epoch or to be scored: merged with their neighbour, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.errors import DataError
from mphil.graphs.split import PARTS
from mphil.tables.splitting import ID_TEST, ID_VAL, OOD_TEST, OOD_VAL, TRAIN, Assignment

Labels = NDArray[np.floating[Any]]

LARGE = 200
"""Rows of a table from which on a part needs two rows of a second class, not one."""


def least_rows(rows: int) -> int:
    """Rows that a held-out part needs: a fiftieth of the table, at least 5, and 50 are always enough.

    Example:
        >>> [least_rows(rows) for rows in (60, 1_480, 7_800)]
        [5, 29, 50]
    """
    return min(50, max(5, rows // 50))


def shortage(part: NDArray[np.bool_], y: Labels) -> str:
    """Why a part cannot choose an epoch or be scored; empty when it can.

    Args:
        part: (n,) which rows are in it.
        y: (n, tasks) labels of all rows, NaN = missing.
    """
    least, rows = least_rows(len(part)), int(part.sum())
    if rows < least:
        return f"{rows:,} rows where {least} are needed"
    of_class = 1 if len(part) < LARGE else 2
    known = [column for column in y.T if len(np.unique(column[~np.isnan(column)])) > 1]
    if known and not any(_second_class(column[part]) >= of_class for column in known):
        return f"{rows:,} rows with fewer than {of_class} of a second class"
    return ""


def with_sufficient_parts(assignment: Assignment, y: Labels) -> Assignment:
    """The assignment with parts that are too small added to others; what was done is in the provenance, as `merged`.

    A small `ood_val` or `ood_test` makes the two one test part, and the epoch is chosen on `id_val`. A small `id_val`
    or `id_test` makes these two one validation part; if that is still too small, its rows are for training.

    Args:
        assignment: the part of each row.
        y: (n, tasks) labels, NaN = missing.

    Raises:
        DataError: the shifted parts are too small even together, or no part is left to choose an epoch on.
    """
    part, merged = assignment.part.copy(), []
    for small, large in ((OOD_VAL, OOD_TEST), (ID_TEST, ID_VAL)):
        reasons = {code: shortage(part == code, y) for code in (small, large)}
        if not any(reasons.values()):
            continue
        first = next(code for code, reason in reasons.items() if reason)
        part[part == small] = large
        left = shortage(part == large, y)
        what = f"{PARTS[small]} was added to {PARTS[large]}, because {PARTS[first]} has {reasons[first]}"
        if left and large == OOD_TEST:
            raise DataError(f"ood_val and ood_test together have {left}: split by something else, or give more rows")
        if left:
            if not (part == OOD_VAL).any():
                raise DataError(f"no part is large enough to choose an epoch on: id_val has {left}; give more rows")
            part[part == ID_VAL] = TRAIN
            what = f"id_val and id_test were added to train, because together they have {left}"
        merged.append(what)
    if not merged:
        return assignment
    return replace(assignment, part=part, provenance={**assignment.provenance, "merged": merged})


def _second_class(labels: Labels) -> int:
    """Rows of the second most frequent class."""
    counts = np.sort(np.unique(labels[~np.isnan(labels)], return_counts=True)[1])
    return int(counts[-2]) if len(counts) > 1 else 0
