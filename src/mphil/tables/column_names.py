"""Names for the columns that are added to somebody's table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count

PREFIX = "mphil_"


def free_names(wanted: Sequence[str], taken: Sequence[str]) -> tuple[list[str], str]:
    """The wanted names, those that the table already uses changed; and what was changed, in a sentence.

    Example:
        >>> free_names(["prediction", "status"], ["smiles", "status"])
        (['prediction', 'mphil_status'], "the table has columns of these names, ours are called: 'mphil_status'")
    """
    used = {name.strip() for name in taken}
    names, changed = [], []
    for name in wanted:
        numbered = (f"{PREFIX}{name}_{number}" for number in count(2))
        free = next(choice for choice in chain((name, f"{PREFIX}{name}"), numbered) if choice not in used)
        if free != name:
            changed.append(repr(free[:60]))
        used.add(free)
        names.append(free)
    note = f"the table has columns of these names, ours are called: {', '.join(changed)}" if changed else ""
    return names, note
