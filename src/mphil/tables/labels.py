"""From the cells of a table to classes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
