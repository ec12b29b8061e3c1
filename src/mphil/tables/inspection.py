"""Look at a user's data before any training: what can be used, what contradicts itself, how it would split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mphil.errors import DataError, MphilError, UnknownName, UsageError
from mphil.graphs.split import PARTS, Part
from mphil.tables.assign import assign, find_domain, in_one_part, sensible_splits
from mphil.tables.duplicates import Duplicates, Leaks, Settled, find_duplicates, find_leaks, settle_duplicates
from mphil.tables.intake import TableOptions, read_table, wanted_task
from mphil.tables.read import Table
from mphil.tables.roles import Roles
from mphil.tables.splitting import Assignment
from mphil.tables.survey import Survey
from mphil.trust.neighbours import hardness, similarity_to_training

TESTS: tuple[Part, ...] = ("id_test", "ood_test")
LISTED = 1_000
"""Rows that a report names one by one; the counts are always of all."""


@dataclass(frozen=True, eq=False)
class SplitPreview:
    """What a split would look like.

    Attributes:
        name: a rule such as `scaffold`, the name of a column, or a table of parts.
        domain: (n,) domain of each usable row; None when the split does not go by domains.
        assignment: the part and environment of each usable row; None when the split is not possible.
        obstacle: why it is not possible.
        leaks: molecules that the rows of the table, before any are merged, put into two parts.
        similarity: test part to the median similarity of its molecules to their nearest training molecule.
    """

    name: str
    domain: Sequence[str] | None
    assignment: Assignment | None
    obstacle: str = ""
    leaks: Leaks | None = None
    similarity: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Report:
    """All findings about a table or a set of graphs.

    Attributes:
        path: where the data are.
        table: the table; None when the data are graphs.
        roles: what its columns are; None likewise.
        survey: what each row is, rows of one molecule merged as in training.
        read: the same before rows were merged.
        duplicates: molecules that occur more than once among the rows as they were read.
        splits: what each split would look like.
    """

    path: Path
    table: Table | None
    roles: Roles | None
    survey: Survey
    read: Survey
    duplicates: Duplicates
    splits: tuple[SplitPreview, ...]

    @property
    def noun(self) -> str:
        return "molecules" if self.table else "graphs"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to read the table, and what its owner should look at, in sentences."""
        notes = list(self.table.notes) if self.table else []
        notes += self.survey.assumed
        if not self.survey.targets:
            notes.append("no column looks like a label: name it with --target")
        for target in self.survey.targets:
            known = len(np.unique(target.y[~np.isnan(target.y)]))
            if target.kind == "text":
                notes.append(f"target {target.name!r} has too many different words to be classes")
            elif known < 2:
                one = "one value" if target.kind == "continuous" else "one class"
                notes.append(f"target {target.name!r} has {one if known else 'no label'}: nothing to learn")
        return tuple(notes)

    def reasons(self) -> dict[str, int]:
        """Code of a reason to the rows that are excluded for it, most frequent first."""
        return dict(Counter(row.status for row in self.survey.bad).most_common())

    def as_dict(self) -> dict[str, Any]:
        """Everything, for machines; rows count from 1 below the header, and lines from 1."""
        survey = self.survey
        return {
            "file": str(self.path),
            "format": self.table.format if self.table else "graphs",
            "rows": survey.rows,
            "usable": len(survey),
            "set_aside": {
                "rows": len(survey.bad),
                "reasons": self.reasons(),
                "first": [asdict(bad) | {"row": bad.number} for bad in survey.bad[:LISTED]],
            },
            "merged": len(survey.merged),
            "columns": {n: {"role": r, "why": w} for n, (r, w) in self.roles.why.items()} if self.roles else {},
            "notes": list(self.notes),
            "duplicates": {
                "molecules": len(self.duplicates.groups),
                "surplus_rows": self.duplicates.rows,
                "groups": self._rows_of([group.rows for group in self.duplicates.groups[:LISTED]]),
            },
            "conflicts": {
                "molecules": len(self.duplicates.conflicts),
                "groups": self._rows_of([group.rows for group in self.duplicates.conflicts[:LISTED]]),
            },
            "targets": {
                target.name: {
                    "kind": target.kind,
                    "classes": target.counts(),
                    "range": target.range,
                    "missing": int(np.isnan(target.y).sum()),
                }
                for target in survey.targets
            },
            "splits": {split.name: summary(split, survey) for split in self.splits},
        }

    def _rows_of(self, groups: Sequence[Sequence[int]]) -> list[list[int]]:
        return [(self.read.row[list(group)] + 1).tolist() for group in groups]


