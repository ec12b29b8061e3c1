"""Code of other people that adds methods, encoders and benchmarks: files, modules, and installed packages."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from mphil.errors import MphilError, UsageError

VARIABLE = "MPHIL_PLUGINS"
"""Environment variable: modules or files, separated by commas. Processes that are started here inherit it."""

Text = Field("", max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]*$")
"""A stored file may hold anything; what is shown on a terminal has no control characters."""


class Plugin(BaseModel):
    """Code outside mphil that a run or a bundle needs: what it is and where it came from.

    Attributes:
        kind: `method`, `encoder` or `benchmark`.
        name: what it is registered as.
        module: the module that defines it.
        file: name of its source file, without a folder; empty when it was defined in an interactive session.
        digest: SHA-256 of that file.
        package: the installed package whose entry point it is; empty when there is none.
        version: of that package.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = Text
    name: str = Text
    module: str = Text
    file: str = Text
    digest: str = Text
    package: str = Text
    version: str = Text

    @property
    def remedy(self) -> str:
        """What to do where it is missing."""
        if self.package:
            return f"install the package: pip install {shlex.quote(f'{self.package}=={self.version}')}"
        if self.file:
            return f"give the file that defines it: --plugin {shlex.quote(self.file)}"
        return "put its definition, which was given in an interactive session, into a file for --plugin"


def add_plugins(files: Iterable[Path]) -> None:
    """Import files now, and in all processes that are started from here on.

    Raises:
        UsageError: a file does not exist or cannot be imported.
    """
    listed = _listed()
    for file in files:
        path = str(file.resolve())
        if file.suffix != ".py" or not file.is_file():
            raise UsageError(f"--plugin {file}: no such Python file; list an installed module in {VARIABLE} instead")
        if "," in path:
            raise UsageError(f"--plugin {file}: a comma cannot be in its path; rename the file or its folder")
        _load(path)
        if path not in listed:
            listed.append(path)
    if listed:
        os.environ[VARIABLE] = ",".join(listed)


def load_plugins() -> frozenset[str]:
    """Import everything that the variable lists, unless it is imported already; returns the names of the modules.

    Raises:
        UsageError: something cannot be imported.
    """
    return frozenset(map(_load, _listed()))


def describe(kind: str, name: str, module: str, group: str = "") -> Plugin:
    """What is known of something that a module outside mphil has registered.

    Args:
        kind: what it is.
        name: what it is registered as.
        module: the module that defines it, which is imported.
        group: the entry points among which it may be.
    """
    source = getattr(sys.modules.get(module), "__file__", None)
    known = {"kind": kind, "name": name, "module": module}
    if source is not None and Path(source).is_file():
        known |= {"file": Path(source).name, "digest": hashlib.sha256(Path(source).read_bytes()).hexdigest()}
    point = next((point for point in installed(group) if point.name == name), None)
    if point is not None and point.dist is not None:
        known |= {"package": point.dist.name, "version": point.dist.version}
    return Plugin(**known)


def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group in all installed packages; nothing is imported."""
    return _installed(group, tuple(sys.path)) if group else ()


@lru_cache
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _listed() -> list[str]:
    entries = (entry.strip() for entry in os.environ.get(VARIABLE, "").split(","))
    return [entry for entry in entries if entry]


def _load(entry: str) -> str:
    is_file = entry.endswith(".py")
    name = Path(entry).stem if is_file else entry
    if name in sys.modules:
        found = getattr(sys.modules[name], "__file__", None)
        if is_file and (found is None or Path(found).resolve() != Path(entry).resolve()):
            raise UsageError(f"plug-in {entry}: a module {name} exists already; rename the file")
        return name
    try:
        if is_file:
            _import_file(name, Path(entry))
        else:
            importlib.import_module(name)
    except MphilError as error:
        raise UsageError(f"plug-in {entry}: {error}") from error
    except Exception as error:  # a plug-in may fail in any way
        raise UsageError(
            f"plug-in {entry} (--plugin or {VARIABLE}) cannot be imported: {type(error).__name__}: {error}"
        ) from error
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
