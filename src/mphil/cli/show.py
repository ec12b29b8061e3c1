"""Printing for people (tables) and for machines (JSON)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer


def as_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """A plain table on stdout, wrapped to the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from mphil.pages.elements import printable

    grid = Table(*map(printable, header), box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for row in rows:
        grid.add_row(*map(printable, row))
    # Names come from files: one such as [red] is a name, not a colour.
    Console(markup=False, emoji=False).print(grid)


def one_line(text: str) -> str:
    """Text from a table on its way to a terminal, without control characters and ends of lines."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def score_table(result: dict[str, Any]) -> None:
    """The scores of a run: a row per selection rule, a column per part."""
    from mphil.graphs.split import PARTS

    rows = [
        [f"chosen on {rule}", str(chosen["epoch"]), *(number(chosen["scores"][part]) for part in PARTS)]
        for rule, chosen in result["selections"].items()
    ]
    rows.append(
        ["last epoch", str(result["last"]["epoch"]), *(number(result["last"]["scores"][part]) for part in PARTS)]
    )
    title = f"{result['method']} on {result['benchmark']}, {result['metric']}"
    table(["", "epoch", *PARTS], rows, title=title)
