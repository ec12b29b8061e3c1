"""Excel workbooks and parquet files as tables, with every fault in a sentence."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import ParseError

from mphil.errors import DataError, UnknownName
from mphil.tables.cell_values import is_molecule
from mphil.tables.delimited import Record, open_bytes

MOST_BYTES = 1_000_000_000
"""Of a workbook when unpacked; a few kilobytes of zip can hold thousands of millions."""

MOST_STRING_BYTES = 50_000_000
MOST_PART_BYTES = 2_000_000
"""Of the texts that cells share, and of any other part but a sheet: both are kept in memory as a whole."""

LONGEST_ROW = 2_000_000
"""Bytes of a row of a sheet, about: openpyxl keeps it in memory as a whole."""

LOOKED = 20
"""Rows of a sheet in which a molecule is looked for."""

MOST_ROWS = 1_048_576
"""Rows of a sheet, as in Excel; a single number in a file can ask for more."""

_UNREAD = (
    "xl/worksheets/",
    "xl/media/",
    "xl/drawings/",
    "xl/charts/",
    "xl/embeddings/",
    "xl/pivotCache/",
    "xl/vbaProject.bin",
    "xl/externalLinks/",
    "xl/printerSettings/",
    "xl/comments",
    "customXml/",
)
"""Parts that are read row by row, or not at all."""

_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, ParseError),
    *(AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError),
)
"""What unpacking and parsing make of an archive with wrong bytes, an encrypted one, or XML that is no workbook."""

_ROW = re.compile(rb"[<:]row[\s/>]")


def is_workbook(path: Path) -> bool:
    """Whether a zip archive holds a workbook, whatever it is called."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def unpacked_bytes(path: Path) -> int:
    """What a zip archive says that it holds; 0 when it is none that can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        return 0


def find_sheet(path: Path, wanted: str = "") -> tuple[str, list[str]]:
    """A sheet and the names of the others: the one that is wanted, or else the first with a molecule in its first rows.

    Without one, it is the first with a cell that is not empty. A cover sheet is thus left out.

    Raises:
        UnknownName: the workbook has no sheet of that name.
        DataError: the file is no workbook that can be read, or the sheet is empty, or all are.
    """
    with _workbook(path) as book:
        names = [sheet.title for sheet in book.worksheets]
        if wanted and wanted not in names:
            raise UnknownName(f"sheet of {path.name}", wanted, names)
        filled = []
        for sheet in [book[wanted]] if wanted else book.worksheets:
            rows = (row for _, row in _rows(path, book, sheet.title) if any(cell is not None for cell in row))
            if first := list(itertools.islice(rows, LOOKED)):
                filled.append(sheet.title)
                if len(names) == 1 or any(isinstance(cell, str) and is_molecule(cell) for row in first for cell in row):
                    filled = [sheet.title]
                    break
        if filled:
            return filled[0], [name for name in names if name != filled[0]]
    empty = f"sheet {wanted!r} of the workbook is" if wanted else "all sheets of the workbook are"
    raise DataError(f"{path}: {empty} empty")


def xlsx_records(path: Path, sheet: str) -> Iterator[Record]:
    """The rows of a sheet with their numbers in it, from 1; rows without a value are left out."""
    with _workbook(path) as book:
        for number, cells in _rows(path, book, sheet):
            texts = [cell_text(cell) for cell in cells]
            if any(texts):
                yield Record(number, texts)


def cell_text(cell: Any) -> str:
    """A cell as it would stand in a CSV file.

    Example:
        >>> [cell_text(cell) for cell in (None, 1.0, 6.5, True, datetime(2015, 6, 9))]
        ['', '1', '6.5', 'true', '2015-06-09']
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(" ")
    return cell.isoformat() if isinstance(cell, (date, time)) else str(cell)


