"""Excel workbooks as tables: a sheet by its name, or the first that has rows, its cells as text."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from mphil.errors import DataError, UnknownName
from mphil.tables.delimited import Record

MOST_BYTES = 1_000_000_000
"""Of a workbook when unpacked; a few kilobytes of zip can hold thousands of millions."""


def is_workbook(path: Path) -> bool:
    """Whether a zip archive holds a workbook, whatever it is called."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def unpacked_bytes(path: Path) -> int:
    """What a zip archive says that it holds.

    Raises:
        DataError: it is no zip archive that can be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: not a readable Excel workbook ({error}); save the table as CSV") from error


def find_sheet(path: Path, wanted: str = "") -> tuple[str, list[str]]:
    """A sheet and the names of the others: the one that is wanted, or else the first with a cell that is not empty.

    Raises:
        UnknownName: the workbook has no sheet of that name.
        DataError: the file is no workbook that can be read, or the sheet is empty, or all are.
    """
    with _workbook(path) as book:
        names = [sheet.title for sheet in book.worksheets]
        if wanted and wanted not in names:
            raise UnknownName(f"sheet of {path.name}", wanted, names)
        for sheet in [book[wanted]] if wanted else book.worksheets:
            if any(cell is not None for row in sheet.iter_rows(values_only=True) for cell in row):
                return sheet.title, [name for name in names if name != sheet.title]
    empty = f"sheet {wanted!r} of the workbook is" if wanted else "all sheets of the workbook are"
    raise DataError(f"{path}: {empty} empty")


def xlsx_records(path: Path, sheet: str) -> Iterator[Record]:
    """The rows of a sheet with their numbers in it, from 1; rows without a value are left out."""
    with _workbook(path) as book:
        for number, cells in enumerate(book[sheet].iter_rows(values_only=True), 1):
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


@contextmanager
def _workbook(path: Path) -> Iterator[Any]:
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        if (size := unpacked_bytes(path)) > MOST_BYTES:
            raise DataError(f"{path}: {size:,} bytes when unpacked, at most {MOST_BYTES:,} are read; save it as CSV")
        with path.open("rb") as file:
            book = load_workbook(file, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()
    except (zipfile.BadZipFile, InvalidFileException, ParseError, KeyError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable Excel workbook ({reason}); save the table as CSV") from error
