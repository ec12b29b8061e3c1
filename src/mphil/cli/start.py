"""What a newcomer runs first: `mphil demo` and `mphil doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mphil.cli import show
from mphil.errors import Stopped


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
    """Show versions, cores and folders in use, and whether the fast path runs."""
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
    from mphil.nn.fast.compiling import compiler
    from mphil.nn.fast.library import products_pay, status

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
        "matrix products": "our own" if products_pay() else "the BLAS of torch",
        "cache folder": str(cache_folder()),
    }