def check(
    path: Path,
    *,
    smiles: str | None = None,
    targets: Sequence[str] = (),
    splits: Sequence[str] = (),
    test: Path | None = None,
    date_format: str = "",
    threshold: float | None = None,
    active_below: bool = False,
    standardise: bool = True,
    duplicates: str = "majority",
    id: str | None = None,
    sheet: str | None = None,
    task: str = "",
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Gather a report.

    Args:
        path: a table of molecules, or a folder of graphs.
        smiles: column of the molecules, found when absent.
        targets: columns of labels, found when absent.
        splits: `scaffold`, `cluster`, `size`, `time`, `random`, `predefined`, names of columns or tables of parts; all
            that make sense when absent.
        test: an external test set.
        date_format: of a column of dates to split by, such as `%d/%m/%Y`; found when empty.
        threshold: from which on a measured target is active.
        active_below: active is at or below the threshold.
        standardise: take the largest organic fragment of a molecule, neutral where that is safe.
        duplicates: what becomes of rows of one molecule that contradict each other: `keep`, `drop` or `majority`.
        id: column that names the rows, found when absent.
        sheet: of a workbook; the first that has molecules when absent.
        task: `classification` or `regression`, found when empty.
        workers: processes that read molecules.
        progress: told the number of rows read so far, now and then.

    Raises:
        UsageError: a file, column or split that does not exist.
        DataError: the file cannot be read, or no row of it can be used.
    """
    path = Path(path)
    table, roles = None, None
    if path.is_dir():
        if smiles or targets or test or id or sheet:
            raise UsageError(f"{path}: graphs have no columns; leave out --smiles, --target, --test, --id and --sheet")
        from mphil.tables.graph_folders import open_graphs, survey_graphs

        survey = survey_graphs(open_graphs(path), wanted_task(task))
        if not len(survey):
            raise DataError(f"{path}: there is no graph in it")
        settled = Settled(survey, np.arange(len(survey)))
    else:
        options = TableOptions(
            smiles or "",
            targets,
            str(test or ""),
            threshold,
            active_below,
            standardise,
            id or "",
            sheet or "",
            task,
        )
        read = read_table(path, options, splits, also=["fingerprint"], workers=workers, progress=progress)
        table, roles, survey = read.table, read.roles, read.survey
        settled = settle_duplicates(survey, duplicates)
        if not len(settled.survey):
            raise DataError(f"{path}: all rows contradict each other; use --duplicates keep or majority")
    found = find_duplicates(survey.keys.array(), survey.y)
    names = splits or sensible_splits(survey)
    bits = settled.survey.facts.get("fingerprint")
    previews = tuple(preview(name, survey, settled, bits, date_format) for name in names)
    return Report(path, table, roles, settled.survey, survey, found, previews)


def preview(
    name: str, read: Survey, settled: Settled, fingerprints: NDArray[np.uint8] | None, date_format: str = ""
) -> SplitPreview:
    """Try a split on the usable rows, as a training would.

    Args:
        name: of the split.
        read: the rows as they were read.
        settled: the rows after those of one molecule were merged.
        fingerprints: (n, bytes) of the latter; None for graphs.
        date_format: of a column of dates; found when empty.

    Raises:
        UnknownName: there is no split and no column of that name.
    """
    values = None
    try:
        whole = find_domain(name, read, date_format)
        leaks = find_leaks(read.keys.array(), assign(name, read, whole).part)
        domain = whole.take(settled.positions) if whole else None
        values = domain.values if domain else None
        assignment = in_one_part(assign(name, settled.survey, domain), settled.survey.keys.array())
        assignment.to_split()
    except UnknownName:
        raise
    except MphilError as error:
        return SplitPreview(name, values, None, str(error))
    similarity: dict[str, float | None] = {}
    if fingerprints is not None:
        rows = {part: np.flatnonzero(assignment.part == PARTS.index(part)) for part in ("train", *TESTS)}
        similarity = {part: similarity_to_training(fingerprints, rows["train"], rows[part]) for part in TESTS}
    return SplitPreview(name, values, assignment, "", leaks, similarity)


def summary(split: SplitPreview, survey: Survey) -> dict[str, Any]:
    """Counts of every part of a split, for machines."""
    if split.assignment is None or split.leaks is None:
        return {"possible": False, "obstacle": split.obstacle}
    part, env = split.assignment.part, split.assignment.env
    parts = {}
    for code, name in enumerate(PARTS):
        rows = np.flatnonzero(part == code)
        parts[name] = {
            "rows": len(rows),
            "domains": None if split.domain is None else len({split.domain[row] for row in rows.tolist()}),
            "labels": {target.name: target.counts(rows) for target in survey.targets},
            "mean_size": float(survey.size[rows].mean()) if len(rows) else None,
        }
    return {
        "possible": True,
        "parts": parts,
        "left_out": int((part < 0).sum()),
        "merged": list(split.assignment.provenance.get("merged", ())),
        "similarity": dict(split.similarity),
        "hardness": hardness(split.similarity),
        "environments": np.bincount(env[env >= 0]).tolist(),
        "domains": None if split.domain is None else len(set(split.domain)),
        "shared_molecules": split.leaks.molecules,
        "shared_between": {f"{a} and {b}": count for (a, b), count in split.leaks.between.items()},
    }
