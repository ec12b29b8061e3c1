"""The option that adds methods, encoders and benchmarks of one's own, the same for every command that takes it."""

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
