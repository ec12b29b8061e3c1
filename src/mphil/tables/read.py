"""Anybody's table, in chunks: CSV, TSV, XLSX, parquet, SDF and .smi, plain or gzip, whatever its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Literal

from mphil.chem.row_issue import RowIssue
from mphil.errors import DataError, UnknownName, UsageError
from mphil.tables.binary_files import column_texts, is_workbook, parquet_file
from mphil.tables.cell_values import is_molecule
from mphil.tables.delimited import (
    Lines,
    Record,
    csv_records,
    find_delimiter,
    open_lines,
    read_head,
    text_encoding,
)

ROWS = 4096
CHARACTERS = 16_000_000
"""Rows of a chunk, and characters after which it has no more."""

MOST_COLUMNS = 20_000
SMILES = "smiles"
NAME = "name"
"""Columns that a file of structures has whether it says so or not."""

Format = Literal["delimited", "parquet", "sdf", "smi", "xlsx"]


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table, one after the other.

    Attributes:
        start: number of the first row, from 0.
        columns: name to its (n_rows,) cells as text; an empty text is a missing value.
        lines: (n_rows,) the line of the file each row begins on, from 1; the record's number where there are no lines.
        issues: row number to what is wrong, for rows that cannot be read as they stand; their cells are empty,
            unless they were asked for.
        recoded: bytes that were not UTF-8 and were read as Windows-1252.
    """

    start: int
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int]
    issues: Mapping[int, RowIssue]
    recoded: int = 0

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class Table:
    """A table on disk; nothing but its head has been read.

    Attributes:
        path: the file.
        format: how it is written.
        columns: names, all different and none empty.
        notes: what was done to read it that its owner may want to know.
        encoding: of text.
        delimiter: of a delimited table.
        header: whether the first row names the columns.
        fields: names as they stand in the file, if it has any.
        sheet: of a workbook.
    """

    path: Path
    format: Format
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()
    encoding: str = "utf-8"
    delimiter: str = ","
    header: bool = True
    fields: tuple[str, ...] = ()
    sheet: str = ""

    def chunks(self, rows: int = ROWS, columns: Sequence[str] | None = None, *, keep: bool = False) -> Iterator[Chunk]:
        """All rows in order, a few thousand at a time; memory does not grow with the length of the file.

        Args:
            rows: most rows of a chunk.
            columns: the only ones to give, all when absent.
            keep: give the cells of rows that cannot be read too, filled up or cut to the number of columns.

        Raises:
            UnknownName: the table has no such column.
            DataError: the file is damaged beyond a single row.
        """
        wanted = self.columns if columns is None else tuple(dict.fromkeys(columns))
        known = set(self.columns)
        for name in wanted:
            if name not in known:
                raise UnknownName(f"column of {self.path.name}", name, self.columns)
        if self.format == "parquet":
            return _parquet_chunks(self, rows, wanted)
        if self.format == "xlsx":
            return _xlsx_chunks(self, rows, wanted, keep)
        return _record_chunks(self, rows, wanted, keep)


def open_table(path: Path, *, sheet: str = "") -> Table:
    r"""Find out what a file is and which columns it has, by its contents first and its name second.

    Args:
        path: the file.
        sheet: of a workbook; the first that has molecules when empty.

    Raises:
        UsageError: there is no such file, or a sheet is named and it is no workbook.
        UnknownName: the workbook has no such sheet.
        DataError: it is empty, binary or of a kind we do not read.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "assay.csv"
        >>> _ = file.write_text("smiles;active\nCCO;1\nCCN;0\n")
        >>> [chunk.columns["active"] for chunk in open_table(file).chunks()]
        [('1', '0')]
    """
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{path}: a folder, not a table; graphs in a folder are read by mphil.tables.graph_folders")
    head = read_head(path)
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise DataError(f"{path}: the file is empty")
    if head.startswith(b"PAR1"):
        return _open_parquet(_without_sheet(path, sheet))
    suffix = _suffix(path)
    if head.startswith(b"PK\x03\x04") and (suffix in (".xlsx", ".xlsm") or is_workbook(path)):
        return _open_xlsx(path, sheet)
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{path}: an old spreadsheet or a zip archive; save the table as .xlsx or CSV")
    encoding = text_encoding(head, _without_sheet(path, sheet))
    if suffix in (".sdf", ".sd") or b"\n$$$$" in head or b"\nM  END" in head:
        return _open_sdf(path, encoding)
    if suffix in (".smi", ".smiles", ".ism"):
        return Table(path, "smi", (SMILES, NAME), encoding=encoding, header=False)
    return _open_delimited(path, encoding, head, suffix)


