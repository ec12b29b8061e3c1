"""`mphil check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mphil.cli import show
from mphil.cli.options import (
    ActiveBelow,
    DateFormat,
    Duplicates,
    Id,
    Sheet,
    Smiles,
    Standardise,
    Targets,
    TaskKind,
    TestFile,
    Threshold,
)

if TYPE_CHECKING:
    from mphil.tables.inspection import Report

SHOWN = 10
"""Rows of a list on the terminal."""


def check(
    path: Annotated[
        Path, typer.Argument(help="CSV, TSV, XLSX, parquet, SDF or .smi file, plain or gzip; or a graph folder.")
    ],
    smiles: Smiles = None,
    target: Targets = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            help="scaffold, cluster, size, time, random, predefined, a column, or a table of parts. "
            "(default: all that make sense)"
        ),
    ] = None,
    test: TestFile = None,
    date_format: DateFormat = None,
    threshold: Threshold = None,
    active_below: ActiveBelow = False,
    standardise: Standardise = True,
    duplicates: Duplicates = None,
    id_: Id = None,
    sheet: Sheet = None,
    task: TaskKind = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page with pictures.")] = None,
    rows: Annotated[Path | None, typer.Option(help="Write a CSV with the status of every row.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Look at your own data without training: rows that cannot be used, duplicates, labels, splits."""
    from mphil.progress import row_counter
    from mphil.tables.inspection import check as gather

    with row_counter() as progress:
        report = gather(
            path,
            smiles=smiles,
            targets=target or (),
            splits=split or (),
            test=test,
            date_format=date_format or "",
            threshold=threshold,
            active_below=active_below,
            standardise=standardise,
            duplicates=duplicates or "majority",
            id=id_,
            sheet=sheet,
            task=task or "",
            progress=progress,
        )
    if html:
        from mphil.files import write_text
        from mphil.pages.check_page import check_page

        write_text(html, check_page(report))
    if rows:
        _write_rows(report, rows)
    if json:
        show.as_json(report.as_dict())
        return
    _print(report)
    if html:
        typer.echo(f"page: {html}")
    if rows:
        typer.echo(f"status of every row: {rows}")


def _write_rows(report: Report, path: Path) -> None:
    from mphil.files import write_text
    from mphil.tables.write import issue_table

    survey = report.survey
    write_text(path, issue_table(survey.statuses(), named=survey.ids is not None))


def _print(report: Report) -> None:
    facts = report.as_dict()
    aside = facts["set_aside"]
    merged = f", {facts['merged']:,} merged" if facts["merged"] else ""
    count = f"{facts['rows']:,} rows, {facts['usable']:,} {report.noun}; {aside['rows']:,} excluded{merged}"
    typer.echo(f"{report.path}: {count}")
    for note in facts["notes"]:
        typer.echo(f"note: {note}")
    if report.roles:
        columns = [[n, c["role"], c["why"]] for n, c in facts["columns"].items() if c["role"] != "unused"]
        show.table(["column", "role", "why"], [list(map(_safe, row)) for row in columns[: 2 * SHOWN]])
        if len(columns) > 2 * SHOWN:
            typer.echo(f"and {len(columns) - 2 * SHOWN:,} more columns with a role")
    if aside["rows"]:
        typer.echo("excluded: " + ", ".join(f"{code} {count:,}" for code, count in aside["reasons"].items()))
        named = any(bad["id"] for bad in aside["first"])
        first = [
            [f"{bad['line']:,}", *([_safe(bad["id"])] if named else []), bad["status"], _safe(bad["message"])]
            for bad in aside["first"][:SHOWN]
        ]
        show.table(["line", *(["id"] if named else []), "reason", "what is wrong"], first)
    _print_labels(facts)
    _print_splits(facts)


def _print_labels(facts: dict[str, Any]) -> None:
    doubled, conflicts = facts["duplicates"], facts["conflicts"]
    rows = "row" if doubled["surplus_rows"] == 1 else "rows"
    typer.echo(
        f"duplicates: {doubled['molecules']:,} occur more than once ({doubled['surplus_rows']:,} surplus {rows}), "
        f"{conflicts['molecules']:,} with labels that contradict each other"
    )
    labels = []
    for name, target in list(facts["targets"].items())[: 2 * SHOWN]:
        classes = " ".join(f"{_safe(c)}:{count:,}" for c, count in list(target["classes"].items())[:SHOWN])
        if target["range"]:
            classes = "{:g} to {:g}".format(*target["range"])
        labels.append([_safe(name), target["kind"], classes or "-", f"{target['missing']:,}"])
    if labels:
        show.table(["target", "kind", "rows of each class, or range", "missing"], labels)
    if len(facts["targets"]) > len(labels):
        typer.echo(f"and {len(facts['targets']) - len(labels):,} more targets")


def _print_splits(facts: dict[str, Any]) -> None:
    from mphil.graphs.split import PARTS

    rows = []
    for name, split in facts["splits"].items():
        if split["possible"]:
            counts = [f"{part['rows']:,}" for part in split["parts"].values()]
            domains = "-" if split["domains"] is None else f"{split['domains']:,}"
            rows.append([_safe(name), domains, *counts, f"{split['shared_molecules']:,}"])
    if rows:
        header = ["split", "domains", *PARTS, "overlap"]
        show.table(header, rows, title="what each split would look like")
    if any(split.get("hardness") for split in facts["splits"].values()):
        typer.echo("how hard each split is, by the median similarity of test molecules to the nearest in training:")
    for name, split in facts["splits"].items():
        if not split["possible"]:
            typer.echo(f"split {_safe(name)} is not possible: {show.one_line(split['obstacle'])}")
        if split.get("hardness"):
            typer.echo(f"split {_safe(name)}: {split['hardness']}")
        for what in split.get("merged", ()):
            typer.echo(f"split {_safe(name)}: {what}")


def _safe(text: str) -> str:
    """Text from a table on its way to a terminal: no control characters, not too long."""
    clean = show.one_line(text)
    return clean if len(clean) <= 160 else f"{clean[:157]}..."
