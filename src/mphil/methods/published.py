"""Hyperparameters that were published for a method on a benchmark: one file a method, in the folder `published`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from mphil.errors import UsageError

T = TypeVar("T")
PRESET = "published"
"""Name of the preset that takes these values; every method has it."""


@dataclass(frozen=True)
class Published:
    """The published settings of a method.

    Attributes:
        source: where they were published.
        tables: hyperparameters by benchmark, or by the first words of the names of several benchmarks.
        epochs: of the published runs, likewise; where these stopped early, the fewest they can have had.
        encoder: settings of the GNN, likewise, where the method's authors have a network of their own.
    """

    source: str = ""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    encoder: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@cache
def read_published(method: str) -> Published:
    """All that was published for a method; nothing when there is no file."""
    file = files("mphil.methods").joinpath("published", f"{method}.toml")
    if not file.is_file():
        return Published()
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    source, epochs, encoder = content.pop("source"), content.pop("epochs", {}), content.pop("encoder", {})
    return Published(source, content, epochs, encoder)


def published(method: str, benchmark: str) -> dict[str, Any]:
    """The hyperparameters that were published for a method on a benchmark; the most specific table wins.

    Raises:
        UsageError: there are none; the message names those there are.

    Example:
        >>> published("vrex", "good-motif-basis"), published("vrex", "good-motif-basis-concept")
        ({'weight': 100.0}, {'weight': 1000.0})
    """
    tables = read_published(method).tables
    found = _most_specific(tables, benchmark)
    if found is None:
        known = ", ".join(tables) or "none at all"
        raise UsageError(
            f"preset {PRESET}: no settings of {method} were published for {benchmark or 'unnamed data'}, only for: "
            f"{known}; leave the preset out to take the defaults"
        )
    return dict(found)


def published_encoder(method: str, benchmark: str) -> dict[str, Any]:
    """The settings of the GNN that the authors of a method have on a benchmark; nothing where they are not known.

    Example:
        >>> published_encoder("gala", "drugood-ec50-size")["readout"]
        'sum'
    """
    return dict(_most_specific(read_published(method).encoder, benchmark) or {})


def published_epochs(method: str, benchmark: str) -> int:
    """The epochs of the published runs of a method on a benchmark; 0 where they are not known."""
    return _most_specific(read_published(method).epochs, benchmark) or 0


def _most_specific(tables: Mapping[str, T], benchmark: str) -> T | None:
    """The entry whose name is the longest beginning, in whole words, of the benchmark's."""
    matching = [name for name in tables if f"{benchmark}-".startswith(f"{name}-")]
    return tables[max(matching, key=len)] if matching else None
