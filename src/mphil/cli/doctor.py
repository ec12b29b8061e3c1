"""`mphil doctor`: what this installation runs on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mphil.cli import show

PACKAGES = ("torch", "torch_geometric", "rdkit", "numpy", "scipy", "scikit-learn")


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: mphil doctor")(doctor)


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
