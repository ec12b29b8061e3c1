"""A user's table piece by piece, with its columns as they are, and free names for columns that are added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from mphil.chem.row_issue import RowIssue
from mphil.errors import UnknownName
from mphil.tables.binary_files import column_texts, parquet_file
from mphil.tables.delimited import open_bytes
from mphil.tables.read import Table, open_table, unique_names
from mphil.tables.roles import find_roles

PREFIX = "mphil_"


def free_names(wanted: Sequence[str], taken: Sequence[str]) -> tuple[list[str], str]:
    """The wanted names, those that the table already uses changed; and what was changed, in a sentence.

    Example:
        >>> free_names(["prediction", "status"], ["smiles", "status"])
        (['prediction', 'mphil_status'], "the table has columns of these names, ours are called: 'mphil_status'")
    """
    used = {name.strip() for name in taken}
    names, changed = [], []
    for name in wanted:
        numbered = (f"{PREFIX}{name}_{number}" for number in count(2))
        free = next(choice for choice in chain((name, f"{PREFIX}{name}"), numbered) if choice not in used)
        if free != name:
            changed.append(repr(free[:60]))
        used.add(free)
        names.append(free)
    note = f"the table has columns of these names, ours are called: {', '.join(changed)}" if changed else ""
    return names, note


ROWS = 2_048
"""Rows of a piece."""

CELLS = 1_000_000
"""Cells of a piece, for tables with very many columns."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows, one after the other.

    Attributes:
        columns: the n cells of each column: text, or an Arrow array where the file is parquet.
        smiles: (n,) the molecules as they stand.
        issues: place in the piece to what is wrong with the row.
        recoded: bytes that were not UTF-8.
    """

    columns: Sequence[Any]
    smiles: Sequence[str]
    issues: Mapping[int, RowIssue]
    recoded: int = 0

    def __len__(self) -> int:
        return len(self.smiles)


@dataclass(frozen=True)
class TableSource:
    """A table whose molecules are to be predicted.

    Attributes:
        table: the table.
        column: of the molecules.
        names: of the columns, as they stand in the file.
        fields: the Arrow field of each column where the file is parquet; None where all is text.
    """

    table: Table
    column: str
    names: tuple[str, ...]
    fields: tuple[Any, ...] | None

    @property
    def notes(self) -> list[str]:
        """What was done to read the table; columns keep their names, so new ones for equal columns do not matter."""
        _, renamed = unique_names(self.names)
        return [note for note in self.table.notes if note not in renamed]

    def pieces(self) -> Iterator[Piece]:
        """All rows in order; memory does not grow with the length of the file."""
        rows = max(1, min(ROWS, CELLS // len(self.names)))
        return self._arrow_pieces(rows) if self.table.format == "parquet" else self._text_pieces(rows)

    def _text_pieces(self, rows: int) -> Iterator[Piece]:
        for chunk in self.table.chunks(rows, keep=True):
            issues = {row - chunk.start: issue for row, issue in chunk.issues.items()}
            columns = [chunk.columns[name] for name in self.table.columns]
            yield Piece(columns, chunk.columns[self.column], issues, chunk.recoded)

    def _arrow_pieces(self, rows: int) -> Iterator[Piece]:
        place = self.table.columns.index(self.column)
        with parquet_file(self.table.path) as file:
            for batch in file.iter_batches(batch_size=rows):
                yield Piece(batch.columns, column_texts(batch.columns[place]), {})

    def count(self) -> int:
        """About how many rows there are, without reading them."""
        if self.table.format == "parquet":
            with parquet_file(self.table.path) as file:
                return int(file.metadata.num_rows)
        if self.table.format == "xlsx":
            return sum(len(chunk) for chunk in self.table.chunks(columns=[self.column]))
        mark = b"$$$$" if self.table.format == "sdf" else b"\n"
        with open_bytes(self.table.path) as content:
            marks = sum(block.count(mark) for block in iter(lambda: content.read(1 << 20), b""))
        return max(0, marks - int(self.table.header))


def open_source(path: Path, *, column: str | None = None, usual: str = "", sheet: str = "") -> TableSource:
    """Open a table and find its molecules.

    Args:
        path: the file.
        column: of the molecules, as the user says.
        usual: the column that the model was trained on, taken when the table has it and the user says nothing.
        sheet: of a workbook; the first that has molecules when empty.

    Raises:
        UsageError: there is no such file or column.
        DataError: it cannot be read, or no column holds molecules.
    """
    table = open_table(path, sheet=sheet)
    if column and column not in table.columns:
        raise UnknownName(f"column of {path.name}", column, table.columns)
    chosen = column or (usual if usual in table.columns else find_roles(table).smiles)
    fields = None
    if table.format == "parquet":
        with parquet_file(path) as file:
            fields = tuple(file.schema_arrow)
    as_written = table.format in ("delimited", "parquet", "xlsx") and len(table.fields) == len(table.columns)
    return TableSource(table, chosen, table.fields if as_written else table.columns, fields)
