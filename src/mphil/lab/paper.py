"""The figures of the paper, as they were printed: mean and standard deviation in per cent."""

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
    """A cell of a table of the paper."""

    mean: float
    sd: float


@cache
def printed(table: str) -> dict[tuple[str, str], Printed]:
    """(row, benchmark) to the figures of a table, with rows called as they are here.

    Example:
        >>> printed("good")["erm", "good-motif-basis"]
        Printed(mean=60.93, sd=2.11)
    """
    text = files("mphil.lab").joinpath("paper_results.csv").read_text(encoding="utf-8")
    return {
        (row_name(line["method"]), line["benchmark"]): Printed(float(line["mean"]), float(line["std"]))
        for line in csv.DictReader(io.StringIO(text))
        if line["table"] == table and line["mean"]
    }


def row_name(printed_name: str) -> str:
    """What a row of the paper is called here; the variants of the ablation keep their names."""
    if printed_name.startswith("w/o"):
        return printed_name
    return ROWS.get(printed_name, printed_name.lower())
