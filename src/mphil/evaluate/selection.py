"""Which epoch of a run is reported: the rule is printed beside every number it chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from mphil.errors import UnknownName

Selection = Literal["ood_val", "id_val", "last"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)


def best_epoch(history: Sequence[Mapping[str, Any]], rule: Selection) -> int | None:
    """The epoch with the highest score on the part the rule names, the earliest of equals; `last` takes the last.

    Args:
        history: a record per epoch, `{"epoch": 3, "scores": {"id_val": 0.9, "ood_val": None}}`; None = undefined.
        rule: the part to choose on.

    Returns:
        The epoch's number, or None when the part has no score in any epoch.

    Example:
        >>> best_epoch([{"epoch": 0, "scores": {"id_val": 0.7}}, {"epoch": 1, "scores": {"id_val": 0.8}}], "id_val")
        1
    """
    if rule not in SELECTIONS:
        raise UnknownName("selection", rule, SELECTIONS)
    if rule == "last":
        return int(history[-1]["epoch"]) if history else None
    scored = [record for record in history if record["scores"].get(rule) is not None]
    return int(max(scored, key=lambda record: record["scores"][rule])["epoch"]) if scored else None
