"""What each column of a table is for, and what already speaks against a training, found by looking at its first rows.

Nothing here needs torch, so that a refusal does not wait for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.cell_values import (
    MOSTLY,
    as_number,
    decimal_mark,
    is_missing,
    looks_like_date,
    normal_label,
    read_measured,
)
from mphil.tables.read import SMILES, Table, open_table

SAMPLE = 2_000
"""Rows that are looked at."""

PARSED = 200
"""Cells of a column that are tried as SMILES."""

ENOUGH = 0.5
"""Share of the cells that must be molecules for a column to hold the molecules."""

PART_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev", "ood_val"), "ood_val"),
    **dict.fromkeys(("test", "testing", "ood_test"), "ood_test"),
    **dict.fromkeys(("id_val", "iid_val"), "id_val"),
    **dict.fromkeys(("id_test", "iid_test"), "id_test"),
}
"""Words in a column of parts, and the part they mean."""

_DOMAIN_WORDS = re.compile(
    r"assay|batch|date|year|month|time|source|domain|env|group|cluster|scaffold|series|site|lab\b|plate|project|species|"
    r"study|target_?id|chembl_?id|protein",
    re.IGNORECASE,
)
_ID_WORDS = re.compile(r"(^|[_\s-])(id|name|cid|code|key|identifier|index|title)s?$|^inchi|^cas", re.IGNORECASE)

Role = Literal["smiles", "target", "part", "domain", "id", "unused"]


@dataclass(frozen=True)
class Roles:
    """Which column is what.

    Attributes:
        smiles: the molecules.
        targets: the labels, one column a task.
        part: a split that a user has already made, or None.
        domains: columns that a split can go by: assay, batch, date.
        id: a name for each row, or None.
        why: every column to its role and the reason for it.
    """

    smiles: str
    targets: tuple[str, ...] = ()
    part: str | None = None
    domains: tuple[str, ...] = ()
    id: str | None = None
    why: Mapping[str, tuple[Role, str]] = field(default_factory=dict)

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that need to be read."""
        given = (self.smiles, *self.targets, self.part, *self.domains, self.id)
        return tuple(dict.fromkeys(name for name in given if name))


def find_roles(
    table: Table,
    *,
    smiles: str | None = None,
    targets: Sequence[str] = (),
    domains: Sequence[str] = (),
    id: str | None = None,
) -> Roles:
    """Give every column a role: as told, and where nothing is told by what the first rows hold.

    Args:
        table: the table.
        smiles: column of the molecules.
        targets: columns of labels.
        domains: columns to split by.
        id: column that names the rows.

    Raises:
        UnknownName: the table has no such column.
        DataError: there are no rows, or no column holds molecules.
    """
    told: dict[str, Role] = {}
    given: dict[Role, Sequence[str]] = {"smiles": [smiles] if smiles else [], "target": targets, "domain": domains}
    for role, names in {**given, "id": [id] if id else []}.items():
        for name in names:
            if name not in table.columns:
                raise UnknownName(f"column of {table.path.name}", name, table.columns)
            if name in told:
                raise UsageError(f"column {name!r} is given as {told[name]} and as {role}; it can be one of them")
            told[name] = role
    sample = next(table.chunks(SAMPLE), None)
    if sample is None:
        raise DataError(f"{table.path}: there is a header and nothing below it")
    whole = [i for i in range(len(sample)) if i not in sample.issues]
    looks = {name: _look([cells[i] for i in whole]) for name, cells in sample.columns.items()}
    why: dict[str, tuple[Role, str]] = {name: (role, "as you said") for name, role in told.items()}
    if not smiles:
        smiles, reason = SMILES, "the structures of the file"
        if table.format not in ("sdf", "smi"):
            smiles, reason = _find_smiles(table, {n: look for n, look in looks.items() if n not in why})
        why[smiles] = ("smiles", reason)
    _find_others(why, looks, find_targets=not targets)
    return Roles(
        smiles=smiles,
        targets=_with_role(why, "target", table.columns),
        part=next(iter(_with_role(why, "part", table.columns)), None),
        domains=_with_role(why, "domain", table.columns),
        id=id or next(iter(_with_role(why, "id", table.columns)), None),
        why={name: why[name] for name in table.columns},
    )


@dataclass(frozen=True)
class _Look:
    """What a column of the sample is like.

    Attributes:
        cells: those that are not missing.
        different: the different labels among them; only the numbers when nearly all are.
        numeric: whether nearly all are numbers.
    """

    cells: list[str]
    different: frozenset[str]
    numeric: bool

    @property
    def whole_numbers(self) -> bool:
        return self.numeric and all(float(text).is_integer() for text in self.different)


