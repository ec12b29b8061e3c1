"""`mphil explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from mphil.cli import show
from mphil.cli.options import Id, Plugins, Sheet, Smiles
from mphil.errors import Stopped, UsageError

SHOWN = 3
"""Molecules on the terminal, and parts of each."""


def explain(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")],
    molecules: Annotated[
        list[str] | None,
        typer.Argument(help="A table of molecules, or SMILES; without, only the prototypes are explained."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write: drawings, tables, index.html.")] = Path("explained"),
    smiles: Smiles = None,
    id_: Id = None,
    sheet: Sheet = None,
    target: Annotated[str | None, typer.Option(help="Target that the page is about. (default: the first)")] = None,
    by: Annotated[
        str | None,
        typer.Option(help="How atoms are scored: own, contribution, gradient or random. (default: own)"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of rows to explain.")] = 200,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Explain predictions: decisive atoms, ranked substructures, and what the prototypes stand for.

    Writes a drawing of every molecule, molecules.csv, substructures.csv, and index.html with the sphere as a map.
    """
    from mphil.explain.report import write_report
    from mphil.model.predictor import load

    predictor = load(bundle)
    rows = _rows(predictor, molecules or [], {"smiles": smiles, "id": id_, "sheet": sheet}, limit)
    command = " ".join(["mphil", *sys.argv[1:]])
    try:
        report = write_report(predictor, rows, out, target=target or "", by=cast(Any, by), command=command)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {out} is unchanged. The same command starts again.") from None
    if json:
        show.as_json({"out": str(out), **report.summary})
        return
    for note in report.notes:
        typer.echo(f"note: {note}", err=True)
    _print(report)
    typer.echo(f"drawings, tables and page: {out}")
    typer.echo(f"open this page: {(out / 'index.html').resolve()}")


def _rows(predictor: Any, given: list[str], told: dict[str, str | None], limit: int) -> Any:
    """What the arguments stand for: a table, of which something may be told, or molecules."""
    from mphil.chem.parse import SmilesError, parse_smiles
    from mphil.explain.report import RowsToExplain, read_rows

    files = [text for text in given if Path(text).exists()]
    if len(given) == 1 and files:
        column, name, sheet = (told[option] or "" for option in ("smiles", "id", "sheet"))
        return read_rows(Path(given[0]), predictor, column=column, limit=limit, sheet=sheet, name=name)
    if files:
        raise UsageError(f"{files[0]} is a file; give one file, or SMILES")
    for option, value in told.items():
        if value:
            what = "a sheet of a workbook" if option == "sheet" else "a column of a table"
            raise UsageError(f"--{option} names {what}; these are molecules")
    reasons = []
    for text in given:
        try:
            parse_smiles(text)
        except SmilesError as error:
            reasons.append(f"{text}: there is no such file, and {error}")
    if given and len(reasons) == len(given):
        raise UsageError(reasons[0])
    return RowsToExplain(given, "")


def _print(report: Any) -> None:
    """The first substructures of the first molecules, and where colours and removal disagree."""
    shown = list(zip(report.explained.rows, report.explained.explanations, strict=True))[:SHOWN]
    places = report.rows.places
    first = list(places)[-1]
    table = [
        [
            _shorten(str(places[first][row])),
            _shorten(one.smiles),
            _shorten(part.title),
            f"{part.importance:.2f}",
            part.told_change,
        ]
        for row, one in shown
        for part in one.substructures[:SHOWN]
    ]
    if table:
        header = [first, "molecule", "part", "importance", report.change]
        show.table(header, table, title=f"atoms scored by: {report.by}")
    for row, one in shown:
        if one.disagreement:
            typer.echo(show.printable(f"{report.rows.called[row]}: {one.disagreement}"))


def _shorten(text: str) -> str:
    shown = show.printable(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
