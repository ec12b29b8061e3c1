"""One walk over a table or over graphs: what each row is, and why some cannot be used."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mphil.chem.row_issue import OK, RowIssue
from mphil.chem.standardise import CHARGES, FRAGMENTS
from mphil.tables.labels import Coded, Target
from mphil.tables.pool import run
from mphil.tables.read import ROWS, Chunk, Table
from mphil.tables.roles import Roles
from mphil.tables.targets import Threshold, Wanted, read_cells

IntArray = NDArray[np.int64]
CELLS, MOST_ROWS = 2_000_000, 32_768
"""Size of a chunk: large enough that starting processes for it pays, small enough for any memory."""


class Described(NamedTuple):
    """A molecule in three facts, and what standardisation changed about it, as bits."""

    canonical: str
    size: int
    scaffold: str
    changed: int = 0


@dataclass(frozen=True, eq=False)
class Survey:
    """All that is needed to judge and split the rows, without the graphs; n counts the rows that can be used.

    Attributes:
        rows: rows that came in.
        row: (n,) number of each usable row.
        line: (n,) line of the file it begins on.
        keys: (n,) what the row holds: canonical SMILES for molecules.
        size: (n,) atoms or nodes.
        scaffold: (n,) ring skeleton; None when the rows are no molecules.
        targets: the labels.
        domains: column to its (n,) values.
        part: (n,) part that a column of the table gives; None without such a column.
        bad: the rows that were set aside, in order.
        recoded: bytes that were not UTF-8.
        ids: (n,) what the table calls each row; None without such a column.
        external: (n,) which rows come from an external test set; None without one.
        reading: how molecules were read: keyword arguments of `survey_table`.
        assumed: how cells were understood that could be meant otherwise, in sentences.
        merged: rows that were merged, and the number of the row of the same molecule that each went into.
    """

    rows: int
    row: IntArray
    line: IntArray
    keys: Coded
    size: IntArray
    scaffold: Coded | None
    targets: tuple[Target, ...]
    domains: dict[str, Coded] = field(default_factory=dict)
    part: Coded | None = None
    bad: tuple[RowIssue, ...] = ()
    recoded: int = 0
    ids: Coded | None = None
    external: NDArray[np.bool_] | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    merged: Mapping[RowIssue, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def y(self) -> NDArray[np.float64]:
        """(n, n_targets) labels, NaN = missing."""
        columns = [target.y for target in self.targets]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    @property
    def strata(self) -> NDArray[np.float64]:
        """(n, n_targets) what a split balances: classes, and of measurements whether they are above the median."""
        columns = [above_median(target.y) if target.kind == "continuous" else target.y for target in self.targets]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    @property
    def names(self) -> list[str]:
        """(n,) what the table calls each usable row; empty texts without such a column."""
        return [""] * len(self) if self.ids is None else self.ids.values()

    def issues(self, status: str, messages: Mapping[int, str]) -> list[RowIssue]:
        """Something to say of some of the usable rows, by their positions."""
        row, line, names = self.row, self.line, self.names
        return [RowIssue(status, told, int(row[at]), int(line[at]), names[at]) for at, told in messages.items()]

    def statuses(self) -> list[RowIssue]:
        """What became of every row that came in, in order."""
        usable = self.issues(OK, dict.fromkeys(range(len(self)), ""))
        return sorted([*usable, *self.bad, *self.merged], key=lambda one: one.row)


def above_median(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) 1 for measurements above the median, 0 for the others, NaN = missing."""
    known = ~np.isnan(y)
    middle = float(np.median(y[known])) if known.any() else 0.0
    return np.where(known, (y > middle).astype(np.float64), np.nan)


