"""Dates as people write them, in one order: year, month, day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from mphil.errors import DataError, UsageError
from mphil.tables.labels import is_missing

FORMATS = (
    "%Y-%m-%d",
    "%Y-%m",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%d %B %Y",
)
"""Formats that are tried, in the notation of `strptime`. With dots the day comes first: nobody writes it otherwise."""

_SHAPE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2})?|\d{4}[./]\d{1,2}[./]\d{1,2}|\d{1,2}([./-])\d{1,2}\2(\d{4}|\d{2})|"
    r"\d{1,2}[ -][A-Za-z]{3,9}[ -](\d{4}|\d{2})|[A-Za-z]{3,9} \d{1,2}, \d{4}",
    re.ASCII,
)
_TIME = re.compile(r"[T ]\d{1,2}:\d{2}.*", re.DOTALL)


def looks_like_date(cell: str) -> bool:
    """Whether a cell is written like a date, with or without a time of day.

    Example:
        >>> [looks_like_date(cell) for cell in ("2015-06-09T10:00", "09.06.2015", "6.5", "2015")]
        [True, True, False, False]
    """
    return _SHAPE.fullmatch(_day(cell)) is not None


def read_dates(cells: Sequence[str], name: str, date_format: str = "") -> list[str]:
    """Dates as `2015-06-09`, whose order as text is their order in time; a missing one is empty.

    The format is the one that fits every cell. Two that do, and that read a cell as different days, are ambiguous.

    Args:
        cells: (n,) as they stand in a table; the time of day is left out.
        name: of the column.
        date_format: in the notation of `strptime`, such as `%d/%m/%Y`; found when empty.

    Raises:
        UsageError: the format is none.
        DataError: a cell is no date, or the format is ambiguous.

    Example:
        >>> read_dates(["31/01/2015", "", "09/06/2015"], "measured")
        ['2015-01-31', '', '2015-06-09']
    """
    different = sorted({_day(cell) for cell in cells if not is_missing(cell)})
    if date_format:
        if "%" not in date_format:
            raise UsageError(f"--date-format {date_format!r} has no field; write it as %d/%m/%Y or %Y-%m-%d")
        candidates: Sequence[str] = (date_format,)
    else:
        candidates = FORMATS
    readings = {}
    for candidate in candidates:
        read = {cell: _read(cell, candidate) for cell in different}
        if all(read.values()):
            readings[candidate] = read
    if not readings:
        raise _unreadable(different, name, candidates)
    (first, read), *others = readings.items()
    for other, again in others:
        strange = next((cell for cell in different if read[cell] != again[cell]), None)
        if strange is not None:
            raise DataError(
                f"column {name!r}: {strange!r} is {read[strange]} if dates are {first}, and {again[strange]} if they "
                f"are {other}; say which with --date-format {first} or --date-format {other}"
            )
    return [read.get(_day(cell), "") for cell in cells]


def _day(cell: str) -> str:
    """A cell without its time of day."""
    return _TIME.sub("", cell.strip())


def _read(cell: str, date_format: str) -> str:
    try:
        return datetime.strptime(cell, date_format).date().isoformat()
    except ValueError:
        return ""


def _unreadable(different: Sequence[str], name: str, candidates: Sequence[str]) -> DataError:
    """The complaint about the format that fits most of the cells."""
    fitting = {candidate: [cell for cell in different if not _read(cell, candidate)] for candidate in candidates}
    best = min(candidates, key=lambda candidate: len(fitting[candidate]))
    return DataError(
        f"column {name!r}: {fitting[best][0][:40]!r} is no date of the form {best}, nor are {len(fitting[best]) - 1:,} "
        "other values; mend or empty them, or give the form with --date-format"
    )
