"""From the name of a split to the part of every row that a survey found."""

from __future__ import annotations

from mphil.data.roles import PART_NAMES
from mphil.data.splitting import Assignment, at_random, by_domain, predefined
from mphil.data.survey import Survey
from mphil.errors import UnknownName

RULES = ("scaffold", "size", "random", "predefined")
"""Splits that are no column of a table."""

MOST_COLUMNS = 5
"""Columns that are offered as domains unless they are asked for."""


def sensible_splits(survey: Survey) -> list[str]:
    """Names of the splits worth a look: all rules, and the first columns that could be domains."""
    rules = [*(["predefined"] if survey.part else []), *(["scaffold"] if survey.scaffold else []), "size"]
    return list(dict.fromkeys([*rules, *list(survey.domains)[:MOST_COLUMNS], "random"]))


def find_domain(name: str, survey: Survey) -> list[str] | None:
    """(n,) domain of each usable row under a split; None when the split does not go by domains.

    Raises:
        UnknownName: there is no split and no column of that name.
    """
    if name == "scaffold" and survey.scaffold:
        return survey.scaffold.values()
    if name == "size":
        return [str(size) for size in survey.size.tolist()]
    if name in survey.domains:
        return survey.domains[name].values()
    if name == "random" or (name == "predefined" and survey.part):
        return None
    raise UnknownName("split", name, sensible_splits(survey))


def assign(name: str, survey: Survey, domain: list[str] | None) -> Assignment:
    """Part and environment of each usable row.

    Args:
        name: `scaffold`, `size`, `random`, `predefined` or the name of a column.
        survey: the rows.
        domain: what `find_domain` says of them.

    Raises:
        DataError: the rows cannot be split that way.
    """
    keys = survey.keys.values()
    if domain is not None:
        return by_domain(domain, keys, descending=name == "size")
    if name == "predefined" and survey.part:
        return predefined(survey.part.values(), PART_NAMES)
    return at_random(keys)
