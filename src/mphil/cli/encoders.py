"""`mphil encoders`: list the networks that turn graphs into node features."""

from __future__ import annotations

from typing import Annotated

import typer

from mphil.cli import show
from mphil.cli.plugging import Plugins


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil train --benchmark good-motif-basis --set encoder.kind=gcn --out runs/gcn")(
        encoders
    )


def encoders(
    plugin: Plugins = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the encoders that `--set encoder.kind=NAME` takes."""
    from mphil.nn.encoders import ENCODERS, summary

    facts = [{"kind": name, "summary": summary(name), "edge_weight": ENCODERS[name].takes_weights} for name in ENCODERS]
    if json:
        show.as_json(facts)
        return
    rows = [[str(f["kind"]), str(f["summary"]), "yes" if f["edge_weight"] else "no"] for f in facts]
    show.table(["kind", "what it does", "edge weights"], rows)
    typer.echo("Any PyTorch module, such as torch_geometric.nn:GraphSAGE, is written as package.module:Class.")
