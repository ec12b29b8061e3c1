"""Code of the user's own that is imported because the environment says so."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path

from mphil.errors import UsageError

VARIABLE = "MPHIL_PLUGINS"
"""Environment variable: modules or files, separated by commas."""


def load_plugins() -> frozenset[str]:
    """Import everything that the variable lists, unless it is imported already; returns the names of the modules.

    Raises:
        UsageError: something cannot be imported.
    """
    entries = (entry.strip() for entry in os.environ.get(VARIABLE, "").split(","))
    return frozenset(_load(entry) for entry in entries if entry)


def _load(entry: str) -> str:
    is_file = entry.endswith(".py")
    name = Path(entry).stem if is_file else entry
    if name in sys.modules:
        found = getattr(sys.modules[name], "__file__", None)
        if is_file and (found is None or Path(found).resolve() != Path(entry).resolve()):
            raise UsageError(f"{VARIABLE}: {entry}: a module {name} exists already; rename the file")
        return name
    try:
        if is_file:
            _import_file(name, Path(entry))
        else:
            importlib.import_module(name)
    except Exception as error:  # a plugin may fail in any way
        raise UsageError(f"{VARIABLE}: {entry} cannot be imported: {type(error).__name__}: {error}") from error
    return name


def _import_file(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
