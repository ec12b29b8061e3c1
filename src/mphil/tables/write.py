"""Rows on their way to a file: CSV, TSV, both also gzip, XLSX and parquet, by the name of the file."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO

from mphil.chem.row_issue import RowIssue
from mphil.errors import UsageError
from mphil.files import replace_file
from mphil.tables.binary_files import column_texts
from mphil.tables.cell_values import as_number

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a formula may begin."""

_SIGNS = ("+", "-")


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet may take a cell of a CSV file for a formula; a number or a lone sign is none.

    Example:
        >>> [is_formula(cell) for cell in ("=1+1", "-1.5", "-1,5", "-", "@SUM(A1)", "C=O")]
        [True, False, False, False, True, False]
    """
    return cell.startswith(STARTS) and cell not in _SIGNS and as_number(cell.replace(",", ".", 1)) is None


def harmless(cell: str) -> str:
    """The cell, behind an apostrophe if it could be taken for a formula."""
    return f"'{cell}" if is_formula(cell) else cell


def csv_writer(text: TextIO, delimiter: str = ",") -> Any:
    """A writer of the csv module whose lines end with a line feed, and that puts every line break in quotes."""
    return csv.writer(_PlainEnds(text), delimiter=delimiter, lineterminator=_PlainEnds.END)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    r"""A small table as CSV, none of its cells a formula.

    Example:
        >>> csv_text([["name", "size"], ["=1+1", -2]])
        "name,size\n'=1+1,-2\n"
    """
    text = io.StringIO()
    csv_writer(text).writerows([harmless(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


def issue_table(issues: Sequence[RowIssue], *, named: bool) -> str:
    """Rows and what became of them, as CSV; `named` adds what the table calls them."""
    header = ["row", "line", *(["id"] if named else []), "status", "message"]
    rows = ([one.number, one.line, *([one.id] if named else []), one.status, one.message] for one in issues)
    return csv_text([header, *rows])


class _PlainEnds:
    """Ends lines with a plain line feed.

    The csv module puts a cell in quotes when a character of it occurs in the end of a line: a carriage return must.
    """

    END = "\r\n"

    def __init__(self, text: TextIO) -> None:
        self._text = text

    def write(self, line: str) -> int:
        return self._text.write(line.removesuffix(self.END) + "\n")


GROUP_ROWS = 65_536
"""Rows that parquet keeps together."""

GROUP_CELLS = 4_000_000
LONGEST_CELL = 32_767
"""Characters that a cell of a workbook can hold."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
BINARY = (".parquet", ".xlsx")
KINDS = ".csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet"


class Writer(Protocol):
    """Takes rows, a piece at a time.

    Attributes:
        escaped: cells so far that were put behind an apostrophe, lest a spreadsheet runs them.
    """

    escaped: int

    def write(self, given: Sequence[Any], added: Sequence[Sequence[Any]]) -> None:
        """Write some rows.

        Args:
            given: the columns of the table, of text or as Arrow arrays.
            added: ours, of text, numbers and None.
        """


@contextmanager
def open_writer(
    path: Path, names: Sequence[str], fields: Sequence[Any] | None, added: Sequence[str], numbers: Sequence[bool]
) -> Iterator[Writer]:
    """A writer whose file takes the place of `path` when the block ends well, and vanishes otherwise.

    Args:
        path: the file; its name says how it is written.
        names: columns of the table.
        fields: their Arrow fields, when they come as Arrow arrays.
        added: our columns.
        numbers: whether each of ours holds numbers.

    Raises:
        UsageError: the name of the file does not say how it is to be written.
    """
    suffix, zipped = output_kind(path)
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(replace_file(path))
        if suffix == ".parquet":
            with _ParquetRows(file, names, fields, added, numbers) as rows:
                yield rows
            return
        if suffix == ".xlsx":
            sheet = _SheetRows([*names, *added])
            yield sheet
            sheet.save(file)
            return
        if zipped:
            file = stack.enter_context(gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0))  # type: ignore[assignment]
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        rows_of_text = _TextRows(text, [*names, *added], DELIMITERS[suffix])
        yield rows_of_text
        text.flush()
        text.detach()


