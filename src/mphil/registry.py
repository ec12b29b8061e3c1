"""A table of named things that files fill in by themselves."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Generic, TypeVar

from mphil.errors import UnknownName, UsageError
from mphil.plugins import Plugin, describe, installed, load_plugins

T = TypeVar("T")
INTERACTIVE = "__main__"
"""The module of a script or a notebook, where a definition may be given again."""
_LOG = logging.getLogger(__name__)


class Registry(Generic[T]):
    """Names to objects. Entries register when their module is imported.

    Before the first look into it, all modules of a package are imported, and the files and modules that the user lists
    (see `plugins.py`). Entry points of installed packages are loaded when a name is not among those, or all are asked
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
