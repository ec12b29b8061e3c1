"""What the head of a table already says against a training, seen in a moment: torch is not needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mphil.errors import DataError
from mphil.tables.cells import is_missing, normal_label
from mphil.tables.read import open_table
from mphil.tables.roles import SAMPLE, find_roles

LEAST_ROWS = 50
"""Rows below which parts would be too small to mean anything."""


def first_look(
    path: Path,
    *,
    smiles: str | None = None,
    targets: Sequence[str] = (),
    id: str | None = None,
    sheet: str | None = None,
    measured: bool = False,
    whole: bool = True,
) -> None:
    """Refuse a table that has no such column, or so few rows that all are seen at once and cannot be enough.

    Args:
        path: the table.
        smiles: column of the molecules, found when absent.
        targets: columns of labels, found when absent.
        id: column that names the rows, found when absent.
        sheet: of a workbook.
        measured: a threshold will make classes of the labels.
        whole: there are no other rows, such as those of an external test set.

    Raises:
        UnknownName: a column that does not exist.
        DataError: the table cannot be read, there are too few rows, or all labels are alike.
    """
    table = open_table(path, sheet=sheet or "")
    roles = find_roles(table, smiles=smiles, targets=targets, id=id)
    chunks = table.chunks(SAMPLE, columns=roles.targets or [roles.smiles])
    chunk = next(chunks, None)
    if not whole or chunk is None or next(chunks, None) is not None:  # a chunk of long rows has fewer of them
        return
    if len(chunk) < LEAST_ROWS:
        raise too_few(path, f"{len(chunk):,} rows")
    if len(roles.targets) == 1 and not measured:
        cells = Counter(cell.strip() for cell in chunk.columns[roles.targets[0]] if not is_missing(cell))
        if len({normal_label(cell) for cell in cells}) == 1:
            raise all_alike(path, roles.targets[0], cells.most_common(1)[0][0], cells.total())


def too_few(path: Path | str, seen: str) -> DataError:
    """The complaint about a small table."""
    return DataError(
        f"{path}: {seen}, and {LEAST_ROWS} are needed to train, to choose an epoch and to test; give more rows"
    )


def all_alike(path: Path | str, name: str, label: str, count: int) -> DataError:
    """The complaint about labels of one class."""
    return DataError(
        f"{path}: all {count:,} labels of {name!r} are {label}: nothing can be learned from them; give rows of another "
        "class, or name another column with --target"
    )
