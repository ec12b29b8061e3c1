"""What a newcomer runs first: `mphil demo`, `mphil doctor`, and `mphil new` with its templates."""

from __future__ import annotations

import keyword
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated, Any

import typer

from mphil.cli import show
from mphil.errors import Stopped, UsageError


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


PACKAGES = ("torch", "torch_geometric", "rdkit", "numpy", "scipy", "scikit-learn")


def doctor(json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Show versions, cores and folders in use, and whether the compiled loops run."""
    facts = _facts()
    if json:
        show.as_json(facts)
        return
    show.table(["what", "value"], [[name, str(value)] for name, value in facts.items()])


def _facts() -> dict[str, Any]:
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from mphil.graphs.cache import cache_folder
    from mphil.nn.fast.chains import products_run
    from mphil.nn.fast.compiling import compiler
    from mphil.nn.fast.library import status

    def installed(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "missing"

    fast = status()
    return {
        "mphil": installed("mphil"),
        "python": platform.python_version(),
        **{package: installed(package) for package in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "C compiler": compiler() or "none",
        "encoder on the CPU": "fast" if fast.library is not None else "pure torch",
        "because": fast.reason,
        "matrix products": products_run(),
        "cache folder": str(cache_folder()),
    }


new = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name, also of the file: letters, digits, underscores.")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]


@new.command(epilog="Example: mphil new method my_method")
def method(name: Name, out: Out = Path()) -> None:
    """Write NAME.py, a method to change, and test_NAME.py, which passes."""
    from mphil.methods import METHODS

    _write("method", name, name in METHODS, out, f"--method {name} --benchmark good-motif-basis")


@new.command(epilog="Example: mphil new benchmark my_graphs")
def benchmark(name: Name, out: Out = Path()) -> None:
    """Write NAME.py, a benchmark of PyG graphs to change, and test_NAME.py, which passes."""
    from mphil.benchmarks import BENCHMARKS

    _write("benchmark", name, name in BENCHMARKS, out, f"--benchmark {name}")


@new.command(epilog="Example: mphil new encoder my_gnn")
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
