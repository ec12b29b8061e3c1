"""Hyperparameters that have another name now, or are gone: a bundle that names them still loads.

Whoever renames a hyperparameter, or takes one away, adds a line to `RETIRED` in the same commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mphil.config import NamedArgs
from mphil.errors import UsageError
from mphil.model.bundle.contents import BundleConfig


@dataclass(frozen=True)
class Renamed:
    """It is called `to` now, and means the same."""

    to: str


@dataclass(frozen=True)
class Fixed:
    """It is gone: the method does what it did with this value."""

    at: Any


RETIRED: dict[str, dict[str, Renamed | Fixed]] = {}
"""Name of a method to its retired hyperparameters; none is retired since numerics have a number."""


def renewed(config: BundleConfig) -> BundleConfig:
    """The settings of a bundle with the present names of all hyperparameters.

    Raises:
        UsageError: a hyperparameter that is gone has a value that the method no longer has.
    """
    committee = config.committee
    if committee is not None:
        members = [
            one if one.method is None else one.model_copy(update={"method": _renewed(one.method)})
            for one in committee.members
        ]
        committee = committee.model_copy(update={"members": tuple(members)})
    return config.model_copy(update={"method": _renewed(config.method), "committee": committee})


def _renewed(method: NamedArgs) -> NamedArgs:
    retired: Mapping[str, Renamed | Fixed] = RETIRED.get(method.name, {})
    args = {}
    for name, value in method.args.items():
        change = retired.get(name)
        if isinstance(change, Renamed):
            args[change.to] = value
        elif change is None:
            args[name] = value
        elif value != change.at:
            raise UsageError(f"{method.name} no longer has {name}={value!r}, it does what it did with {change.at!r}")
    return method.model_copy(update={"args": args})
