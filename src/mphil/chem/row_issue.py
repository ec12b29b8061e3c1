"""What is to be said of a row: one type from the reader of a file to the page."""

from __future__ import annotations

from dataclasses import dataclass

OK = "ok"
PARTIAL = "partial"
"""Status of a row that is kept although its valences were not checked."""


@dataclass(frozen=True, slots=True)
class RowIssue:
    """A row and what became of it.

    People are told the number of the row, from 1 below the header, the line of the file and the name that the table
    gives the row. These three mean the same in every table, page and message.

    Attributes:
        status: `ok`, `partial`, or the code of the reason why the row cannot be used.
        message: the reason in a sentence; empty when all is well.
        row: its place among the rows that were read together, from 0.
        line: the line of the file it begins on, from 1; 0 while that is not known.
        id: what the table calls it, if anything.
    """

    status: str
    message: str = ""
    row: int = 0
    line: int = 0
    id: str = ""

    @property
    def kept(self) -> bool:
        """Whether the row is used nevertheless."""
        return self.status in (OK, PARTIAL)

    @property
    def number(self) -> int:
        """The number that people are told, from 1 below the header."""
        return self.row + 1
