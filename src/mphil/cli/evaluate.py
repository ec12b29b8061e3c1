"""`mphil evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show
from mphil.cli.plugging import Plugins
from mphil.errors import UsageError


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil evaluate runs/good-motif-basis-mphil-s0 --selection id_val")(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of the bundle that it wrote.", metavar="RUN|BUNDLE")],
    selection: Annotated[
        str | None, typer.Option(help="With a run: rule that chose the epoch, ood_val or id_val. (default: ood_val)")
    ] = None,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score the saved model of a run on every part of its benchmark."""
    from mphil.model.bundle.manifest import is_bundle

    if is_bundle(run):
        from mphil.model.product.runs import evaluate_bundle

        if selection is not None:
            raise UsageError(f"--selection {selection}: a bundle holds one epoch; give the folder of the run instead")
        scores, metric, selection = evaluate_bundle(run)
    else:
        from mphil.training.saved import evaluate_run

        selection = selection or "ood_val"
        scores, metric = evaluate_run(run, selection)
    if json:
        show.as_json({"run": str(run), "selection": selection, "metric": metric, "scores": scores})
        return
    show.table(
        ["part", metric], [[part, show.number(value)] for part, value in scores.items()], f"chosen on {selection}"
    )
