"""`mphil predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil predict runs/good-motif-basis-mphil-s0 --part ood_test --out predictions.csv")(
        predict
    )


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    part: Annotated[str, typer.Option(help="Part of the benchmark to predict.")] = "ood_test",
    out: Annotated[Path | None, typer.Option(help="CSV file to write. [default: RUN/predictions-PART.csv]")] = None,
    selection: Annotated[str, typer.Option(help="Rule that chose the epoch: ood_val or id_val.")] = "ood_val",
) -> None:
    """Write a CSV with the prediction for every graph of a part: label, predicted class, probabilities."""
    from mphil.training.saved import predict_run

    path = out or run / f"predictions-{part}.csv"
    rows = predict_run(run, part, selection, path)
    typer.echo(f"{rows} predictions: {path}")