def _rows(path: Path, book: Any, name: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The rows of a sheet with their numbers.

    Raises:
        DataError: a row is too long to be read, or there are more than a sheet can have.
    """
    sheet = book[name]
    _check_rows(path, book, sheet)
    # What a sheet says of its own size is not needed, and may be a thousand million cells.
    sheet.reset_dimensions()
    rows = sheet.iter_rows(values_only=True)
    for number in itertools.count(1):
        with _quiet():
            cells = next(rows, None)
        if cells is None:
            return
        if number > MOST_ROWS:
            raise DataError(f"{path}: sheet {name!r} has more than {MOST_ROWS:,} rows; save it as CSV")
        yield number, cells


def _check_rows(path: Path, book: Any, sheet: Any) -> None:
    with book._archive.open(sheet._worksheet_path) as content:
        while len(block := content.read(LONGEST_ROW)) == LONGEST_ROW:
            if not _ROW.search(block):
                text = f"sheet {sheet.title!r} has {LONGEST_ROW:,} bytes in which no row begins"
                raise DataError(f"{path}: {text}; save it as CSV")


def _check_sizes(path: Path, reader: Any) -> None:
    """Refuse a workbook with a part that would take too much memory."""
    from openpyxl.xml.constants import ARC_CONTENT_TYPES, SHARED_STRINGS, XLSM, XLSX, XLTM, XLTX

    sizes = {entry.filename: entry.file_size for entry in reader.archive.infolist()}
    if (size := sum(sizes.values())) > MOST_BYTES:
        raise DataError(f"{path}: {size:,} bytes when unpacked, at most {MOST_BYTES:,} are read; save it as CSV")
    limits = {name: MOST_PART_BYTES for name in sizes if not name.startswith(_UNREAD)}
    if sizes.get(ARC_CONTENT_TYPES, 0) <= MOST_PART_BYTES:
        reader.read_manifest()
        for kind in (XLSX, XLSM, XLTX, XLTM, SHARED_STRINGS):
            for part in reader.package.findall(kind):
                limits[part.PartName[1:]] = MOST_STRING_BYTES if kind == SHARED_STRINGS else MOST_PART_BYTES
    for name, most in limits.items():
        if sizes.get(name, 0) > most:
            text = f"its part {name[:100]!r} has {sizes[name]:,} bytes, at most {most:,} are read"
            raise DataError(f"{path}: {text}; save the table as CSV")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings of openpyxl about charts, styles and names, which a table does not need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _workbook(path: Path) -> Iterator[Any]:
    from openpyxl.reader.excel import ExcelReader
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with path.open("rb") as file:
            reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
            try:
                _check_sizes(path, reader)
                with _quiet():
                    reader.read()
                yield reader.wb
            finally:
                reader.archive.close()
    except (*_DAMAGED, InvalidFileException) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable Excel workbook ({reason}); save the table as CSV") from error


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """The open parquet file; every fault that a damaged one brings to light is a `DataError`."""
    import pyarrow
    from pyarrow import parquet

    with open_bytes(path) as content, _seekable(content) as file:
        try:
            yield parquet.ParquetFile(file, pre_buffer=False, memory_map=False)
        except (pyarrow.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{path}: not a readable parquet file ({reason}); write it again") from error


def column_texts(column: Any) -> list[str]:
    """(n,) the cells of an Arrow column as text, missing ones empty."""
    import pyarrow

    try:
        values = column.cast(pyarrow.string()).to_pylist()
    except pyarrow.ArrowException:  # nested values, bytes that are no text
        values = column.to_pylist()
    return ["" if value is None or value == "nan" else str(value) for value in values]


@contextmanager
def _seekable(content: BinaryIO) -> Iterator[BinaryIO]:
    """Gzip cannot be read from its end, where parquet keeps its index: it is unpacked to a temporary file."""
    if isinstance(content, io.BufferedReader):
        yield content
        return
    with tempfile.TemporaryFile() as unpacked:
        shutil.copyfileobj(content, unpacked)
        unpacked.seek(0)
        yield unpacked
