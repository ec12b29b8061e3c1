"""Tables that a training writes beside its bundle."""

from __future__ import annotations

from mphil.benchmarks.own_data import OwnData
from mphil.tables.spreadsheet import csv_text

ISSUES = "issues.csv"
PARTS = "parts.csv"


def parts_table(own: OwnData) -> str:
    """Every row with its part, as CSV; `--split parts.csv` reads it back.

    Rows count from 1 below the header, as in the table of issues; a row in no part has an empty one.
    """
    survey, data = own.survey, own.benchmark
    part = {row: name for name, graphs in data.split for row in data.store.index[graphs].tolist()}
    molecule = dict(zip(survey.row.tolist(), survey.keys.values(), strict=True))
    kept = zip(survey.row.tolist(), survey.line.tolist(), survey.names, strict=True)
    rows = [(row, line, name, molecule[row], part.get(row, "")) for row, line, name in kept]
    rows += [(one.row, one.line, one.id, molecule[into], part.get(into, "")) for one, into in survey.merged.items()]
    rows += [(bad.row, bad.line, bad.id, "", "") for bad in survey.bad if bad.row not in molecule]
    header: list[list[object]] = [["row", "line", "id", "smiles", "part"]]
    cells: list[list[object]] = [*header, *([row + 1, *rest] for row, *rest in sorted(rows))]
    return csv_text(cells if survey.ids is not None else [[*row[:2], *row[3:]] for row in cells])
