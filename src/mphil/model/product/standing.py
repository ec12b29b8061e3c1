"""Who of a committee is best on a test part, by how much, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.task import Task
from mphil.training.compare import paired_difference
from mphil.training.metrics import score

COMMITTEE = "committee"
"""What all members together are called in tables of scores."""

Floats = NDArray[np.float64]


def part_scores(logits: Mapping[str, Floats], y: Floats, task: Task) -> dict[str, float | None]:
    """The metric of every model on a part."""
    labels = torch.from_numpy(y)
    return {name: score(torch.from_numpy(said), labels, task) for name, said in logits.items()}


def beside_baselines(scores: Mapping[str, Mapping[str, float | None]], task: Task) -> dict[str, Any] | None:
    """The model of a bundle, the last of the scores, against the best of those that were trained to compare with.

    What the others say about each row is not kept, so whether the difference is chance is not told.

    Args:
        scores: name of every model to the metric of the test parts.
        task: what is asked, with its metric.

    Returns:
        Plain values with a `sentence` for people; None without another model, or where the metric is not defined.
    """
    part = "ood_test"
    known = {name: value for name, found in scores.items() if (value := found.get(part)) is not None}
    own, sign = list(scores)[-1] if scores else "", -1.0 if task.lower_is_better else 1.0
    others = sorted((name for name in known if name != own), key=lambda name: -sign * known[name])
    if own not in known or not others:
        return None
    ahead = sign * known[own] >= sign * known[others[0]]
    best, second = (own, others[0]) if ahead else (others[0], own)
    side, gap = "below" if task.lower_is_better else "above", abs(known[best] - known[second])
    told = f"best on ood-test: {best} ({known[best]:.3f}), {gap:.3f} {side} {second} ({known[second]:.3f})"
    if not ahead:
        told += f"; the bundle holds {own}, and without --fast models of both kinds answer together"
    return {"part": part, "best": best, "second": second, "difference": gap, "sentence": told}


def standing(part: str, logits: Mapping[str, Floats], y: Floats, task: Task) -> dict[str, Any] | None:
    """The best model of a part against the committee, or the committee against the best of its members.

    Args:
        part: its name.
        logits: name of every model, and `COMMITTEE`, to (n, outputs).
        y: (n, tasks) labels, NaN = missing.
        task: what is asked, with its metric.

    Returns:
        Plain values with a `sentence` for people; None where the metric is not defined.
    """
    scores = {name: value for name, value in part_scores(logits, y, task).items() if value is not None}
    sign = -1.0 if task.lower_is_better else 1.0
    others = sorted((name for name in scores if name != COMMITTEE), key=lambda name: -sign * scores[name])
    if COMMITTEE not in scores or not others:
        return None
    ahead = sign * scores[COMMITTEE] >= sign * scores[others[0]]
    best, second = (COMMITTEE, others[0]) if ahead else (others[0], COMMITTEE)
    gap = paired_difference(logits[best], logits[second], y, task)
    if gap is None:
        return None
    shown, side = part.replace("_", "-"), "below" if task.lower_is_better else "above"
    meaning = "more than chance" if gap.is_clear else "may be chance"
    return {
        "part": part,
        "best": best,
        "second": second,
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
        "clear": gap.is_clear,
        "sentence": f"best on {shown}: {best} ({scores[best]:.3f}), {abs(gap.value):.3f} {side} {second} "
        f"({scores[second]:.3f}); 95 % interval of the difference {gap.low:.3f} to {gap.high:.3f}: {meaning}",
    }
