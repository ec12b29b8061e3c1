"""Options that several commands share: how a file of one's own is read, and which plug-ins are added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mphil.errors import UsageError


def _add(files: list[Path] | None) -> list[Path] | None:
    from mphil.registry import add_plugins

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


def check_molecules(given: Sequence[str], missing: str) -> None:
    """Refuse arguments of which not one is a molecule.

    Args:
        given: the arguments; the first may be a mistyped file.
        missing: what is said of a file that does not exist.
    """
    from mphil.chem.parse import SmilesError, parse_smiles

    reasons = []
    for text in given:
        try:
            parse_smiles(text)
        except SmilesError as error:
            reasons.append(f"{text}: {missing}, and {error}")
    if given and len(reasons) == len(given):
        raise UsageError(reasons[0])


Smiles = Annotated[str | None, typer.Option(help="Column of the molecules. (default: detected)")]
Id = Annotated[str | None, typer.Option("--id", help="Column that names the rows. (default: detected)")]
Sheet = Annotated[str | None, typer.Option(help="Sheet of a workbook. (default: the first that has molecules)")]
Targets = Annotated[list[str] | None, typer.Option(help="Column of labels, one or more. (default: detected)")]
TestFile = Annotated[
    Path | None, typer.Option(help="External test set: another file with the same columns, never trained on.")
]
DateFormat = Annotated[
    str | None, typer.Option(help="Format of the dates to split by, such as %d/%m/%Y. (default: detected)")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        parser=decimal, metavar="NUMBER", help="Turns a measured --target into two classes: active at or above it."
    ),
]
ActiveBelow = Annotated[bool, typer.Option("--active-below", help="With --threshold: active at or below it.")]
Standardise = Annotated[
    bool,
    typer.Option("--standardise/--no-standardise", help="Keep the largest organic fragment, neutralised where safe."),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        help="Contradicting rows of one molecule: majority (of measurements: the median), keep or drop. "
        "(default: majority)"
    ),
]
TaskKind = Annotated[
    str | None,
    typer.Option("--task", help="classification or regression. (default: measured columns make a regression)"),
]
