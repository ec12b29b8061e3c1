"""The recipe of each family of data: what all rows of a suite with `recipes = true` have on a benchmark of it."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from mphil.lab.suite import begins
from mphil.training.settings import Wanted, merge


def recipe(benchmark: str, method: str) -> Wanted:
    """The settings of a method on a benchmark; none where its family has no recipe.

    Example:
        >>> recipe("drugood-ec50-size", "erm")["encoder"]
        {'readout': 'max', 'dropout': 0.5}
        >>> recipe("drugood-ec50-size", "mphil+")["method"]
        {'pooled': True}
    """
    return merge(
        {section: values for section, values in entry.items() if section not in ("benchmarks", "methods")}
        for entry in _recipes()
        if any(begins(benchmark, words) for words in entry["benchmarks"]) and method in entry.get("methods", [method])
    )


@cache
def _recipes() -> list[dict[str, Any]]:
    text = files("mphil.lab").joinpath("recipes.toml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = tomllib.loads(text)["recipe"]
    return entries
