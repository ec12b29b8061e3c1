"""`mphil serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mphil.cli.plugging import Plugins
from mphil.errors import Stopped, UsageError

LOCAL = ("127.0.0.1", "localhost", "::1")


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil serve runs/first/bundle --open")(serve)


def serve(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle, as `mphil train FILE` writes it.")],
    host: Annotated[str, typer.Option(help="Address to listen on. (default: this machine alone)")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8765,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further host name that browsers may use; may be repeated.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    plugin: Plugins = None,
) -> None:
    """Serve a page on this machine: paste molecules or send a file, see answers, reasons, warnings and the map.

    Programs use the same address: /docs lists the operations. Nothing leaves this machine. Ctrl-C stops it.
    """
    try:
        from mphil.serve import serve as listen
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise UsageError("mphil serve needs FastAPI and uvicorn; install them: pip install 'mphil[serve]'") from None
    from mphil.model.predictor import load

    predictor = load(bundle)
    for note in predictor.notes:
        typer.echo(f"note: {note}", err=True)
    if host not in LOCAL:
        typer.echo(f"note: anyone who can reach {host} can use this page; there is no password", err=True)

    def ready(address: str) -> None:
        typer.echo(f"open this page: {address}   (Ctrl-C stops the server)")
        if open_page:
            typer.launch(address)

    try:
        listen(predictor, host=host, port=port, allow=allow_host or (), ready=ready)
    except KeyboardInterrupt:
        raise Stopped("stopped") from None
