"""The command line: one file per verb, no machine learning in any of them."""

from __future__ import annotations

import signal
import sys
from importlib.metadata import version
from types import FrameType
from typing import Annotated

import typer

from mphil.cli import (
    benchmarks,
    check,
    demo,
    doctor,
    encoders,
    evaluate,
    explain,
    export,
    lab,
    methods,
    new,
    predict,
    report,
    serve,
    sign,
    train,
)
from mphil.errors import DataError, MphilError, Stopped

app = typer.Typer(
    name="mphil",
    help="Graph classification that keeps working when the data shift.",
    epilog="Start with: mphil demo",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mphil {version('mphil')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


for verb in (
    demo,
    train,
    evaluate,
    predict,
    explain,
    report,
    serve,
    export,
    benchmarks,
    methods,
    encoders,
    check,
    lab,
    new,
    doctor,
    sign,
):
    verb.add_to(app)


def main() -> None:
    """Entry point of the `mphil` command: turns errors into one line and an exit code.

    0 done, 1 a bug (with a traceback), 2 usage, 3 data, a full disk or a folder that cannot be written, 4 integrity,
    130 interrupted by Ctrl-C, 143 ended by SIGTERM.
    """
    received = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        _run()
    except Stopped as end:
        if str(end):
            typer.echo(str(end), err=True)
        sys.exit(128 + signal.SIGTERM if received else end.exit_code)
    except MphilError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        typer.echo(f"error: cannot read or write {error.filename or 'a file'}: {error.strerror or error}", err=True)
        sys.exit(DataError.exit_code)


def _run() -> None:
    """Carry out the command; an interrupt that no command speaks about is a sentence too."""
    try:
        app()
    except SystemExit as end:
        if end.code == Stopped.exit_code:
            raise Stopped("stopped; give the same command again") from None
        raise
