"""Where a number comes from: the version of the numerics, of the code and of the packages, and the machine."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from mphil.errors import UsageError
from mphil.nn import world
from mphil.nn.fast.compiling import compiler_version

NUMERICS = 1
"""Version of the numerics: runs of one number with the same settings, data and seed belong together.

It is raised exactly when a golden loss changes (see `tests/golden`); the version of the package says nothing about it.
"""
DECISIVE = ("benchmarks", "chem", "graphs", "methods", "nn", "tables", "training")
"""Rooms of the package whose sources decide the numbers of a run."""
PACKAGE = Path(__file__).parent
CODE_LENGTH = 12
GIT_SECONDS = 30


def versions() -> dict[str, str]:
    packages = ("mphil", "torch", "torch_geometric", "rdkit", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


@functools.cache
def code_digest(package: Path = PACKAGE) -> str:
    """Hash of the sources that decide numbers."""
    files = sorted(f for room in DECISIVE for f in (package / room).rglob("*.*") if f.suffix in (".py", ".c", ".h"))
    sha = hashlib.sha256()
    for file in files:
        sha.update(f"{file.relative_to(package).as_posix()}\n".encode() + file.read_bytes())
    return sha.hexdigest()[:CODE_LENGTH]


@functools.cache
def checkout(package: Path = PACKAGE) -> dict[str, Any]:
    """The commit of the git checkout that the package runs from, and whether its sources have uncommitted changes.

    Both are None where there is no such checkout: the package is installed, or git is missing. Asked once in the life
    of a process, which goes on with the sources it began with.
    """
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
    commit = None if tracked is None else _git(package, "rev-parse", "HEAD")
    changes = None if commit is None else _git(package, "status", "--porcelain", "--", ".")
    if commit is None or changes is None:
        return {"commit": None, "dirty": None}
    return {"commit": commit.strip(), "dirty": bool(changes.strip())}


def check_committed(package: Path = PACKAGE) -> None:
    """Refuse a checkout whose sources have uncommitted changes.

    Raises:
        UsageError: nobody could repeat what is recorded from here.
    """
    if checkout(package)["dirty"]:
        raise UsageError(
            f"{package} has uncommitted changes, so the records could not be repeated; commit them, or run with --dirty"
        )


def _git(folder: Path, *words: str) -> str | None:
    """What a git command prints; None where it fails or there is no git."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


def processor() -> str:
    """The model of the processor where the system tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "compiler": compiler_version(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": world.size(),
    }