def unique_names(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Column names without blanks around them, none empty and none twice; and what had to be changed, in words.

    Example:
        >>> unique_names(["y", "", "y"])
        (('y', 'column 2', 'y (2)'), ("column 2 has no name, called 'column 2'", "column 3: 'y' again, called 'y (2)'"))
    """
    cleaned = [" ".join(name.split()) for name in names]
    taken, seen, unique, notes = set(cleaned), set[str](), [], []
    numbers: dict[str, Iterator[int]] = {}
    for position, name in enumerate(cleaned, 1):
        free = name
        if not name:
            free = (
                _free(f"column {position}", taken, numbers) if f"column {position}" in taken else f"column {position}"
            )
            notes.append(f"column {position} has no name, called {free!r}")
        elif name in seen:
            free = _free(name, taken, numbers)
            notes.append(f"column {position}: {name[:60]!r} again, called {free[:60]!r}")
        seen.add(name)
        taken.add(free)
        unique.append(free)
    return tuple(unique), tuple(notes)


def _free(name: str, taken: set[str], numbers: dict[str, Iterator[int]]) -> str:
    """The name with the first number that makes it new; `numbers` remembers how far each name has come."""
    counter = numbers.setdefault(name, count(2))
    return next(free for number in counter if (free := f"{name} ({number})") not in taken)


def _without_sheet(path: Path, sheet: str) -> Path:
    if sheet:
        raise UsageError(f"{path} is no workbook and has no sheets; leave out --sheet {sheet}")
    return path


def _suffix(path: Path) -> str:
    stem = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return stem.suffix.lower()


def _open_delimited(path: Path, encoding: str, head: bytes, suffix: str) -> Table:
    errors = "replace" if encoding.startswith("utf-8") else "ignore"
    delimiter = find_delimiter(head.decode(encoding, errors), suffix)
    with open_lines(path, encoding) as lines:
        first = next(csv_records(lines, delimiter), None)
    if first is None or not first.cells or "\0" in "".join(first.cells):
        raise DataError(
            f"{path}: the first row cannot be read{': ' + first.issue.message if first and first.issue else ''}"
        )
    if len(first.cells) > MOST_COLUMNS:
        raise DataError(f"{path}: {len(first.cells):,} columns, at most {MOST_COLUMNS:,} are read")
    header = not any(is_molecule(cell) for cell in first.cells)
    columns, notes = unique_names(first.cells if header else [""] * len(first.cells))
    if not header:
        notes = ("there is no header: the first row already holds a molecule",)
    usual = "\t" if suffix in (".tsv", ".tab") else ","
    if delimiter != usual and len(columns) > 1:
        notes = (*notes, f"columns are separated by {delimiter!r}")
    if encoding not in ("utf-8", "utf-8-sig"):
        notes = (*notes, f"text is {encoding.upper()}")
    fields = tuple(first.cells) if header else ()
    return Table(path, "delimited", columns, notes, encoding, delimiter, header, fields)


def _open_sdf(path: Path, encoding: str) -> Table:
    from mphil.tables.structures import sdf_properties

    with open_lines(path, encoding) as lines:
        fields = sdf_properties(lines)
    columns, notes = unique_names([SMILES, NAME, *fields])
    return Table(path, "sdf", columns, notes, encoding, header=False, fields=tuple(fields))


def _records(table: Table, lines: Lines) -> Iterator[Record]:
    if table.format == "delimited":
        return islice(csv_records(lines, table.delimiter), int(table.header), None)
    from mphil.tables.structures import sdf_records, smi_records

    return smi_records(lines) if table.format == "smi" else sdf_records(lines, list(table.fields))


def _record_chunks(table: Table, rows: int, wanted: tuple[str, ...], keep: bool) -> Iterator[Chunk]:
    with open_lines(table.path, table.encoding) as lines:
        recoded = 0
        for chunk in _chunked(_records(table, lines), table, rows, wanted, keep):
            yield replace(chunk, recoded=lines.recoded - recoded)
            recoded = lines.recoded


def _xlsx_chunks(table: Table, rows: int, wanted: tuple[str, ...], keep: bool) -> Iterator[Chunk]:
    from mphil.tables.binary_files import xlsx_records

    records = islice(xlsx_records(table.path, table.sheet), int(table.header), None)
    width = len(table.columns)
    # A row of a sheet ends with its last value: what is missing behind it is empty.
    filled = (record._replace(cells=record.cells + [""] * (width - len(record.cells))) for record in records)
    return _chunked(filled, table, rows, wanted, keep)


def _chunked(source: Iterator[Record], table: Table, rows: int, wanted: tuple[str, ...], keep: bool) -> Iterator[Chunk]:
    records = (_fitted(record, len(table.columns), keep) for record in source)
    start = 0
    for batch in _batches(records, rows):
        cells = dict(zip(table.columns, zip(*(record.cells for record in batch), strict=True), strict=True))
        issues = {
            row: replace(record.issue, row=row, line=record.line)
            for row, record in enumerate(batch, start)
            if record.issue
        }
        yield Chunk(start, {name: cells[name] for name in wanted}, [record.line for record in batch], issues)
        start += len(batch)


def _batches(records: Iterator[Record], rows: int) -> Iterator[list[Record]]:
    """Records in lists of at most so many, fewer where they are long."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += sum(map(len, record.cells))
        if len(batch) == rows or size > CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _fitted(record: Record, width: int, keep: bool) -> Record:
    """The record with as many cells as there are columns: none of them can be trusted when it had fewer or more."""
    cells = record.cells
    while len(cells) > width and not cells[-1]:
        cells = cells[:-1]  # spreadsheets leave delimiters after the last cell
    if record.issue is None and len(cells) == width:
        return Record(record.line, cells)
    issue = record.issue or RowIssue("ragged", f"{len(cells)} cells where the table has {width} columns")
    kept = cells[:width] if keep else []
    return Record(record.line, kept + [""] * (width - len(kept)), issue)


def _open_xlsx(path: Path, wanted: str) -> Table:
    from mphil.tables.binary_files import find_sheet, xlsx_records

    sheet, others = find_sheet(path, wanted)
    cells = next(xlsx_records(path, sheet)).cells
    while cells and not cells[-1]:
        cells = cells[:-1]
    if len(cells) > MOST_COLUMNS:
        raise DataError(f"{path}: {len(cells):,} columns, at most {MOST_COLUMNS:,} are read")
    header = not any(is_molecule(cell) for cell in cells)
    columns, notes = unique_names(cells if header else [""] * len(cells))
    if not header:
        notes = ("there is no header: the first row already holds a molecule",)
    if others:
        told = ", ".join(repr(name) for name in others[:5]) + (", ..." if len(others) > 5 else "")
        notes = (*notes, f"sheet {sheet!r} is read; the workbook also has {told} (--sheet)")
    return Table(path, "xlsx", columns, notes, header=header, fields=tuple(cells) if header else (), sheet=sheet)


def _open_parquet(path: Path) -> Table:
    with parquet_file(path) as file:
        fields = tuple(file.schema_arrow.names)
    if not fields or len(fields) > MOST_COLUMNS:
        raise DataError(f"{path}: {len(fields):,} columns, between 1 and {MOST_COLUMNS:,} are read")
    columns, notes = unique_names(fields)
    return Table(path, "parquet", columns, notes, fields=fields)


def _parquet_chunks(table: Table, rows: int, wanted: tuple[str, ...]) -> Iterator[Chunk]:
    asked = set(wanted)
    # Columns of the same name cannot be asked for by name.
    fields = (
        None
        if len(set(table.fields)) < len(table.fields)
        else [field for field, name in zip(table.fields, table.columns, strict=True) if name in asked]
    )
    with parquet_file(table.path) as file:
        start = 0
        for batch in file.iter_batches(batch_size=rows, columns=fields):
            names = table.columns if fields is None else [n for n in table.columns if n in asked]
            cells = {name: column_texts(column) for name, column in zip(names, batch.columns, strict=True)}
            numbers = range(start + 1, start + batch.num_rows + 1)
            yield Chunk(start, {name: cells[name] for name in wanted}, numbers, {})
            start += batch.num_rows