def survey_table(
    table: Table,
    roles: Roles,
    *,
    test: Table | None = None,
    threshold: Threshold | None = None,
    wanted: Wanted = "",
    standardised: bool = False,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Survey:
    """Read a table once, from its first row to its last.

    Args:
        table: the table.
        roles: what its columns are.
        test: an external test set with the same columns of molecules and labels, whose rows are numbered after those of
            the table.
        threshold: makes classes of the targets, which are measurements.
        wanted: whether the targets are classes or measurements; by what they look like when empty.
        standardised: molecules are standardised first.
        workers: processes that read molecules; 0 works in this one, None chooses by the number of rows and cores.
        progress: told the number of rows read so far, after every chunk.
    """
    gathered = _Gathered(roles, threshold, wanted)
    for source in (table, test) if test else (table,):
        gathered.begin(source)
        for chunk in source.chunks(max(ROWS, min(MOST_ROWS, CELLS // len(roles.used))), gathered.columns):
            gathered.add(
                chunk, describe(chunk.columns[roles.smiles], workers, standardised=standardised, definite=True)
            )
            if progress:
                progress(gathered.rows)
    return replace(gathered.finish(), reading={"standardised": standardised})


class _Gathered:
    """Columns that grow with every chunk."""

    def __init__(self, roles: Roles, threshold: Threshold | None, wanted: Wanted) -> None:
        self.roles, self.threshold, self.wanted = roles, threshold, wanted
        self.rows = self.recoded = self.start = 0
        self.columns: tuple[str, ...] = ()
        self.test: Table | None = None
        self.row, self.line, self.size = array("q"), array("q"), array("q")
        self.keys, self.scaffold, self.part, self.ids = Coded(), Coded(), Coded(), Coded()
        self.labels = {name: Coded() for name in roles.targets}
        self.domains = {name: Coded() for name in roles.domains}
        self.bad: list[RowIssue] = []
        self.changed = {FRAGMENTS: 0, CHARGES: 0}

    def begin(self, table: Table) -> None:
        """The rows that follow are those of this table; the second one is the external test set."""
        needed = (self.roles.smiles, *self.roles.targets)
        self.test = table if self.columns else None
        # A test set needs no dates and assays.
        known = {*table.columns, *needed}
        self.columns = tuple(name for name in self.roles.used if name in known)
        self.start = self.rows

    def add(self, chunk: Chunk, described: Sequence[Described | RowIssue]) -> None:
        self.recoded += chunk.recoded
        self.rows += len(chunk)
        good = []
        called = chunk.columns.get(self.roles.id or "")
        for i, (line, found) in enumerate(zip(chunk.lines, described, strict=True)):
            row = self.start + chunk.start + i
            issue = chunk.issues.get(chunk.start + i) or (found if isinstance(found, RowIssue) else None)
            if issue:
                where = f"{self.test.path.name}: " if self.test else ""
                name = "" if called is None else called[i].strip()
                self.bad.append(RowIssue(issue.status, where + issue.message, row, line, name))
            elif isinstance(found, Described):
                good.append(i)
                self.row.append(row)
                self.line.append(line)
                self.size.append(found.size)
                self.keys.add(found.canonical)
                self.scaffold.add(found.scaffold)
                for bit in self.changed:
                    self.changed[bit] += bool(found.changed & bit)
        for name, labels in self.labels.items():
            labels.extend(chunk.columns[name][i].strip() for i in good)
        for column, values in (*self.domains.items(), (self.roles.part, self.part), (self.roles.id, self.ids)):
            if column:
                cells = chunk.columns.get(column)
                values.extend("" if cells is None else cells[i].strip() for i in good)

    def finish(self) -> Survey:
        read = [read_cells(name, labels, self.threshold, self.wanted) for name, labels in self.labels.items()]
        targets = tuple(target for target, _ in read)
        row, line = np.array(self.row, np.int64), np.array(self.line, np.int64)
        strange = {position: target.name for target in reversed(targets) for position in target.strange}
        survey = Survey(
            self.rows,
            row,
            line,
            self.keys,
            np.array(self.size, np.int64),
            self.scaffold,
            targets,
            self.domains,
            self.part if self.roles.part else None,
            tuple(self.bad),
            self.recoded,
            self.ids if self.roles.id else None,
            row >= self.start if self.test else None,
            assumed=(*(note for _, notes in read for note in notes), *self._changes()),
        )
        if not strange:
            return survey
        told = {at: f"its {name!r} is text in a column of numbers" for at, name in strange.items()}
        bad = sorted([*self.bad, *survey.issues("label", told)], key=lambda one: one.row)
        return replace(without(survey, np.array(sorted(strange), np.int64)), bad=tuple(bad))

    def _changes(self) -> list[str]:
        fragments, charges = self.changed[FRAGMENTS], self.changed[CHARGES]
        if not fragments and not charges:
            return []
        told = f"{fragments:,} rows reduced to the largest organic fragment, {charges:,} neutralised"
        return [f"molecules were standardised: {told} (--no-standardise leaves them as they are)"]


def without(survey: Survey, positions: IntArray) -> Survey:
    """The survey without some of its usable rows."""
    keep = np.setdiff1d(np.arange(len(survey)), positions)

    def kept(column: Coded) -> Coded:
        chosen = Coded()
        values = column.values()
        chosen.extend(values[i] for i in keep.tolist())
        return chosen

    return replace(
        survey,
        row=survey.row[keep],
        line=survey.line[keep],
        keys=kept(survey.keys),
        size=survey.size[keep],
        scaffold=None if survey.scaffold is None else kept(survey.scaffold),
        targets=tuple(replace(target, y=target.y[keep], strange=()) for target in survey.targets),
        domains={name: kept(column) for name, column in survey.domains.items()},
        part=None if survey.part is None else kept(survey.part),
        ids=None if survey.ids is None else kept(survey.ids),
        external=None if survey.external is None else survey.external[keep],
    )


def describe(
    smiles: Sequence[str], workers: int | None = None, *, standardised: bool = False, definite: bool = False
) -> list[Described | RowIssue]:
    """Canonical SMILES, heavy atoms and scaffold of each row, standardised or as it is, or why there are none.

    Args:
        smiles: the rows.
        workers: processes that read them; None chooses by the number of rows.
        standardised: as `mphil train --standardise` does.
        definite: refuse wildcards and dative bonds, as a prediction does.
    """
    options = {"lenient": False, "standardised": standardised, "definite": definite}
    batch = run("facts", [text.strip() for text in smiles], options, workers=workers)
    refused = {issue.row: issue for issue in batch.issues}
    canonical, scaffold = (
        _texts(batch.arrays[name], batch.arrays[f"{name}_length"]) for name in ("canonical", "scaffold")
    )
    found = map(Described, canonical, batch.arrays["size"].tolist(), scaffold, batch.arrays["changed"].tolist())
    return [refused[row] if row in refused else next(found) for row in range(len(smiles))]


def _texts(codes: NDArray[np.uint8], length: IntArray) -> Iterator[str]:
    text, ends = codes.tobytes().decode("ascii"), np.cumsum(length).tolist()
    return (text[start:end] for start, end in zip([0, *ends], ends, strict=False))