def _look(cells: Sequence[str]) -> _Look:
    present = [cell for cell in cells if not is_missing(cell)]
    mark = decimal_mark(present)
    measured = (read_measured(cell, mark) for cell in present)
    labels = Counter(
        normal_label(cell if found is None else repr(found.value))
        for cell, found in zip(present, measured, strict=True)
    )
    numbers = {text: count for text, count in labels.items() if as_number(text) is not None}
    numeric = bool(numbers) and sum(numbers.values()) >= MOSTLY * len(present)
    return _Look(present, frozenset(numbers if numeric else labels), numeric)


def _find_smiles(table: Table, looks: Mapping[str, _Look]) -> tuple[str, str]:
    """The column with the highest share of molecules; a name that says so wins over one that does not."""
    scores = {}
    for name, look in looks.items():
        if look.cells and not look.numeric:
            share, atoms = _molecules(look.cells)
            named = "smiles" in name.lower()
            # A column of grades A, B, C, F is no column of molecules.
            if (named and share > 0) or (share >= ENOUGH and atoms >= 2):
                scores[name] = (named, share, atoms)
    if not scores:
        shown = ", ".join(table.columns[:8]) + (", ..." if len(table.columns) > 8 else "")
        raise DataError(
            f"{table.path}: no column holds molecules (SMILES) in most of its first rows; columns: {shown[:200]}. "
            "Name it with --smiles, or check the delimiter"
        )
    best = max(scores, key=scores.__getitem__)
    return best, f"{100 * scores[best][1]:.0f} % of the cells tried are molecules"


def _molecules(cells: Sequence[str]) -> tuple[float, float]:
    """Share of the cells that are molecules, and their mean number of atoms."""
    from mphil.chem.parse import parse_smiles

    tried = cells[:: max(1, len(cells) // PARSED)][:PARSED]
    atoms = []
    for cell in tried:
        try:
            atoms.append(parse_smiles(cell.strip()).GetNumAtoms())
        except DataError:
            continue
    return len(atoms) / len(tried), sum(atoms) / len(atoms) if atoms else 0.0


def _find_others(why: dict[str, tuple[Role, str]], looks: Mapping[str, _Look], *, find_targets: bool) -> None:
    rows = max((len(look.cells) for look in looks.values()), default=0)
    for name, look in looks.items():
        if name not in why:
            why[name] = _role(name, look, rows)
    if any(role == "target" for role, _ in why.values()):
        if not find_targets:
            told = "you named the targets"
            why |= {
                n: ("unused", told) for n, (role, reason) in why.items() if role == "target" and reason != "as you said"
            }
        return
    classes = [n for n, (role, _) in why.items() if role == "unused" and _few_whole_numbers(looks[n])]
    if find_targets and len(classes) == 1:
        why[classes[0]] = ("target", f"{len(looks[classes[0]].different)} different whole numbers")
        return
    measured = [n for n, (role, _) in why.items() if role == "unused" and _is_measured(n, looks[n])]
    if find_targets and not classes and len(measured) == 1:
        why[measured[0]] = ("target", "the only column of measurements")


def _role(name: str, look: _Look, rows: int) -> tuple[Role, str]:
    """The role of a column by itself."""
    if not look.cells:
        return "unused", "no values in the first rows"
    if {text.lower() for text in look.different} <= PART_NAMES.keys() and "train" in map(str.lower, look.different):
        return "part", "names parts: " + ", ".join(sorted(look.different))
    if look.different <= {"0", "1"}:
        return "target", "yes or no" if len(look.different) == 2 else "yes or no, only one of them in the first rows"
    count, repeated = len(look.different), len(look.different) <= len(look.cells) / 2
    if sum(map(looks_like_date, look.cells)) >= MOSTLY * len(look.cells):
        return "domain", f"dates, {count:,} different"
    if _DOMAIN_WORDS.search(name) and repeated and count > 1:
        return "domain", f"{count:,} different values, and its name"
    if count == len(look.cells) == rows and rows > 1 and (_ID_WORDS.search(name) or not look.numeric):
        return "id", "a different value in every row"
    if repeated and count > 1 and not look.numeric:
        return "domain", f"{count:,} different values, repeated"
    return "unused", f"{count:,} different {'numbers' if look.numeric else 'values'}"


def _few_whole_numbers(look: _Look) -> bool:
    return look.whole_numbers and 2 <= len(look.different) <= min(20, len(look.cells) / 3)


def _is_measured(name: str, look: _Look) -> bool:
    """Whether a column holds measurements: numbers that are neither few nor the names or numbers of the rows."""
    numbered = look.whole_numbers and len(look.different) == len(look.cells)
    return look.numeric and len(look.different) > 2 and not numbered and not _ID_WORDS.search(name)


def _with_role(why: Mapping[str, tuple[Role, str]], wanted: Role, order: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in order if why[name][0] == wanted)


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
