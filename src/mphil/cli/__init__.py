"""The command line: no machine learning in any of its files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import FrameType
from typing import Annotated

import typer

from mphil.cli import benchmarks, bundles, check, lab, methods, predict, start, train
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


def _add(command: Callable[..., None], example: str) -> None:
    app.command(epilog=f"Example: {example}")(command)


_add(start.demo, "mphil demo --out demo")
_add(
    train.train,
    "mphil train assay.csv --target active --out runs/first, or for researchers "
    "mphil train --benchmark good-motif-basis --method mphil --seed 0",
)
_add(train.resume, "mphil resume runs/first, or for researchers mphil resume runs/good-motif-basis-mphil-s0")
_add(
    bundles.evaluate,
    "mphil evaluate runs/first/bundle measured.csv, or for researchers "
    "mphil evaluate runs/good-motif-basis-mphil-s0 --selection id_val",
)
_add(
    predict.predict,
    "mphil predict runs/first/bundle new.csv --out answers.csv, or for researchers "
    "mphil predict runs/good-motif-basis-mphil-s0 --part ood_test",
)
_add(bundles.explain, "mphil explain runs/first/bundle new.csv --out why")
_add(bundles.report, "mphil report runs/first/bundle --out report.html")
_add(bundles.serve, "mphil serve runs/first/bundle --open")
_add(bundles.export, "mphil export runs/first/bundle --out model.onnx")
app.add_typer(benchmarks.verb, name="benchmarks", help="List the benchmarks, show one, or fetch its files.")
app.add_typer(methods.verb, name="methods", help="List the methods, or show one.")
_add(methods.encoders, "mphil train --benchmark good-motif-basis --set encoder.kind=gcn --out runs/gcn")
_add(check.check, "mphil check assay.csv --target active --split scaffold --html report.html")
app.add_typer(lab.verb, name="lab", help="Run sweeps, tune methods, write reports.")
app.add_typer(start.new, name="new", help="Write the template of a method, a benchmark or an encoder, and its test.")
_add(start.doctor, "mphil doctor")
_add(bundles.sign, "mphil sign runs/first/bundle --key ~/.ssh/id_ed25519")
_add(bundles.verify, "mphil verify runs/first/bundle --key alice.pub")


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
