"""Numbers as people write them: decimal commas, thousands separators, `>10` and `<0.1`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from mphil.tables.labels import as_number

SEVERAL = 10
"""Cells that must all have a comma and three digits behind it to be numbers with three decimals."""

Mark = Literal[".", ","]
Bound = Literal["", "<", ">"]

_BOUND = re.compile(r"\s*(<=|>=|=<|=>|<|>|≤|≥|=|~)?\s*(.*?)\s*", re.DOTALL)
_BOUNDS: dict[str, Bound] = {"<": "<", "<=": "<", "=<": "<", "≤": "<", ">": ">", ">=": ">", "=>": ">", "≥": ">"}
_SPACES = re.compile(r"(?<=\d)[\s'\u2019](?=\d{3}(\D|$))")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*", re.ASCII)


class Measured(NamedTuple):
    """A number, and whether the true one is said to be below or above it."""

    value: float
    bound: Bound = ""


def decimal_mark(cells: Iterable[str]) -> Mark:
    """The decimal mark of a column, by what most of its cells can only mean.

    Where all could mean both (`1,234`), it is a point, unless every one of several cells has a comma: of numbers with
    thousands separators some are below 1,000, but all of those with three decimals have a comma.

    Example:
        >>> decimal_mark(["6,5", "7,25"]), decimal_mark(["1,234.5", "12"]), decimal_mark(["1,234"])
        (',', '.', '.')
    """
    votes = {".": 0, ",": 0}
    open_cells, plain = 0, False
    for cell in cells:
        text = _bare(cell)
        marks = [character for character in text if character in ".,"]
        if not marks:
            plain = plain or as_number(text) is not None
            continue
        last, other = marks[-1], "," if marks[-1] == "." else "."
        if other in marks:
            votes[last] += 1
        elif len(marks) > 1:
            votes[other] += 1
        elif not _GROUPED.fullmatch(text) and as_number(text.replace(",", ".")) is not None:
            votes[last] += 1
        else:
            open_cells += last == ","
    if not any(votes.values()) and not plain and open_cells >= SEVERAL:
        return ","
    return "," if votes[","] > votes["."] else "."


def read_measured(cell: str, mark: Mark = ".") -> Measured | None:
    """The number a cell holds; None for text.

    Args:
        cell: as it stands in a table.
        mark: the decimal mark; the other one separates thousands, as blanks and apostrophes always do.

    Example:
        >>> read_measured("> 10 000,5", ",")
        Measured(value=10000.5, bound='>')
    """
    match = _BOUND.fullmatch(cell)
    assert match is not None
    other = "," if mark == "." else "."
    text = _bare(cell)
    whole, found, rest = text.partition(mark)
    if other in rest or (other in whole and not _GROUPED.fullmatch(whole)):
        return None
    value = as_number(whole.replace(other, "") + (f".{rest}" if found else ""))
    return None if value is None else Measured(value, _BOUNDS.get(match[1] or "", ""))


def _bare(cell: str) -> str:
    """A cell without its bound, and without blanks and apostrophes between thousands."""
    match = _BOUND.fullmatch(cell)
    assert match is not None
    return _SPACES.sub("", match[2])
