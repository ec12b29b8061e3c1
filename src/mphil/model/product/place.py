"""The folder of a training: held by one process, and refused when it holds something else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mphil.benchmarks.own_data import OwnData
from mphil.errors import IntegrityError, UsageError
from mphil.files import write_json
from mphil.tables.spreadsheet import csv_text
from mphil.training.process import lock_run

MARKER = "product.json"
ISSUES = "issues.csv"
PARTS = "parts.csv"
FORMAT = 1


@contextmanager
def held(out: Path, method: str) -> Iterator[None]:
    """Hold a folder for a training: new, empty, or one that holds a training of this method.

    Raises:
        UsageError: it holds something else.
        IntegrityError: another process is at work in it, or its marker is damaged.
    """
    marker = out / MARKER
    check_free(out, method)
    with lock_run(out):
        if not marker.exists():
            write_json(marker, {"format": FORMAT, "method": method})
        yield


def check_free(out: Path, method: str) -> None:
    """Refuse a folder that cannot hold a training of this method, before any time is spent; it is not touched.

    Args:
        out: the folder.
        method: name of the method; empty when it is not known yet.

    Raises:
        UsageError: it holds something else.
        IntegrityError: another process is at work in it, or its marker is damaged.
    """
    marker = out / MARKER
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file; choose another --out")
    if not marker.exists():
        others = [path.name for path in out.iterdir() if not path.name.startswith((".lock", f".{MARKER}."))]
        if others:
            raise UsageError(f"{out} is not empty ({', '.join(sorted(others)[:3])}); choose another --out")
        return
    if (before := _method_of(marker)) != (method or before):
        raise UsageError(f"{out} holds a training of {before[:60]}, not of {method}; choose another --out")
    with lock_run(out):
        pass


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


def _method_of(marker: Path) -> str:
    try:
        return str(json.loads(marker.read_bytes())["method"])
    except (OSError, ValueError, KeyError, TypeError):
        raise IntegrityError(f"{marker} cannot be read; restore it or choose another --out") from None
