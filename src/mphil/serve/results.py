"""What a server keeps on disk: its temporary folder, and the answers of a job, read back a page at a time."""

from __future__ import annotations

import csv
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mphil.errors import DataError
from mphil.files import held_folder, remove_if_dead
from mphil.model.predictor.predictions import is_number

PREFIX = "mphil-serve-"


class Scratch:
    """A folder that only this user can read.

    Attributes:
        path: where it is.
    """

    def __init__(self) -> None:
        home = Path(tempfile.gettempdir())
        for old in home.glob(f"{PREFIX}*"):
            remove_if_dead(old)
        self.path = home / f"{PREFIX}{secrets.token_hex(8)}"
        self._held = ExitStack()
        self._held.enter_context(held_folder(self.path, mode=0o700))

    def close(self) -> None:
        """Remove the folder with all that it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()


PAGE = 100
"""Rows of a page."""

Cells = dict[str, str | float | None]
"""Our columns of a row: text, numbers, and None where there is nothing to say."""


@dataclass(frozen=True)
class ResultRow:
    """A row of a user's table with our answer.

    Attributes:
        row: its number, from 1.
        line: the line of the file it begins on, from 1; its number where a file has no lines.
        name: what the table calls it, if anything.
        smiles: the molecule as it stands in the table.
        cells: our columns.
    """

    row: int
    line: int
    name: str
    smiles: str
    cells: Cells


@dataclass(frozen=True)
class Results:
    """A file of answers and where its pages begin.

    Attributes:
        path: the file, as `screen_file` wrote it.
        molecule: place of the column of the molecules.
        name: place of the column that names them, -1 when there is none.
        columns: our columns, under their usual names; they are the last ones of the file.
        lines: the line of a user's file that each row begins on.
        offsets: where each page begins, in bytes.
    """

    path: Path
    molecule: int
    name: int
    columns: tuple[str, ...]
    lines: Sequence[int]
    offsets: Sequence[int]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.lines)

    @property
    def pages(self) -> int:
        """How many pages there are; an empty table has one."""
        return max(1, -(-self.rows // PAGE))

    def page(self, number: int) -> list[ResultRow]:
        """The rows of a page, counted from 1."""
        first = (number - 1) * PAGE
        with self.path.open("rb") as file:
            file.seek(self.offsets[number - 1])
            records = list(islice(csv.reader(_lines(file)), PAGE))
        return [self._row(first + place, cells) for place, cells in enumerate(records, start=1)]

    def _row(self, number: int, cells: Sequence[str]) -> ResultRow:
        ours = zip(self.columns, cells[-len(self.columns) :], strict=True)
        return ResultRow(
            number,
            self.lines[number - 1],
            cells[self.name] if self.name >= 0 else "",
            cells[self.molecule],
            {column: _value(column, cell) for column, cell in ours},
        )


def open_results(path: Path, *, molecule: int, name: int, columns: Sequence[str], lines: Sequence[int]) -> Results:
    """Find the pages of a file of answers.

    Args:
        path: the file.
        molecule: place of the column of the molecules.
        name: place of the column that names them, or -1.
        columns: our columns.
        lines: the line of a user's file that each row begins on.

    Raises:
        DataError: a cell is too long to be read back.
    """
    offsets, rows = list[int](), 0
    with path.open("rb") as file:
        reader = csv.reader(_lines(file))
        try:
            next(reader)
            # The reader takes no line before it needs it, so the file stands where the next row begins.
            offsets.append(file.tell())
            for rows, _ in enumerate(reader, start=1):
                if rows % PAGE == 0:
                    offsets.append(file.tell())
        except csv.Error as error:
            raise DataError(f"row {rows + 1}: {error}; shorten the cell, or use `mphil predict`") from None
    return Results(path, molecule, name, tuple(columns), lines, offsets)


def name_column(columns: Sequence[str], molecule: int) -> int:
    """The place of the column that names the rows: one called name, title or id, else the first that is left, or -1."""
    others = [place for place in range(len(columns)) if place != molecule]
    for word in ("name", "title", "id"):
        for place in others:
            if columns[place].strip().lower() == word:
                return place
    return others[0] if others else -1


def _lines(file: BinaryIO) -> Iterator[str]:
    while line := file.readline():
        yield line.decode()


def _value(column: str, cell: str) -> str | float | None:
    if not cell:
        return None
    return float(cell) if is_number(column) else cell
