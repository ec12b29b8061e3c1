"""Text tables line by line: encodings, gzip, delimiters and quotes, whatever a user's spreadsheet wrote."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from mphil.chem.row_issue import RowIssue
from mphil.errors import DataError, UsageError

LONGEST_LINE = 4_000_000
"""Characters; a longer line is not a row of a table."""

LONGEST_FIELD = 131_072
"""Characters of a quoted field; beyond, a quote was left open."""

MOST_BLANK_LINES = 1_000_000
"""Blank lines one after the other; a few kilobytes of gzip can hold thousands of millions."""

STRANGE_BYTES = 8
"""Control characters that a text may hold however short it is; each costs its row, not the file."""

HEAD = 65_536
"""Bytes that are looked at to tell what a file is."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNDECODED = re.compile("[\udc80-\udcff]+")
_DELIMITERS = (",", "\t", ";", "|")


class Record(NamedTuple):
    """One row as it stands in the file: the line it begins on (from 1), its cells, and what is wrong with it."""

    line: int
    cells: list[str]
    issue: RowIssue | None = None


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The contents of a file, unzipped when they are gzip, whatever the file is called.

    Raises:
        UsageError: there is no such file.
        DataError: it cannot be read, or the gzip data are damaged or cut off; also while it is being read.
    """
    try:
        with open(path, "rb", opener=_open_regular) as file:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.GzipFile(fileobj=file) if zipped else file as content:
                yield cast(BinaryIO, content)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the gzip data are damaged or cut off ({error}); fetch the file again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open_regular(path: str, flags: int) -> int:
    """Open a file, but nothing that could keep us waiting or never end.

    Raises:
        UsageError: it is a pipe, a device or a socket.
    """
    handle = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(handle).st_mode) or stat.S_ISDIR(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise UsageError(f"{path}: a pipe or a device, not a file; write its contents to a file first")


def read_head(path: Path) -> bytes:
    """The first bytes of the contents."""
    with open_bytes(path) as content:
        return content.read(HEAD)


def text_encoding(head: bytes, path: Path) -> str:
    """The encoding of a text file, by its byte order mark.

    Raises:
        DataError: the bytes are no text.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    strange = sum(head.count(bytes([byte])) for byte in range(32) if byte not in b"\t\n\v\f\r\x1a\x1b")
    if strange > max(STRANGE_BYTES, len(head) / 20):
        raise DataError(
            f"{path}: holds binary data, not text; give a CSV, TSV, parquet, SDF or .smi file "
            "(text in UTF-16 needs its byte order mark)"
        )
    return "utf-8"


class Lines:
    """The lines of a text file with their ends, one at a time, in constant memory.

    Bytes that are not UTF-8 are read as Windows-1252, which is what they nearly always are, and counted.

    Attributes:
        path: the file.
        count: lines given so far.
        recoded: bytes so far that were not UTF-8.
        ended: whether a user asked for a line after the last.
    """

    def __init__(self, path: Path, content: BinaryIO, encoding: str) -> None:
        errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
        self._text = io.TextIOWrapper(content, encoding=encoding, errors=errors, newline="")
        self.path = path
        self.count = self.recoded = 0
        self.ended = False

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(LONGEST_LINE + 1)
        if not line:
            self.ended = True
            raise StopIteration
        self.count += 1
        if len(line) > LONGEST_LINE:
            raise DataError(
                f"{self.path}:{self.count}: a line of more than {LONGEST_LINE:,} characters; is this a table?"
            )
        return line if line.isascii() else _UNDECODED.sub(self._recode, line)

    def _recode(self, match: re.Match[str]) -> str:
        self.recoded += len(match[0])
        return match[0].encode("utf-8", "surrogateescape").decode("cp1252", "replace")


@contextmanager
def open_lines(path: Path, encoding: str) -> Iterator[Lines]:
    """The lines of a text file, closed at the end."""
    with open_bytes(path) as content:
        yield Lines(path, content, encoding)


def recoding_note(recoded: int) -> list[str]:
    """What is said about bytes that were not UTF-8; nothing when there were none."""
    if not recoded:
        return []
    return [f"{recoded:,} {'byte is' if recoded == 1 else 'bytes are'} not UTF-8, read as Windows-1252"]


def csv_records(lines: Lines, delimiter: str) -> Iterator[Record]:
    """The rows of a delimited table; blank lines are none.

    A row that cannot be read is given without cells and with its problem: reading goes on with the next line.
    """
    reader = csv.reader(lines, delimiter=delimiter)
    blank = 0
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            text = f"lines {first} to {reader.line_num} make one field of more than {LONGEST_FIELD:,} characters"
            yield Record(first, [], RowIssue("open-quote", f"{text}; is a quote left open?"))
            continue
        blank = 0 if cells else blank + 1
        if blank > MOST_BLANK_LINES:
            raise DataError(
                f"{lines.path}:{reader.line_num}: {blank:,} blank lines one after the other; is this a table?"
            )
        if cells and lines.ended:
            # A row that ends with its line never asks for another one.
            yield Record(
                first, cells, RowIssue("open-quote", f"the quote opened on line {first} or after never closes")
            )
        elif any("\0" in cell for cell in cells):
            yield Record(first, cells, RowIssue("control", "a cell holds a NUL character; remove it"))
        elif cells:
            yield Record(first, cells)


def find_delimiter(sample: str, suffix: str) -> str:
    """The delimiter that cuts most rows of a sample into as many cells as the header; the file name breaks ties."""
    rows = io.StringIO(sample, newline="").readlines()
    if len(rows) > 1 and not rows[-1].endswith(("\r", "\n")):
        rows.pop()  # the sample may end inside a row
    usual = "\t" if suffix in (".tsv", ".tab") else ","
    return max(_DELIMITERS, key=lambda delimiter: (*_fit(rows, delimiter), delimiter == usual))


def _fit(rows: list[str], delimiter: str) -> tuple[float, int]:
    widths: list[int] = []
    try:
        widths.extend(len(cells) for cells in csv.reader(rows, delimiter=delimiter) if cells)
    except csv.Error:
        return 0.0, 0
    if not widths or widths[0] == 1:
        return 0.0, 0
    return round(sum(width == widths[0] for width in widths) / len(widths), 1), widths[0]
