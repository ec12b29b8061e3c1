"""A column of labels as it stands in a table: words, numbers in any writing, measurements with a threshold."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mphil.errors import DataError
from mphil.tables.cell_values import (
    MOSTLY,
    Coded,
    Mark,
    Measured,
    Target,
    as_number,
    decimal_mark,
    is_missing,
    normal_label,
    read_measured,
    read_target,
)

INACTIVE, ACTIVE = "inactive", "active"
USUAL = 6.5
"""Threshold of a negative logarithm of a concentration in mol/l."""

_LOGARITHM = re.compile(r"^p(IC|EC|AC|GI|XC|K|MIC|CHEMBL)", re.IGNORECASE)
_CONCENTRATION = re.compile(r"(IC|EC|GI|AC|LC|LD|CC)_?\d\d|^K[id]\b|^MIC", re.IGNORECASE)
SHOWN = 3
SPAN = 1_000
"""Ratio of high to low measurements from which on their logarithm should be learned."""


@dataclass(frozen=True)
class Threshold:
    """Where a measurement becomes a class.

    Attributes:
        value: the threshold.
        below: whether active is at or below it; else at or above.
    """

    value: float
    below: bool = False

    def label(self, measured: Measured) -> float:
        """1 for active, 0 for inactive, NaN when a bound such as `>5` leaves it open.

        Example:
            >>> [Threshold(6.5).label(Measured(*one)) for one in ((6.5, ""), (7.0, ">"), (5.0, ">"), (6.5, "<"))]
            [1.0, 1.0, nan, 0.0]
        """
        value, bound = measured
        if not bound:
            return float(value <= self.value if self.below else value >= self.value)
        decided = value >= self.value if bound == ">" else value <= self.value
        return float((bound == ">") != self.below) if decided else float("nan")

    def __str__(self) -> str:
        short = f"{self.value:g}"
        return f"{'<=' if self.below else '>='} {short if float(short) == self.value else repr(self.value)}"

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """The threshold that is written so.

        Example:
            >>> Threshold.parse(str(Threshold(6.1234567, below=True)))
            Threshold(value=6.1234567, below=True)
        """
        sign, value = text.split()
        return cls(float(value), sign == "<=")


Wanted = Literal["", "classification", "regression"]
"""What is to be learned from a column: classes, measured numbers, or what it looks like."""


def read_cells(
    name: str, column: Coded, threshold: Threshold | None = None, wanted: Wanted = ""
) -> tuple[Target, tuple[str, ...]]:
    """Understand a column of labels.

    Args:
        name: of the column.
        column: (n,) its cells, without blanks around them.
        threshold: makes classes of a measurement.
        wanted: whether it has classes or measurements; by what it looks like when empty.

    Returns:
        the labels, and what was assumed about how many cells, in sentences.

    Raises:
        DataError: a threshold or a regression for a column that is no measurement, or classes for one that is.
    """
    counts = dict(zip(column.texts, np.bincount(column.array() + 1, minlength=len(column.texts) + 1)[1:], strict=True))
    present = [text for text in column.texts if not is_missing(text)]
    mark = decimal_mark(present)
    measured = {text: found for text in present if (found := read_measured(text, mark)) is not None}
    total = sum(counts[text] for text in present)
    numeric = bool(measured) and sum(counts[text] for text in measured) >= MOSTLY * total
    notes = _missing_note(name, [text for text in column.texts if is_missing(text)], counts)
    if numeric:
        notes += _writing_note(name, measured, counts, mark)
    if (threshold or wanted == "regression") and not numeric:
        strange = next((text for text in present if text not in measured), "nothing")
        option = "--threshold" if threshold else "--task regression"
        raise DataError(f"{option} goes with a column of numbers; {name!r} holds {strange[:40]!r}")
    if threshold:
        target, told = _divided(name, column, measured, threshold)
        return target, (*notes, told)
    plain = {text: repr(found.value) for text, found in measured.items() if numeric}
    normal = [normal_label(plain.get(text, text)) for text in (*column.texts, "")]
    if not numeric:
        normal, respelled = _one_spelling(name, normal, list(counts.values()))
        notes += respelled
    labels = Coded()
    labels.extend(normal[code] for code in column.codes)
    target = read_target(name, labels)
    values = [found.value for found in measured.values()]
    # A class is never below or above something.
    measurement = numeric and (target.kind == "continuous" or any(found.bound for found in measured.values()))
    if measurement and wanted == "classification":
        raise DataError(f"{name!r} is a measurement, not a class: {_hint(name, values)}")
    if measurement or wanted == "regression":
        notes += [*_bound_note(name, measured, counts), *_decades_note(name, values)]
        if not wanted:
            notes.append(f"target {name!r} is a measurement, so this is a regression: {_hint(name, values)}")
        return _as_measured(name, column, measured), tuple(notes)
    if target.kind == "multiclass" and numeric and not wanted:
        told = f"{len(target.classes)} different whole numbers are taken as classes"
        notes.append(f"target {name!r}: {told}; --task regression takes them as measurements")
    if target.kind == "binary":
        target = replace(target, classes=_spelled(normal, counts, measured))
    return target, tuple(notes)


def read_known(name: str, column: Coded, classes: Sequence[str], threshold: Threshold | None = None) -> Target:
    """Labels of a column whose classes are known already, because a model was trained on them.

    Args:
        name: of the column.
        column: (n,) its cells, without blanks around them.
        classes: that the model knows, in its order; none of a regression.
        threshold: that made classes of a measurement.

    Returns:
        The labels; `strange` are the cells that are none of the classes, or no number.

    Raises:
        DataError: a measurement was expected, and this is none.

    Example:
        >>> cells = Coded()
        >>> cells.extend(["Yes", "n.d.", "maybe", "0"])
        >>> read_known("active", cells, ("no", "yes")).y.tolist()
        [1.0, nan, nan, 0.0]
    """
    present = [text for text in column.texts if not is_missing(text)]
    mark = decimal_mark(present)
    measured = {text: found for text in present if (found := read_measured(text, mark)) is not None}
    if present and (threshold or not classes):
        return read_cells(name, column, threshold, "" if threshold else "regression")[0]
    number = {_key(normal_label(word)): float(label) for label, word in enumerate(classes)}
    lookup = np.full(len(column.texts) + 1, np.nan)
    for text, code in column.texts.items():
        plain = repr(measured[text].value) if text in measured and not measured[text].bound else text
        lookup[code] = next(
            (number[key] for one in (text, plain) if (key := _key(normal_label(one))) in number), np.nan
        )
    codes = column.array()
    unknown = np.isnan(lookup) & np.array([*(not is_missing(text) for text in column.texts), False])
    strange = tuple(np.flatnonzero(unknown[codes]).tolist())
    return Target(name, "binary" if len(classes) == 2 else "multiclass", tuple(classes), lookup[codes], strange)


def _as_measured(name: str, column: Coded, measured: Mapping[str, Measured]) -> Target:
    """The column as numbers in their own unit; `>10` is taken as 10."""
    lookup = np.full(len(column.texts) + 1, np.nan)
    strange: NDArray[np.bool_] = np.zeros(len(column.texts) + 1, bool)
    for text, code in column.texts.items():
        if text in measured:
            lookup[code] = measured[text].value
        else:
            strange[code] = not is_missing(text)
    codes = column.array()
    return Target(name, "continuous", (), lookup[codes], tuple(np.flatnonzero(strange[codes]).tolist()))


def _bound_note(name: str, measured: Mapping[str, Measured], counts: Mapping[str, int]) -> list[str]:
    bounded = [text for text, found in measured.items() if found.bound]
    if not bounded:
        return []
    count = sum(counts[text] for text in bounded)
    value = measured[bounded[0]].value
    return [f"target {name!r}: these {count:,} are taken as measured numbers, {bounded[0]!r} as {value:g}"]


def _decades_note(name: str, values: Sequence[float]) -> list[str]:
    """A warning about measurements over several powers of ten, such as concentrations."""
    low, high = np.quantile(values, (0.05, 0.95))
    if low <= 0 or high < SPAN * low:
        return []
    told = f"target {name!r} spans more than {int(np.log10(high / low))} powers of ten, and the largest values decide"
    return [f"{told} what is learned; a column of its logarithm, such as pIC50, is learned better"]


def _divided(name: str, column: Coded, measured: Mapping[str, Measured], threshold: Threshold) -> tuple[Target, str]:
    lookup = np.full(len(column.texts) + 1, np.nan)
    strange: NDArray[np.bool_] = np.zeros(len(column.texts) + 1, bool)
    for text, code in column.texts.items():
        if text in measured:
            lookup[code] = threshold.label(measured[text])
        else:
            strange[code] = not is_missing(text)
    codes = column.array()
    y = lookup[codes]
    known = np.isin(codes, [column.texts[text] for text in measured])
    told = f"target {name!r}: active is {threshold}: {int((y == 1).sum()):,} active, {int((y == 0).sum()):,} inactive"
    if undecided := int((known & np.isnan(y)).sum()):
        told += f"; {undecided:,} with < or > that could be either have no label"
    return Target(name, "binary", (INACTIVE, ACTIVE), y, tuple(np.flatnonzero(strange[codes]).tolist())), told


def _one_spelling(name: str, normal: Sequence[str], counts: Sequence[int]) -> tuple[list[str], list[str]]:
    """Labels that differ only in capitals or blanks in the most frequent spelling, and a sentence about those changed.

    Args:
        name: of the column.
        normal: the label of each different text; what follows those that are counted is kept.
        counts: rows of each text.
    """
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for label, count in zip(normal, counts, strict=False):
        rows[_key(label)][label] += count
    usual = {key: max(found, key=lambda label: (found[label], label)) for key, found in rows.items()}
    others = {label: found[label] for key, found in rows.items() for label in found if label != usual[key]}
    if not others:
        return list(normal), []
    shown = ", ".join(f"{label!r} as {usual[_key(label)]!r}" for label in list(others)[:SHOWN])
    number = sum(others.values())
    told = f"target {name!r}: {number:,} label{'s' if number != 1 else ''} in another spelling, read {shown}"
    return [usual.get(_key(label), label) for label in normal], [told]


def _key(label: str) -> str:
    """What spellings of a class have in common."""
    return " ".join(label.casefold().split())


def _spelled(normal: Sequence[str], counts: Mapping[str, int], numbers: Container[str]) -> tuple[str, str]:
    """What the table calls no and yes, by the most frequent spelling; 0 and 1 when these are numbers.

    Args:
        normal: the label of each different text.
        counts: these texts, in the same order, to their rows.
        numbers: those of them that are numbers.
    """
    names = []
    for label in ("0", "1"):
        words = {text: count for (text, count), found in zip(counts.items(), normal, strict=False) if found == label}
        word = max(words, key=lambda text: (words[text], text), default=label)
        names.append(label if word in numbers else word)
    return names[0], names[1]


def _missing_note(name: str, words: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    if not words:
        return []
    shown = ", ".join(repr(word) for word in words[:SHOWN])
    number = sum(counts[word] for word in words)
    return [f"target {name!r}: {number:,} cell{'s' if number != 1 else ''} ({shown}) read as missing"]


def _writing_note(name: str, measured: Mapping[str, Measured], counts: Mapping[str, int], mark: Mark) -> list[str]:
    """How many numbers were not in plain writing, with the first of them."""
    notes = []
    changed = [text for text, found in measured.items() if not found.bound and as_number(text) is None]
    bounded = [text for text, found in measured.items() if found.bound]
    if changed:
        what = "a decimal comma" if mark == "," else "thousands separators or signs"
        notes.append(
            f"target {name!r}: {sum(counts[text] for text in changed):,} numbers with {what}, such as {changed[0]!r} "
            f"read as {measured[changed[0]].value:g}"
        )
    if bounded:
        notes.append(
            f"target {name!r}: {sum(counts[text] for text in bounded):,} numbers with < or >, such as {bounded[0]!r}"
        )
    return notes


def _hint(name: str, values: Sequence[float]) -> str:
    """How classes could be made of a measurement."""
    low, high, middle = min(values), max(values), float(np.median(values))
    below = bool(_CONCENTRATION.search(name)) and not _LOGARITHM.search(name)
    usual = _LOGARITHM.search(name) and low < USUAL < high
    told = f"--threshold {USUAL if usual else float(f'{middle:.2g}'):g}{' --active-below' if below else ''}"
    return f"its values go from {low:g} to {high:g}; {told} would make classes of it"
