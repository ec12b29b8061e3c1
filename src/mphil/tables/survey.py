"""One walk over a table or over graphs: what each row is, and why some cannot be used."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.chem.parse import CHARGES, FRAGMENTS
from mphil.chem.read_rows import Fact, ReadBatch, join, texts
from mphil.chem.row_issue import OK, RowIssue
from mphil.graphs.store import GraphStore
from mphil.tables.cell_values import Coded, Target
from mphil.tables.delimited import recoding_note
from mphil.tables.from_smiles import spelled_graphs
from mphil.tables.pool import run
from mphil.tables.read import ROWS, Chunk, Table
from mphil.tables.roles import Roles
from mphil.tables.targets import Threshold, Wanted, read_cells

IntArray = NDArray[np.int64]
CELLS, MOST_ROWS = 2_000_000, 32_768
"""Size of a chunk: large enough that starting processes for it pays, small enough for any memory."""


DESCRIBED: tuple[Fact, ...] = ("spelling", "size", "scaffold")
"""What is wanted of every molecule."""

FACTS, TEXT_FACTS = ("fingerprint", "counts", "descriptors"), ("elements", "rings")
"""Arrays and texts with a row for each molecule that a survey keeps when they are wanted."""


class Described(NamedTuple):
    """A molecule in three facts."""

    canonical: str
    size: int
    scaffold: str


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
        bad: the rows that are excluded, in order.
        recoded: bytes that were not UTF-8.
        ids: (n,) what the table calls each row; None without such a column.
        external: (n,) which rows come from an external test set; None without one.
        reading: how molecules were read: keyword arguments of `survey_table`.
        assumed: how cells were understood that could be meant otherwise, in sentences.
        graphs: the n graphs of molecules in their canonical spelling, without labels; None when they were not wanted.
        facts: what else was wanted of the molecules, a row each: `fingerprint`, `counts`, `descriptors`, and `elements`
            and `rings` as texts with blanks between them.
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
    graphs: GraphStore | None = None
    facts: Mapping[str, NDArray[Any]] = field(default_factory=dict)

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
    also: Sequence[Fact] = (),
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Survey:
    """Read a table once, from its first row to its last, and every molecule of it once.

    Args:
        table: the table.
        roles: what its columns are.
        test: an external test set with the same columns of molecules and labels, whose rows are numbered after those of
            the table.
        threshold: makes classes of the targets, which are measurements.
        wanted: whether the targets are classes or measurements; by what they look like when empty.
        standardised: molecules are standardised first.
        also: what is wanted of the molecules besides spelling, size and scaffold.
        workers: processes that read molecules; 0 works in this one, None chooses by the number of rows and cores.
        progress: told the number of rows read so far, after every chunk.
    """
    gathered = _Gathered(roles, threshold, wanted)
    reading = {"wanted": [*DESCRIBED, *also], "definite": True, "standardised": standardised}
    for source in (table, test) if test else (table,):
        gathered.begin(source)
        for chunk in source.chunks(max(ROWS, min(MOST_ROWS, CELLS // len(roles.used))), gathered.columns):
            cells = enumerate(chunk.columns[roles.smiles], chunk.start)
            rows = ["" if row in chunk.issues else cell.strip() for row, cell in cells]
            gathered.add(chunk, run(rows, reading, workers=workers))
            if progress:
                progress(gathered.rows)
    return replace(gathered.finish(run([], reading)), reading={"standardised": standardised})


class _Gathered:
    """Columns that grow with every chunk."""

    def __init__(self, roles: Roles, threshold: Threshold | None, wanted: Wanted) -> None:
        self.roles, self.threshold, self.wanted = roles, threshold, wanted
        self.rows = self.recoded = self.start = 0
        self.columns: tuple[str, ...] = ()
        self.test: Table | None = None
        self.row, self.line = array("q"), array("q")
        self.keys, self.scaffold, self.part, self.ids = Coded(), Coded(), Coded(), Coded()
        self.labels = {name: Coded() for name in roles.targets}
        self.domains = {name: Coded() for name in roles.domains}
        self.bad: list[RowIssue] = []
        self.batches: list[ReadBatch] = []

    def begin(self, table: Table) -> None:
        """The rows that follow are those of this table; the second one is the external test set."""
        needed = (self.roles.smiles, *self.roles.targets)
        self.test = table if self.columns else None
        # A test set needs no dates and assays.
        known = {*table.columns, *needed}
        self.columns = tuple(name for name in self.roles.used if name in known)
        self.start = self.rows

    def add(self, chunk: Chunk, batch: ReadBatch) -> None:
        self.batches.append(batch)
        self.recoded += chunk.recoded
        self.rows += len(chunk)
        good = []
        called = chunk.columns.get(self.roles.id or "")
        refused = {issue.row: issue for issue in batch.issues}
        for i, line in enumerate(chunk.lines):
            row = self.start + chunk.start + i
            if issue := chunk.issues.get(chunk.start + i) or refused.get(i):
                where = f"{self.test.path.name}: " if self.test else ""
                name = "" if called is None else called[i].strip()
                self.bad.append(RowIssue(issue.status, where + issue.message, row, line, name))
            else:
                good.append(i)
                self.row.append(row)
                self.line.append(line)
        for name, labels in self.labels.items():
            labels.extend(chunk.columns[name][i].strip() for i in good)
        for column, values in (*self.domains.items(), (self.roles.part, self.part), (self.roles.id, self.ids)):
            if column:
                cells = chunk.columns.get(column)
                values.extend("" if cells is None else cells[i].strip() for i in good)

    def finish(self, nothing: ReadBatch) -> Survey:
        """What was gathered; `nothing` is the answer to no rows."""
        arrays = join([nothing, *self.batches], [0] * (1 + len(self.batches))).arrays
        self.batches.clear()
        self.keys.extend(texts(arrays, "canonical"))
        self.scaffold.extend(texts(arrays, "scaffold"))
        read = [read_cells(name, labels, self.threshold, self.wanted) for name, labels in self.labels.items()]
        targets = tuple(target for target, _ in read)
        row, line = np.array(self.row, np.int64), np.array(self.line, np.int64)
        strange = {position: target.name for target in reversed(targets) for position in target.strange}
        survey = Survey(
            self.rows,
            row,
            line,
            self.keys,
            arrays["size"],
            self.scaffold,
            targets,
            self.domains,
            self.part if self.roles.part else None,
            tuple(self.bad),
            self.recoded,
            self.ids if self.roles.id else None,
            row >= self.start if self.test else None,
            assumed=(
                *recoding_note(self.recoded),
                *(note for _, notes in read for note in notes),
                *_changes(arrays["changed"]),
            ),
            graphs=spelled_graphs(arrays, "good", np.arange(len(row))) if "x" in arrays else None,
            facts={name: arrays[name] for name in FACTS if name in arrays}
            | {name: np.array(texts(arrays, name), object) for name in TEXT_FACTS if name in arrays},
        )
        if not strange:
            return survey
        cells = {name: list(self.labels[name].texts) for name in strange.values()}
        told = {at: _no_number(name, cells[name][self.labels[name].codes[at]]) for at, name in strange.items()}
        bad = sorted([*self.bad, *survey.issues("label", told)], key=lambda one: one.row)
        return replace(without(survey, np.array(sorted(strange), np.int64)), bad=tuple(bad))


def _no_number(name: str, cell: str) -> str:
    shown = cell if len(cell) <= 40 else f"{cell[:37]}..."
    return f"{shown!r} in column {name!r} is no number; correct it, or leave it empty if nothing was measured"


def _changes(changed: NDArray[np.uint8]) -> list[str]:
    fragments, charges = (int(((changed & bit) > 0).sum()) for bit in (FRAGMENTS, CHARGES))
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
        graphs=None if survey.graphs is None else survey.graphs.select(torch.from_numpy(keep)),
        facts={name: values[keep] for name, values in survey.facts.items()},
    )


def describe(smiles: Sequence[str], workers: int | None = None) -> list[Described | RowIssue]:
    """Canonical SMILES, heavy atoms and scaffold of each row, or why there are none.

    Args:
        smiles: the rows.
        workers: processes that read them; None chooses by the number of rows.
    """
    batch = run([text.strip() for text in smiles], {"wanted": DESCRIBED}, workers=workers)
    refused = {issue.row: issue for issue in batch.issues}
    sizes, scaffolds = batch.arrays["size"].tolist(), texts(batch.arrays, "scaffold")
    found = map(Described, texts(batch.arrays, "canonical"), sizes, scaffolds)
    return [refused[row] if row in refused else next(found) for row in range(len(smiles))]
