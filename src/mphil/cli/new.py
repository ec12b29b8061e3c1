"""`mphil new`: templates of a method, a benchmark and an encoder."""

from __future__ import annotations

import keyword
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from mphil.errors import UsageError

verb = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name, also of the file: letters, digits, underscores.")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]


@verb.command(epilog="Example: mphil new method my_method")
def method(name: Name, out: Out = Path()) -> None:
    """Write NAME.py, a method to change, and test_NAME.py, which passes."""
    from mphil.methods import METHODS

    _write("method", name, name in METHODS, out, f"--method {name} --benchmark good-motif-basis")


@verb.command(epilog="Example: mphil new benchmark my_graphs")
def benchmark(name: Name, out: Out = Path()) -> None:
    """Write NAME.py, a benchmark of PyG graphs to change, and test_NAME.py, which passes."""
    from mphil.benchmarks import BENCHMARKS

    _write("benchmark", name, name in BENCHMARKS, out, f"--benchmark {name}")


@verb.command(epilog="Example: mphil new encoder my_gnn")
def encoder(name: Name, out: Out = Path()) -> None:
    """Write NAME.py, an encoder to change, and test_NAME.py, which passes."""
    from mphil.nn.encoders import ENCODERS

    _write("encoder", name, name in ENCODERS, out, f"--set encoder.kind={name} --benchmark good-motif-basis")


def _write(kind: str, name: str, taken: bool, out: Path, usage: str) -> None:
    """Write the two files of a template, or neither."""
    from mphil.files import write_text

    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a valid name of a Python module; use letters, digits and underscores")
    if taken:
        raise UsageError(f"a {kind} {name!r} exists already, see `mphil {kind}s`; choose another name")
    texts = {out / f"{name}.py": f"{kind}.txt", out / f"test_{name}.py": f"test_{kind}.txt"}
    for path in texts:
        if path.exists():
            raise UsageError(f"{path} exists and is not overwritten; choose another name or --out")
    if find_spec(name) is not None:
        raise UsageError(f"a Python module {name!r} exists already and would be hidden; choose another name")
    title = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    out.mkdir(parents=True, exist_ok=True)
    for path, template in texts.items():
        text = files("mphil.cli").joinpath("templates", template).read_text(encoding="utf-8")
        write_text(path, Template(text).substitute(name=name, title=title))
    code, test = texts
    typer.echo(f"written: {code}, {test}")
    typer.echo(f"next: python -m pytest {test} · mphil train --plugin {code} {usage}")
