"""The figures of the paper and of others, as they were printed: mean and standard deviation in per cent."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

TABLES = ("ablation", "drugood", "good", "spmotif-binary")
ROWS = {"CIGA": "ciga-v2", "G-mixup": "gmixup"}
"""Rows that are called otherwise here; a method's name here is else the paper's in small letters."""


@dataclass(frozen=True)
class Printed:
    """A printed figure; the standard deviation is None where none was given."""

    mean: float
    sd: float | None = None


@cache
def printed(table: str) -> dict[tuple[str, str], Printed]:
    """(row, benchmark) to the figures of a table, with rows called as they are here.

    Example:
        >>> printed("good")["erm", "good-motif-basis"]
        Printed(mean=60.93, sd=2.11)
    """
    return {
        (row_name(line["method"]), line["benchmark"]): Printed(float(line["mean"]), float(line["std"]))
        for line in _lines("paper_results.csv")
        if line["table"] == table and line["mean"]
    }


@cache
def reported() -> dict[tuple[str, str], dict[str, Printed]]:
    """(method, benchmark) to figures that others than the paper report, by who does.

    Example:
        >>> reported()["erm", "good-motif-size"]
        {'GOOD leaderboard': Printed(mean=53.46, sd=4.08)}
    """
    found: dict[tuple[str, str], dict[str, Printed]] = {}
    for line in _lines("reported.csv"):
        figure = Printed(float(line["mean"]), float(line["std"]) if line["std"] else None)
        found.setdefault((line["method"], line["benchmark"]), {})[line["source"]] = figure
    return found


def _lines(name: str) -> list[dict[str, str]]:
    text = files("mphil.lab").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def row_name(printed_name: str) -> str:
    """What a row of the paper is called here; the variants of the ablation keep their names."""
    if printed_name.startswith("w/o"):
        return printed_name
    return ROWS.get(printed_name, printed_name.lower())
