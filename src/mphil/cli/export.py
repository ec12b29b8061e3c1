"""`mphil export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from mphil.cli import show
from mphil.cli.plugging import Plugins


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil export runs/first/bundle --out model.onnx")(export)


def export(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")],
    out: Annotated[Path, typer.Option(help="File to write; a description in JSON is written beside it.")],
    format: Annotated[str | None, typer.Option(help="torch or onnx. (default: by OUT: .pt2 or .onnx)")] = None,
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print the description as JSON.")] = False,
) -> None:
    """Write the model part of a bundle for other programs: torch.export, or ONNX.

    The file takes the tensors of a batch of graphs and gives logits and embeddings. It is compared with the original on
    training molecules first, and not written if the outputs differ.
    """
    from mphil.model.export import export_model
    from mphil.model.predictor import load

    made = export_model(load(bundle), out, cast(Any, format))
    if json:
        show.as_json({"file": str(made.path), "about": str(made.about), **made.facts})
        return
    if note := made.facts["note"]:
        typer.echo(f"note: {note}", err=True)
    check = made.facts["check"]
    typer.echo(f"largest difference from the original: {made.difference:.2g}, {check['allowed']:g} is allowed")
    typer.echo(f"compared on {check['graphs']}, in batches of {', '.join(map(str, check['batches_of']))}")
    typer.echo(f"model: {made.path}")
    typer.echo(f"description: {made.about}")
