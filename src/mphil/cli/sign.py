"""`mphil sign` and `mphil verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")]


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil sign runs/first/bundle --key ~/.ssh/id_ed25519")(sign)
    app.command(epilog="Example: mphil verify runs/first/bundle --key alice.pub")(verify)


def sign(
    bundle: Folder,
    key: Annotated[Path, typer.Option(help="Your OpenSSH private key, or the public key of one in the agent.")],
) -> None:
    """Sign a bundle with an SSH key, so that others can check that it comes from you."""
    from mphil.model.bundle.signature import sign_bundle

    typer.echo(f"signature: {sign_bundle(bundle, key.expanduser())}")


def verify(
    bundle: Folder,
    key: Annotated[
        Path | None, typer.Option(help="OpenSSH public key of the expected signer. (default: check the files only)")
    ] = None,
) -> None:
    """Check every file of a bundle, and who signed it."""
    from mphil.model.bundle.signature import is_signed, verify_bundle

    digest = verify_bundle(bundle, None if key is None else key.expanduser())
    typer.echo(f"bundle: complete and unchanged, sha256 {digest}")
    if key is not None:
        typer.echo(f"signature: valid, by the key in {key}")
    elif is_signed(bundle):
        typer.echo("signature: present, not checked; --key PUBLIC_KEY checks whose it is")
    else:
        typer.echo("signature: none")
