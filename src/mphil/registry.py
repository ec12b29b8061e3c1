"""Tables of named things, filled by our files and by plug-ins: files, modules and packages of other people."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import os
import pkgutil
import shlex
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from mphil.errors import MphilError, UnknownName, UsageError

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


T = TypeVar("T")
INTERACTIVE = "__main__"
"""The module of a script or a notebook, where a definition may be given again."""
_LOG = logging.getLogger(__name__)


class Registry(Generic[T]):
    """Names to objects. Entries register when their module is imported.

    Before the first look into it, all modules of a package are imported, and the files and modules that the user lists
    (see `registry.py`). Entry points of installed packages are loaded when a name is not among those, or all are asked
    for; one that cannot be loaded is named in a warning and disturbs no other.

    Args:
        kind: what an entry is called in messages.
        package: the package whose modules are imported.
        group: the group of entry points by which other packages add to it; an entry point is called as what it adds.

    Example:
        >>> colours = Registry[int]("colour")
        >>> colours.add("red", 0xFF0000)
        >>> colours["red"] == 0xFF0000
        True
    """

    def __init__(self, kind: str, package: str | None = None, group: str = "") -> None:
        self.kind = kind
        self.group = group
        self._package = package
        self._imported = package is None
        self._listed = package is None
        self._entries: dict[str, T] = {}
        self._modules: dict[str, str] = {}
        self._tried: set[EntryPoint] = set()
        self._broken: dict[str, str] = {}

    def add(self, name: str, entry: T, module: str = "") -> None:
        """Put something into the table.

        Args:
            name: what people type.
            entry: what it stands for.
            module: the module that defines it.

        Raises:
            UsageError: the name is taken.
        """
        if module and self._package and not self._is_ours(module):
            self._import_package()  # a name of ours is taken, even if nobody has asked for it yet
        if name in self._entries and not module == self._modules.get(name) == INTERACTIVE:
            owner = self._modules.get(name, "")
            raise UsageError(
                f"{self.kind} {name!r} is registered twice"
                + (f", by {owner} and by {module}; give one of them another name" if owner and module else "")
            )
        self._entries[name] = entry
        self._modules[name] = module

    def __getitem__(self, name: str) -> T:
        if name in self:
            return self._entries[name]
        if name in self._broken:
            raise UsageError(self._broken[name])
        raise UnknownName(self.kind, name, self._entries)

    def __contains__(self, name: object) -> bool:
        self._discover()
        if name not in self._entries:
            self._load_installed()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._discover()
        self._load_installed()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def plugin(self, name: str) -> Plugin | None:
        """What is known of an entry that another package or file has added; None for our own."""
        module = self._modules.get(name, "") if name in self else ""
        return None if not module or self._is_ours(module) else describe(self.kind, name, module, self.group)

    def _is_ours(self, module: str) -> bool:
        return f"{module}.".startswith(f"{self._package}.")

    def _discover(self) -> None:
        self._import_package()
        if self._listed:
            return
        self._listed = True  # a plug-in may look into the table itself
        try:
            load_plugins()
        except UsageError:
            self._listed = False
            raise

    def _import_package(self) -> None:
        if self._imported or self._package is None:
            return
        self._imported = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")

    def _load_installed(self) -> None:
        """Load the entry points that have not been tried yet."""
        for point in installed(self.group):
            if point in self._tried:
                continue
            self._tried.add(point)
            try:
                point.load()
                reason = "" if point.name in self._entries else f"it registers no {self.kind} of that name"
            except Exception as error:  # a plug-in may fail in any way
                reason = f"{type(error).__name__}: {error}"
            if reason:
                package = point.dist.name if point.dist is not None else "an unknown package"
                self._broken[point.name] = (
                    f"{self.kind} {point.name!r}: the plug-in {point.value} of {package} cannot be loaded ({reason}); "
                    "repair or uninstall that package"
                )
                _LOG.warning("%s", self._broken[point.name])
