"""A table as its owner means it: opened, its columns found, every row read, in one way for `check` and `train`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from mphil.chem.read_rows import Fact
from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.assign import RULES, is_file
from mphil.tables.read import Table, open_table
from mphil.tables.roles import Roles, find_roles
from mphil.tables.survey import Survey, survey_table
from mphil.tables.targets import Threshold, Wanted

TASKS: tuple[Wanted, ...] = get_args(Wanted)


@dataclass(frozen=True)
class TableOptions:
    """What the owner of a table says about it.

    Attributes:
        smiles: column of the molecules, found when empty.
        targets: columns of labels, found when empty.
        test: an external test set, with the same columns of molecules and labels.
        threshold: from which on a measured target is active; None when the targets are classes.
        active_below: active is at or below the threshold, not at or above.
        standardise: molecules are standardised: largest organic fragment, neutral where that is safe.
        id: column that names the rows, found when empty.
        sheet: of a workbook, the first that has molecules when empty; a test set that is a workbook has the same.
        task: `classification` or `regression`, found when empty.
    """

    smiles: str = ""
    targets: Sequence[str] = ()
    test: str = ""
    threshold: float | None = None
    active_below: bool = False
    standardise: bool = True
    id: str = ""
    sheet: str = ""
    task: str = ""


@dataclass(frozen=True, eq=False)
class Intake:
    """A table that was read.

    Attributes:
        table: the table.
        roles: what its columns are.
        survey: what its rows are.
    """

    table: Table
    roles: Roles
    survey: Survey


def read_table(
    path: Path,
    options: TableOptions,
    splits: Sequence[str] = (),
    *,
    also: Sequence[Fact] = (),
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Intake:
    """Read a table from its first row to its last.

    Args:
        path: the table.
        options: what its owner says about it.
        splits: that will be asked for; those that are neither a rule nor a file are columns.
        also: what is wanted of the molecules besides spelling, size and scaffold.
        workers: processes that read molecules; None chooses by the number of rows and cores.
        progress: told the number of rows read so far, now and then.

    Raises:
        UsageError: a file or column that does not exist.
        DataError: the table cannot be read, or no row of it can be used.
    """
    if options.active_below and options.threshold is None:
        raise UsageError("--active-below goes with --threshold")
    if options.task == "regression" and options.threshold is not None:
        raise UsageError("--threshold makes classes, and --task regression learns numbers; give one of them")
    cut = None if options.threshold is None else Threshold(options.threshold, options.active_below)
    table = open_table(path, sheet=options.sheet)
    columns = [name for name in splits if name in table.columns or (name not in RULES and not is_file(name))]
    told: dict[str, Any] = {"smiles": options.smiles or None, "id": options.id or None}
    roles = find_roles(table, targets=options.targets, domains=columns, **told)
    if options.threshold is not None and not options.targets and len(roles.targets) != 1:
        found = f"{len(roles.targets)} columns look like labels" if roles.targets else "no single one is found"
        raise UsageError(f"--threshold needs the measured column, and {found}: name it with --target")
    test = _test_table(Path(options.test), path, roles) if options.test else None
    survey = survey_table(
        table,
        roles,
        test=test,
        threshold=cut,
        wanted=wanted_task(options.task),
        standardised=options.standardise,
        also=also,
        workers=workers,
        progress=progress,
    )
    if not len(survey):
        first = f"; the first: {survey.bad[0].message}" if survey.bad else ""
        raise DataError(f"{path}: none of the {survey.rows:,} rows can be used{first}")
    if survey.external is not None and not survey.external.any():
        raise DataError(f"{options.test}: no row of the external test set can be used")
    return Intake(table, roles, survey)


def wanted_task(name: str) -> Wanted:
    """What is to be learned, by its name; empty when that is to be found."""
    for known in TASKS:
        if name == known:
            return known
    raise UnknownName("task", name, TASKS[1:])


def _test_table(path: Path, of: Path, roles: Roles) -> Table:
    if path.exists() and path.samefile(of):
        raise UsageError(f"--test {path} is the table itself; give other rows")
    table = open_table(path)
    for name in (roles.smiles, *roles.targets):
        if name not in table.columns:
            raise UnknownName(f"column of {path.name}, which must have those of {of.name}:", name, table.columns)
    return table
