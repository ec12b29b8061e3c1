"""Which epoch of a run is reported: the rule is printed beside every number it chose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from mphil.errors import UnknownName

Selection = Literal["ood_val", "id_val", "last"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
History = Sequence[Mapping[str, Any]]
"""A record per epoch, `{"epoch": 3, "scores": {"id_val": 0.9, "ood_val": None}}`; None = undefined."""


def best_epoch(
    history: History, rule: Selection, window: int = 1, min_epochs: int = 0, *, lower: bool = False
) -> int | None:
    """The epoch with the best score on the part the rule names, the earliest of equals; `last` takes the last.

    Args:
        history: a record per epoch.
        rule: the part to choose on.
        window: the score of an epoch is the mean over it and those before it, so many in all; it has none where they
            are fewer, or where one of them has none.
        min_epochs: number of the first epoch that may be chosen.
        lower: the score is an error, of which the lowest is best.

    Returns:
        The epoch's number, or None when no epoch has a score.

    Example:
        >>> history = [{"epoch": n, "scores": {"id_val": score}} for n, score in enumerate([0.9, 0.1, 0.7, 0.8], 1)]
        >>> best_epoch(history, "id_val"), best_epoch(history, "id_val", window=2)
        (1, 4)
    """
    if rule not in SELECTIONS:
        raise UnknownName("selection", rule, SELECTIONS)
    if rule == "last":
        return int(history[-1]["epoch"]) if history else None
    scores = [record["scores"].get(rule) for record in history]
    smoothed: dict[int, float] = {}
    for end in range(window, len(history) + 1):
        recent = scores[end - window : end]
        epoch = int(history[end - 1]["epoch"])
        if None not in recent and epoch >= min_epochs:
            smoothed[epoch] = math.fsum(recent) / window
    best = min if lower else max
    return best(smoothed, key=smoothed.__getitem__) if smoothed else None


def last_scores(history: History, epochs: int = 5) -> dict[str, float | None]:
    """The score of each part as the mean over the last epochs, which no choice can flatter; None where one has none."""
    recent = [record["scores"] for record in history[-epochs:]]
    columns = {part: [scores[part] for scores in recent] for part in (recent[-1] if recent else ())}
    return {part: None if None in values else math.fsum(values) / len(values) for part, values in columns.items()}
