"""CSV that comes back as it was written, without cells that a spreadsheet program would run instead of showing them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from mphil.chem.row_issue import RowIssue
from mphil.tables.labels import as_number

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
