"""`mphil demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli import show
from mphil.errors import Stopped


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil demo --out demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the two runs.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of both runs.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of both runs.")] = 15,
    graphs: Annotated[int, typer.Option(min=300, help="Molecules in all parts together.")] = 5_000,
) -> None:
    """Train ERM and MPHIL on molecules whose scaffolds shift, and write a page that shows what happened.

    Needs nothing but this package; takes about two minutes on two cores.
    """
    from mphil.lab.demo import run_demo

    typer.echo(f"training erm and mphil on {graphs:,} molecules, {epochs} epochs each", err=True)
    try:
        finished = run_demo(out, seed=seed, epochs=epochs, graphs=graphs)
    except KeyboardInterrupt:
        raise Stopped("stopped; everything so far is saved. The same command continues from here.") from None
    rows = []
    for run in finished.runs:
        for rule, chosen in run.result["selections"].items():
            scores = [show.number(chosen["scores"][part]) for part in ("id_test", "ood_val", "ood_test")]
            rows.append([run.config.method.name, rule, str(chosen["epoch"]), *scores])
    metric = finished.view.metric
    show.table(["method", "epoch chosen on", "epoch", "id_test", "ood_val", "ood_test"], rows, title=metric)
    typer.echo(f"open this page: {finished.page.resolve()}")
