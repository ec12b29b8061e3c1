"""Options that several commands share: how a file of one's own is read, and which plug-ins are added."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _add(files: list[Path] | None) -> list[Path] | None:
    from mphil.plugins import add_plugins

    add_plugins(files or ())
    return files


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=_add,
        is_eager=True,
        help="Python file with methods, encoders or benchmarks of your own; may be repeated.",
    ),
]


def decimal(text: str) -> float:
    """A number of the command line, also with a decimal comma.

    Example:
        >>> decimal("6,5"), decimal("6.5")
        (6.5, 6.5)
    """
    try:
        return float(text.replace(",", "."))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number; write it like 6.5") from None


Smiles = Annotated[str | None, typer.Option(help="Column of the molecules. (default: found)")]
Id = Annotated[str | None, typer.Option("--id", help="Column that names the rows. (default: found)")]
Sheet = Annotated[str | None, typer.Option(help="Sheet of a workbook. (default: the first that has rows)")]
Targets = Annotated[list[str] | None, typer.Option(help="Column of labels, one or more. (default: found)")]
TestFile = Annotated[
    Path | None, typer.Option(help="External test set: another file with the same columns, never trained on.")
]
DateFormat = Annotated[
    str | None, typer.Option(help="Form of the dates to split by, such as %d/%m/%Y. (default: found)")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        parser=decimal, metavar="NUMBER", help="Makes classes of a measured --target: active is at or above it."
    ),
]
ActiveBelow = Annotated[bool, typer.Option("--active-below", help="With --threshold: active is at or below it.")]
Standardise = Annotated[
    bool,
    typer.Option(
        "--standardise/--no-standardise", help="Largest organic fragment of each molecule, neutral where safe."
    ),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        help="Rows of one molecule that contradict each other: keep, drop or majority, which of measurements is "
        "the median. (default: majority)"
    ),
]
TaskKind = Annotated[
    str | None,
    typer.Option("--task", help="classification or regression. (default: measured columns make a regression)"),
]
