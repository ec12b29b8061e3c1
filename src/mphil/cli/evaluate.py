"""`mphil evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show
from mphil.cli.plugging import Plugins


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil evaluate runs/good-motif-basis-mphil-s0 --selection id_val")(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    selection: Annotated[str, typer.Option(help="Rule that chose the epoch: ood_val or id_val.")] = "ood_val",
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score the saved model of a run on every part of its benchmark."""
    from mphil.training.saved import evaluate_run

    scores, metric = evaluate_run(run, selection)
    if json:
        show.as_json({"run": str(run), "selection": selection, "metric": metric, "scores": scores})
        return
    show.table(
        ["part", metric], [[part, show.number(value)] for part, value in scores.items()], f"chosen on {selection}"
    )
