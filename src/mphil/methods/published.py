"""Hyperparameters that were published for a method on a benchmark: one file a method, in the folder `published`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from mphil.errors import UsageError

PRESET = "published"
"""Name of the preset that takes these values; every method has it."""


@dataclass(frozen=True)
class Published:
    """The published settings of a method.

    Attributes:
        source: where they were published.
        tables: hyperparameters by benchmark, or by the first words of the names of several benchmarks.
    """

    source: str = ""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@cache
def read_published(method: str) -> Published:
    """All that was published for a method; nothing when there is no file."""
    file = files("mphil.methods").joinpath("published", f"{method}.toml")
    if not file.is_file():
        return Published()
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    return Published(content.pop("source"), content)


def published(method: str, benchmark: str) -> dict[str, Any]:
    """The hyperparameters that were published for a method on a benchmark; the most specific table wins.

    Raises:
        UsageError: there are none; the message names those there are.

    Example:
        >>> published("vrex", "good-motif-basis"), published("vrex", "good-motif-basis-concept")
        ({'weight': 100.0}, {'weight': 1000.0})
    """
    tables = read_published(method).tables
    matching = [name for name in tables if f"{benchmark}-".startswith(f"{name}-")]
    if not matching:
        known = ", ".join(tables) or "none at all"
        raise UsageError(
            f"preset {PRESET}: no settings of {method} were published for {benchmark or 'unnamed data'}, only for: "
            f"{known}; leave the preset out to take the defaults"
        )
    return dict(tables[max(matching, key=len)])
