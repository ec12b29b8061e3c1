"""A table of named things that files fill in by themselves."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar

from mphil.errors import UnknownName
from mphil.plugins import load_plugins

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to objects. Entries register when their module is imported.

    Before the first look into it, all modules of a package are imported, and the user's plugins (see `plugins.py`).

    Example:
        >>> colours = Registry[int]("colour")
        >>> colours.add("red", 0xFF0000)
        >>> colours["red"] == 0xFF0000
        True
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> None:
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> T:
        self._discover()
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownName(self.kind, name, self._entries) from None

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self._discover()
        return len(self._entries)

    def _discover(self) -> None:
        if self._package is None:
            return
        package, self._package = importlib.import_module(self._package), None
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
        load_plugins()