def output_kind(path: Path) -> tuple[str, bool]:
    """How a file is to be written: its suffix, and whether it is zipped."""
    zipped = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if zipped else path).suffix.lower()
    if suffix not in (*DELIMITERS, *BINARY) or (zipped and suffix in BINARY):
        raise UsageError(f"{path.name}: its name must end in {KINDS}")
    return suffix, zipped


class _TextRows:
    def __init__(self, text: io.TextIOWrapper, names: Sequence[str], delimiter: str) -> None:
        self.escaped = 0
        self._writer = csv_writer(text, delimiter)
        self._writer.writerow([self._safe(name) for name in names])

    def write(self, given: Sequence[Any], added: Sequence[Sequence[Any]]) -> None:
        texts = [cells if isinstance(cells, (list, tuple)) else column_texts(cells) for cells in given]
        columns = [list(map(self._cell, cells)) for cells in (*texts, *added)]
        self._writer.writerows(zip(*columns, strict=True))

    def _cell(self, cell: Any) -> str:
        if isinstance(cell, str):
            # Nearly no cell begins like a formula: a look at its beginning is all it costs.
            return self._safe(cell) if cell.startswith(STARTS) else cell
        return "" if cell is None else f"{cell:.6g}"

    def _safe(self, cell: str) -> str:
        safe = harmless(cell)
        self.escaped += safe is not cell
        return safe


class _SheetRows:
    """Rows of a workbook with one sheet; text is text there, and never a formula."""

    def __init__(self, names: Sequence[str]) -> None:
        from openpyxl import Workbook

        self.escaped = 0
        self._book = Workbook(write_only=True)
        self._sheet = self._book.create_sheet("predictions")
        self._row([*names])

    def write(self, given: Sequence[Any], added: Sequence[Sequence[Any]]) -> None:
        texts = [cells if isinstance(cells, (list, tuple)) else column_texts(cells) for cells in given]
        for row in zip(*([_number_or_text(cell) for cell in cells] for cells in texts), *added, strict=True):
            self._row(row)

    def save(self, file: BinaryIO) -> None:
        self._book.save(file)

    def _row(self, cells: Sequence[Any]) -> None:
        from openpyxl.cell import WriteOnlyCell

        row = []
        for value in cells:
            if isinstance(value, str):
                cell = WriteOnlyCell(self._sheet, _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value[:LONGEST_CELL]))
                cell.data_type = "s"
                row.append(cell)
            else:
                row.append(value)
        self._sheet.append(row)


def _number_or_text(cell: str) -> str | float | None:
    """A cell of a table as a workbook holds it: numbers in plain writing are numbers, unless digits would be lost."""
    if not cell:
        return None
    value = as_number(cell)
    if value is None:
        return cell
    return value if cell in (repr(value), f"{value:g}") else cell


class _ParquetRows:
    """Collects rows until there are enough for a row group."""

    def __init__(
        self,
        file: BinaryIO,
        names: Sequence[str],
        fields: Sequence[Any] | None,
        added: Sequence[str],
        numbers: Sequence[bool],
    ) -> None:
        import pyarrow
        from pyarrow import parquet

        self._arrow, self.escaped = pyarrow, 0
        text = pyarrow.string()
        theirs = [pyarrow.field(name, text) for name in names] if fields is None else fields
        kinds = (pyarrow.float64() if number else text for number in numbers)
        self._schema = pyarrow.schema([*theirs, *map(pyarrow.field, added, kinds)])
        self._writer = parquet.ParquetWriter(file, self._schema)
        self._waiting: list[Any] = []
        self._group = max(1, min(GROUP_ROWS, GROUP_CELLS // len(self._schema)))

    def write(self, given: Sequence[Any], added: Sequence[Sequence[Any]]) -> None:
        arrays = [
            cells if isinstance(cells, self._arrow.Array) else self._arrow.array(cells, kind)
            for cells, kind in zip([*given, *added], self._schema.types, strict=True)
        ]
        self._waiting.append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        if sum(batch.num_rows for batch in self._waiting) >= self._group:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._arrow.Table.from_batches(self._waiting))
            self._waiting = []

    def __enter__(self) -> _ParquetRows:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
