"""What the cells of a table say: missing or not, numbers and dates as people write them, classes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mphil.errors import DataError, UsageError

MOST_CLASSES = 50
"""A target with more different values is a measurement, not a class."""

MOST_NUMBERS = 20
"""The same for values that are whole numbers; other numbers are a measurement when there are more than two."""

SHOWN = 12
"""Classes that are listed with their rows."""

MOSTLY = 0.9
"""From this share of numbers on, a column is numeric and its other cells are mistakes."""

_MISSING = frozenset(
    (
        *("", "nan", "na", "n/a", "#n/a", "n.a.", "n.a", "null", "none", "-", "--", "?", ".", "missing", "nd", "n.d."),
        *("n.d", "n. d.", "n/d", "nt", "n.t.", "n.b.", "n.m.", "not determined", "not tested", "not measured"),
        *("#value!", "#div/0!", "#ref!"),
    )
)
_YES = frozenset(("true", "t", "yes", "y", "active", "positive", "pos"))
_NO = frozenset(("false", "f", "no", "n", "inactive", "negative", "neg"))
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)

TargetKind = Literal["binary", "multiclass", "continuous", "text", "empty"]


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in _MISSING


def is_molecule(cell: str) -> bool:
    """Whether a cell can only be a molecule: no column or sheet is called CCO by chance, but one may be called C or NO.

    Example:
        >>> [is_molecule(cell) for cell in ("CCO", "NO", "smiles")]
        [True, False, False]
    """
    from mphil.chem.parse import SmilesError, parse_smiles

    try:
        return len(cell) >= 3 and parse_smiles(cell).GetNumAtoms() >= 3
    except SmilesError:
        return False


def as_number(cell: str) -> float | None:
    """The number a cell holds; none for text, infinity or what is missing."""
    text = cell.strip()
    value = float(text) if _NUMBER.fullmatch(text) else None
    return value if value is not None and abs(value) != float("inf") else None


def normal_label(cell: str) -> str:
    """A label in one way of writing: missing is empty, yes and no are 1 and 0, whole numbers have no decimals.

    Example:
        >>> [normal_label(cell) for cell in ("Active", "0.0", "NA", "CM", "2")]
        ['1', '0', '', 'CM', '2']
    """
    text = cell.strip()
    lower = text.lower()
    if lower in _MISSING:
        return ""
    if lower in _YES:
        return "1"
    if lower in _NO:
        return "0"
    value = as_number(text)
    if value is None:
        return text
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


class Coded:
    """A column of texts as small numbers: each different text is kept once, so that long columns stay small.

    Attributes:
        codes: (n,) number of each text; -1 for an empty one.
        texts: text to its number, in the order in which they first came.
    """

    def __init__(self) -> None:
        self.codes = array("q")
        self.texts: dict[str, int] = {}

    def add(self, text: str) -> None:
        self.codes.append(self.texts.setdefault(text, len(self.texts)) if text else -1)

    def extend(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.add(text)

    def values(self) -> list[str]:
        """(n,) the texts again."""
        texts = [*self.texts, ""]
        return [texts[code] for code in self.codes]

    def array(self) -> NDArray[np.int64]:
        return np.array(self.codes, np.int64)

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class Target:
    """A column of labels, understood.

    Attributes:
        name: of the column.
        kind: `binary` (0 and 1), `multiclass`, `continuous` (measured numbers), `text` (too many words to be classes)
            or `empty`.
        classes: names of the classes; the position is the label.
        y: (n,) labels: class numbers or measured numbers, NaN = missing.
        strange: positions of cells that are no label of this column: text among numbers.
    """

    name: str
    kind: TargetKind
    classes: tuple[str, ...]
    y: NDArray[np.float64]
    strange: tuple[int, ...] = ()

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest measurement; None for classes."""
        known = self.y[~np.isnan(self.y)]
        return (float(known.min()), float(known.max())) if self.kind == "continuous" and len(known) else None

    @property
    def told(self) -> str:
        """Its classes with their rows, or the range of its measurements, for a reader."""
        if self.range:
            return "{:g} to {:g}".format(*self.range)
        return ", ".join(f"{name}: {count:,}" for name, count in list(self.counts().items())[:SHOWN])

    def counts(self, rows: NDArray[np.int64] | slice = slice(None)) -> dict[str, int]:
        """Rows of each class."""
        y = self.y[rows]
        return {name: int((y == label).sum()) for label, name in enumerate(self.classes)}


def read_target(name: str, column: Coded, most_numbers: int = MOST_NUMBERS) -> Target:
    """The (normal) labels of a column as classes, of which at most so many may be whole numbers, or as measurements."""
    codes = column.array()
    numbers = {code: value for text, code in column.texts.items() if (value := as_number(text)) is not None}
    sizes = np.bincount(codes[codes >= 0], minlength=len(column.texts))
    total, numeric = int(sizes.sum()), int(sizes[list(numbers)].sum())
    strange: NDArray[np.bool_] = np.zeros(len(codes), bool)
    kept = list(column.texts)
    if total and numeric < total and numeric >= MOSTLY * total:
        kept = [text for text, code in column.texts.items() if code in numbers]
        strange = (codes >= 0) & ~np.isin(codes, list(numbers))
    classes = ("0", "1") if kept and set(kept) <= {"0", "1"} else tuple(sorted(kept, key=_class_order))
    kind: TargetKind = "empty" if not kept else "binary" if classes == ("0", "1") else "multiclass"
    number = {text: float(label) for label, text in enumerate(classes)}
    if _is_measurement(kept, most_numbers):
        kind, classes = "continuous", ()
        number = {text: float(text) for text in kept}
    elif len(classes) > MOST_CLASSES:
        kind, classes, number = "text", (), {}
    lookup = np.array([*(number.get(text, np.nan) for text in column.texts), np.nan])
    return Target(name, kind, classes, lookup[codes], tuple(np.flatnonzero(strange).tolist()))


def _is_measurement(labels: list[str], most_numbers: int) -> bool:
    """Whether labels are numbers, and too many or too fine to be classes."""
    numbers = [as_number(label) for label in labels]
    found = [number for number in numbers if number is not None]
    if len(found) < len(labels) or len(found) <= 2:
        return False
    return len(found) > most_numbers or any(number != int(number) for number in found)


def _class_order(text: str) -> tuple[bool, float, str]:
    value = as_number(text)
    return value is None, value or 0.0, text


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
