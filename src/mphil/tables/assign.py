"""From the name of a split to the part of every row that a survey found; too small parts are merged or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mphil.errors import DataError, UnknownName, UsageError
from mphil.graphs.split import PARTS
from mphil.tables.cell_values import MOSTLY, as_number, is_missing, looks_like_date, read_dates
from mphil.tables.roles import PART_NAMES
from mphil.tables.splitting import (
    HELD,
    ID_TEST,
    ID_VAL,
    OOD_TEST,
    OOD_VAL,
    TRAIN,
    Assignment,
    IntArray,
    at_random,
    by_domain,
    by_group,
    order_domains,
    predefined,
    shuffled,
)
from mphil.tables.survey import Survey, without
from mphil.trust.neighbours import most_similar

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


RULES = ("scaffold", "cluster", "size", "time", "random", "predefined")
"""Splits that are no column of a table."""

MOST_COLUMNS = 5
"""Columns that are offered as domains unless they are asked for."""

Order = Literal["none", "ascending", "descending"]


@dataclass(frozen=True)
class Domains:
    """What a split goes by.

    Attributes:
        values: (n,) domain of each usable row; rows of one molecule have the same.
        order: `none` for groups such as scaffolds and assays, of which some are drawn; else the last ones are held out.
    """

    values: list[str]
    order: Order = "none"

    def take(self, rows: IntArray) -> Domains:
        """Those of some of the rows."""
        return replace(self, values=[self.values[row] for row in rows.tolist()])


def is_file(name: str) -> bool:
    """Whether a split is named by a table that gives every molecule its part, such as `parts.csv`."""
    return name not in RULES and Path(name).is_file()


def sensible_splits(survey: Survey) -> list[str]:
    """Names of the splits worth a look: all rules, and the first columns that could be domains."""
    rules = [*(["predefined"] if survey.part else []), *(["scaffold", "cluster"] if survey.scaffold else []), "size"]
    return list(dict.fromkeys([*rules, *list(survey.domains)[:MOST_COLUMNS], "random"]))


def find_domain(name: str, survey: Survey, date_format: str = "") -> Domains | None:
    """What a split goes by; None when it does not go by domains.

    Args:
        name: of the split.
        survey: the rows.
        date_format: of a column of dates, in the notation of `strptime`; found when empty.

    Raises:
        UnknownName: there is no split and no column of that name.
        DataError: dates that cannot be read.
    """
    if name == "scaffold" and survey.scaffold:
        return Domains(survey.scaffold.values())
    if name == "cluster" and survey.scaffold:
        return Domains(_clusters(survey))
    if name == "size":
        return Domains([str(size) for size in survey.size.tolist()], "descending")
    if name == "time" and name not in survey.domains:
        name = _date_column(survey)
    if name in survey.domains:
        return _column_domains(name, survey, date_format)
    if name == "random" or (name == "predefined" and survey.part) or is_file(name):
        return None
    raise UnknownName("split", name, sensible_splits(survey))


def assign(name: str, survey: Survey, domain: Domains | None) -> Assignment:
    """Part and environment of each usable row.

    Rows of an external test set are `ood_test`; the others are then divided without one, and those that hold a molecule
    of the test set are in no part.

    Args:
        name: `scaffold`, `cluster`, `size`, `time`, `random`, `predefined`, the name of a column, or a table of parts.
        survey: the rows.
        domain: what `find_domain` says of them.

    Raises:
        DataError: the rows cannot be split that way, or a part would be too small.
    """
    if survey.external is None:
        return _assign(name, survey, domain)
    outside, keys = survey.external, survey.keys.array()
    shared = ~outside & np.isin(keys, keys[outside])
    rows = np.flatnonzero(~outside & ~shared)
    if not len(rows):
        raise DataError("every molecule of the table is in the external test set: nothing is left to train on")
    own = None if domain is None else domain.take(rows)
    found = _assign(name, without(survey, np.flatnonzero(outside | shared)), own)
    part, env = np.full(len(survey), -1), np.full(len(survey), -1)
    part[rows] = np.where(found.part == OOD_TEST, OOD_VAL, found.part)
    part[outside] = OOD_TEST
    env[rows] = found.env
    facts = {"external_test_rows": int(outside.sum()), "rows_shared_with_test": int(shared.sum())}
    return Assignment(part, env, {**found.provenance, **facts})


def in_one_part(assignment: Assignment, keys: IntArray) -> Assignment:
    """The assignment without molecules in two parts: they stay in the last of them, which is the least like training.

    Args:
        assignment: the part of each row.
        keys: (n,) equal numbers for equal molecules.
    """
    last = np.full(int(keys.max(initial=-1)) + 1, -1)
    np.maximum.at(last, keys, assignment.part)
    torn = (assignment.part >= 0) & (assignment.part < last[keys])
    if not torn.any():
        return assignment
    told = f"{int(torn.sum()):,} rows hold a molecule of a later part too and are in none"
    merged = [*assignment.provenance.get("merged", ()), told]
    part = np.where(torn, -1, assignment.part)
    return replace(assignment, part=part, provenance={**assignment.provenance, "merged": merged})


def _assign(name: str, survey: Survey, domain: Domains | None) -> Assignment:
    keys = survey.keys.values()
    if name == "predefined" and survey.part:
        return _with_validation(predefined(survey.part.values(), PART_NAMES), keys)
    if is_file(name):
        return _with_validation(_from_file(Path(name), survey), keys)
    if domain is None:
        made = at_random(keys)
    elif domain.order == "none":
        made = by_group(domain.values, keys, survey.strata)
    else:
        made = by_domain(domain.values, keys, descending=domain.order == "descending")
    return with_sufficient_parts(made, survey.strata)


def _column_domains(name: str, survey: Survey, date_format: str) -> Domains:
    """The values of a column; a molecule that has several goes with the first of them."""
    values = ["" if is_missing(value) else value for value in survey.domains[name].values()]
    different = {value for value in values if value}
    if date_format or (different and sum(map(looks_like_date, different)) >= MOSTLY * len(different)):
        values, ordered = read_dates(values, name, date_format), True
    else:
        ordered = bool(different) and all(as_number(value) is not None for value in different)
    rank = {value: number for number, value in enumerate(order_domains(values))}
    first: dict[int, str] = {}
    codes = survey.keys.array().tolist()
    for key, value in zip(codes, values, strict=True):
        if key not in first or rank[value] < rank[first[key]]:
            first[key] = value
    return Domains([first[key] for key in codes], "ascending" if ordered else "none")


def _date_column(survey: Survey) -> str:
    dates = [
        name
        for name, column in survey.domains.items()
        if column.texts and sum(map(looks_like_date, column.texts)) >= MOSTLY * len(column.texts)
    ]
    if len(dates) == 1:
        return dates[0]
    seen = f"{len(dates)} columns of dates ({', '.join(dates[:5])})" if dates else "no column of dates"
    raise UsageError(f"--split time: the table has {seen}; name the column with --split COLUMN")


def _clusters(survey: Survey) -> list[str]:
    """The cluster of each row, by the canonical SMILES of its centre."""
    from mphil.chem.similarity import similar_groups

    texts = list(survey.keys.texts)
    _, order = shuffled(texts, 0, "cluster")  # not the order of the file
    molecules = [texts[place] for place in order.tolist()]
    _, first = np.unique(survey.keys.array(), return_index=True)
    centre = similar_groups(survey.facts["fingerprint"][first[order]], most_similar).tolist()
    group = {molecule: molecules[place] for molecule, place in zip(molecules, centre, strict=True)}
    return [group[key] for key in survey.keys.values()]


def _from_file(path: Path, survey: Survey) -> Assignment:
    """The parts that a table gives to molecules; a molecule it does not name is in none."""
    named = _named_parts(path, survey)
    words = [named.get(key, "") for key in survey.keys.values()]
    if not any(words):
        raise DataError(
            f"{path.name} names none of the {len(survey.keys.texts):,} molecules; was it made from another table?"
        )
    made = predefined(words, PART_NAMES)
    return replace(made, provenance={**made.provenance, "rule": "file", "parts_file": path.name})


def _named_parts(path: Path, survey: Survey) -> Mapping[str, str]:
    """Canonical SMILES to the part that a table names for it."""
    from mphil.tables.read import open_table
    from mphil.tables.roles import find_roles
    from mphil.tables.survey import survey_table

    table = open_table(path)
    roles = find_roles(table)
    if roles.part is None:
        raise UsageError(f"{path.name} has no column that names parts (train, id_val, id_test, ood_val, ood_test)")
    read = survey_table(table, replace(roles, targets=(), domains=(), id=None), **survey.reading)
    assert read.part is not None
    named: dict[str, str] = {}
    for key, word in zip(read.keys.values(), read.part.values(), strict=True):
        if named.setdefault(key, word) != word:
            raise DataError(f"{path.name} puts {key[:60]} into {named[key] or 'no part'} and into {word or 'no part'}")
    return named


def _with_validation(made: Assignment, keys: list[str]) -> Assignment:
    """A given split, with a tenth of its training rows as `id_val` when it has no validation part."""
    counts: dict[str, Any] = dict(made.provenance)
    if np.isin(made.part, (ID_VAL, OOD_VAL)).any() or not (made.part == TRAIN).any():
        return made
    rows = np.flatnonzero(made.part == TRAIN)
    chance, walk = shuffled([keys[row] for row in rows.tolist()], 0)
    drawn = set(chance[walk[: max(1, int(HELD * len(rows)))]].tolist())
    part = made.part.copy()
    part[rows[np.isin(chance, list(drawn))]] = ID_VAL
    counts["merged"] = ["the split has no validation part: a tenth of train, drawn at random, is id_val"]
    return replace(made, part=part, provenance=counts)
